// The text of a row shaded by each kind of weights; a button shows of a long one what has the most weight.
const BUDGET = 120, NEAR = 2, UNIFORM = 4;
const CAPTIONS = { alpha: "Attention", adversary: "Adversarial attention", gradient: "Gradient", loo: "Leave-one-out" };

function heatmap(tokens, question, weights, row, title) {
  const made = element("div", "heatmap");
  if (title) made.append(element("h4", "", title));
  if (question.length) {
    const asked = element("p", "question", "Read with: ");
    asked.append(element("q", "", question.join(" ")));
    made.append(asked);
  }
  const kinds = weights.kinds.map((kind) => ({ kind, top: weights.top(kind, row), shares: weights.shares(kind, row) }));
  const marks = { known: weights.mark("rationale", row), special: weights.mark("special", row) };
  const strips = element("div", "strips");
  const draw = (positions) => strips.replaceChildren(...kinds.map((one) => strip(tokens, one, marks, positions)));
  const every = Array.from(tokens, (_, position) => position), few = heaviest(every, kinds);
  draw(every);
  made.append(strips);
  if (few.length < tokens.length) {
    const shades = kinds[0].shares;
    scrollTogether(strips, shades.indexOf(Math.max(...shades)));
    const more = element("button", "more");
    more.type = "button";
    const label = (whole) => (more.textContent = whole ? "Show only those around the most weight" : `Show all ${thousands(tokens.length)} tokens`);
    let whole = true;
    label(whole);
    more.addEventListener("click", () => {
      draw(whole ? few : every);
      label((whole = !whole));
    });
    made.append(more);
  }
  return made;
}

function strip(tokens, { kind, top, shares }, marks, positions) {
  const made = element("div", "strip");
  const head = element("p", "strip-head"), largest = element("span", "muted", `top ${Number(top.toPrecision(3))}`);
  largest.title = "The largest value. Each strip has a scale of its own: compare texts by this, not by their shades.";
  head.append(element("b", "", CAPTIONS[kind]), " ", largest);
  const text = element("p", `tokens ${kind}`);
  const sum = shares.reduce((a, b) => a + b, 0);
  const full = Math.max(1, Math.min((UNIFORM * sum) / tokens.length, sum)); // nearly uniform weights look pale
  const pieces = withGaps(positions, tokens.length);
  const gap = (skipped) => `… ${skipped} token${skipped === 1 ? "" : "s"} …`;
  appendTokens(text, pieces.length, (k) => {
    const { position, skipped } = pieces[k];
    if (skipped) return element("span", "gap", gap(skipped));
    const span = element("span", "token", tokens[position]);
    if (marks.known && marks.known[position]) span.classList.add("known");
    if (marks.special && marks.special[position]) span.classList.add("special");
    span.style.setProperty("--w", (shares[position] / full).toFixed(3));
    span.title = String(Number((shares[position] * top).toPrecision(3)));
    return span;
  }, (k) => (pieces[k].skipped ? gap(pieces[k].skipped) : tokens[pieces[k].position]));
  made.append(head, text);
  return made;
}

// The `positions` in order, and between them how many tokens are not shown.
function withGaps(positions, length) {
  let before = -1;
  return [...positions, length].flatMap((position) => {
    const skipped = position - before - 1;
    before = position;
    return [...(skipped ? [{ skipped }] : []), ...(position < length ? [{ position }] : [])];
  });
}

// The positions of the largest weights of any kind, with their neighbours, in order; all of a short text.
function heaviest(every, kinds) {
  const length = every.length;
  if (length <= BUDGET) return every;
  const most = every.map((position) => Math.max(...kinds.map(({ shares }) => shares[position])));
  const shown = new Set();
  for (const position of [...every].sort((a, b) => most[b] - most[a])) {
    if (shown.size >= BUDGET) break;
    for (let near = position - NEAR; near <= position + NEAR; near += 1) if (near >= 0 && near < length) shown.add(near);
  }
  return [...shown].sort((a, b) => a - b);
}

window.addEventListener("beforeprint", () => document.querySelectorAll(".heatmap .block").forEach(fillBlock));
