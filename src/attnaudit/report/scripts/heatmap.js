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

// Appends tokens to `text`, each drawn by `token(word, position)`.
function appendTokens(text, words, token) {
  const nodes = (part, first) => part.flatMap((word, k) => [token(word, first + k), " "]);
  if (words.length <= 2 * BLOCK) return text.append(...nodes(words, 0));
  for (let first = 0; first < words.length; first += BLOCK) {
    const part = words.slice(first, first + BLOCK), block = element("span", "block", part.join(" "));
    unseen.set(block, () => nodes(part, first));
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

// The text with all its strips, below a `head`.
function heatmap(one, ...head) {
  const question = element("p", "question", "Read with: ", element("q", "", one.question));
  return element("div", "heatmap", ...head, ...(one.question ? [question] : []),
    element("div", "strips", ...one.strips.map((each) => strip(one, each))),
    ...(one.note ? [element("p", "note", one.note)] : []));
}

addEventListener("beforeprint", () => document.querySelectorAll(".block").forEach(fillBlock));
