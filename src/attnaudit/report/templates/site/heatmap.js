// The text of a row shaded by each kind of weights; a long one is cut to what has the most weight, with a button for the rest.
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
  const few = heaviest(tokens.length, kinds);
  draw(few);
  made.append(strips);
  if (few.length < tokens.length) {
    const more = element("button", "more", `Show all ${thousands(tokens.length)} tokens`);
    more.type = "button";
    more.addEventListener("click", () => {
      draw(Array.from(tokens, (_, position) => position));
      more.remove();
    });
    made.append(more);
  }
  return made;
}

function strip(tokens, { kind, top, shares }, marks, positions) {
  const made = element("div", "strip");
  const head = element("p", "strip-head");
  head.append(element("b", "", CAPTIONS[kind]), " ", element("span", "muted", `top ${Number(top.toPrecision(3))}`));
  const text = element("p", `tokens ${kind}`);
  const sum = shares.reduce((a, b) => a + b, 0);
  const full = Math.max(1, Math.min((UNIFORM * sum) / tokens.length, sum)); // nearly uniform weights look pale
  let before = -1;
  for (const position of [...positions, tokens.length]) {
    const skipped = position - before - 1;
    if (skipped) text.append(element("span", "gap", `… ${skipped} token${skipped === 1 ? "" : "s"} …`), " ");
    if (position < tokens.length) {
      const span = element("span", "token", tokens[position]);
      if (marks.known && marks.known[position]) span.classList.add("known");
      if (marks.special && marks.special[position]) span.classList.add("special");
      span.style.setProperty("--w", (shares[position] / full).toFixed(3));
      span.title = String(Number((shares[position] * top).toPrecision(3)));
      text.append(span, " ");
    }
    before = position;
  }
  made.append(head, text);
  return made;
}

// The positions of the largest weights of any kind, with their neighbours, in order; all of a short text.
function heaviest(length, kinds) {
  const every = Array.from({ length }, (_, position) => position);
  if (length <= BUDGET) return every;
  const most = every.map((position) => Math.max(...kinds.map(({ shares }) => shares[position])));
  const shown = new Set();
  for (const position of [...every].sort((a, b) => most[b] - most[a])) {
    if (shown.size >= BUDGET) break;
    for (let near = position - NEAR; near <= position + NEAR; near += 1) if (near >= 0 && near < length) shown.add(near);
  }
  return [...shown].sort((a, b) => a - b);
}
