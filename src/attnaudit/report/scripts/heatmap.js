// Texts shaded by weights. A text of many tokens is in blocks: each has its words as plain text, for the search
// and the screen reader, and its shaded tokens once it is in view.
const BLOCK = 100;
const OWN_SCALE = "The largest value. Each strip has a scale of its own: "
  + "compare texts by this, not by their shades.";
const unseen = new WeakMap(); // what fills the blocks that were not in view yet
const inView = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) fillBlock(target);
});

function fillBlock(block) {
  if (!unseen.has(block)) return;
  block.replaceChildren(...unseen.get(block)());
  unseen.delete(block);
  inView.unobserve(block);
}

const gap = (size) => `… ${size} token${size === 1 ? "" : "s"} …`;

// Appends `pieces` to `text`: tokens, each drawn by `token(text, position)`, or the size of a gap.
function appendTokens(text, pieces, token) {
  let count = 0;
  const positions = pieces.map((piece) => (typeof piece === "number" ? -1 : count++));
  const nodes = (first, last) => pieces.slice(first, last).flatMap((piece, k) => {
    const position = positions[first + k];
    return [position < 0 ? element("span", "gap", gap(piece)) : token(piece, position), " "];
  });
  if (pieces.length <= 2 * BLOCK) return text.append(...nodes(0));
  for (let first = 0; first < pieces.length; first += BLOCK) {
    const plain = pieces.slice(first, first + BLOCK);
    const words = plain.map((piece) => (typeof piece === "number" ? gap(piece) : piece));
    const block = element("span", "block", words.join(" "));
    unseen.set(block, () => nodes(first, first + BLOCK));
    inView.observe(block);
    text.append(block, " ");
  }
  // A box that scrolls is scrolled by keyboard.
  return Object.assign(text, { tabIndex: 0, role: "group", ariaLabel: "Tokens" });
}

const short = (value) => String(Number(value.toPrecision(3)));

function strip(one, [kind, caption, note, top, full, shades, spans]) {
  const head = element("p", "strip-head", element("b", "", caption), element("span", "", note));
  if (!spans.length) {
    const largest = element("span", "muted", `top ${top >= 0.001 || top === 0 ? top.toFixed(3) : "below 0.001"}`);
    largest.title = OWN_SCALE;
    head.append(largest);
  }
  const marked = ["known", "special"].map((mark) => [mark, new Set(one[mark])]);
  const text = element("p", `tokens ${kind}`);
  appendTokens(text, one.tokens, (word, k) => {
    const marks = marked.filter(([, places]) => places.has(k)).map(([mark]) => mark);
    const span = element("span", ["token", ...marks].join(" "), word);
    const [low, high] = (spans[k] ?? []).map((share) => share / 1000), own = shades[k] / 1000;
    const values = spans.length ? { "--low": low, "--high": high, "--own": own } : { "--w": own };
    for (const [name, value] of Object.entries(values)) span.style.setProperty(name, value);
    span.title = (marks.includes("special") ? "special token: " : "")
      + (spans.length ? `${low} to ${high}, its own ${own}` : short(own * full));
    return span;
  });
  return element("div", spans.length ? "strip wide-strip" : "strip", head, text);
}

const stripsOf = (one) => element("div", "strips", ...one.strips.map((each) => strip(one, each)));

// The text with all its strips, below a `head`.
function heatmap(one, ...head) {
  const question = element("p", "question", "Read with: ", element("q", "", one.question));
  return element("div", "heatmap", ...head, ...(one.question ? [question] : []), stripsOf(one),
    ...(one.note ? [element("p", "note", one.note)] : []));
}

// Every token in boxes that scroll together, from the one with the most attention.
function wholeText(one) {
  const strips = stripsOf(one), shades = one.strips[0][5];
  const boxes = Array.from(strips.querySelectorAll(".strip:not(.wide-strip) .tokens"));
  for (const box of boxes) {
    const follow = () => boxes.forEach((other) => { other.scrollTop = box.scrollTop; });
    on(box, "scroll", follow, { passive: true });
  }
  const most = shades.indexOf(Math.max(...shades));
  const first = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    first.disconnect();
    strips.querySelectorAll(".tokens").forEach((box) => scrollToToken(box, most));
  });
  first.observe(strips);
  strips.classList.add("whole");
  return strips;
}

function scrollToToken(box, most) {
  const from = (node) => node.getBoundingClientRect().top - box.getBoundingClientRect().top;
  const block = box.querySelectorAll(".block")[Math.floor(most / BLOCK)];
  if (!block) return;
  fillBlock(block);
  box.scrollTop += from(block); // what is out of view has an estimated height
  box.scrollTop += from(block.children[most % BLOCK]) - box.clientHeight / 2;
}

// Paper and pages without scripts show long texts cut; with scripts they have every token.
for (const [anchor, one] of Object.entries(dataOf("long-data") ?? {})) {
  const title = document.querySelector(`#heatmaps h4 a[href="#${CSS.escape(anchor)}"]`);
  const article = title.closest(".heatmap");
  const said = one.note || `All ${thousands(one.length)} tokens, scrolled to the most attention.`;
  article.querySelector(".strips").after(wholeText(one));
  article.append(element("p", "note whole", said));
  article.classList.add("long");
}
const everyBlock = (part) => part.querySelectorAll(".block").forEach(fillBlock);
addEventListener("beforeprint", () => everyBlock(document));
