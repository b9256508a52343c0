// Step through the removals: the output under what is left of the attention, computed from the trace's own numbers.
(() => {
  const source = document.getElementById("steps-data");
  const form = document.getElementById("steps-form");
  if (!source || !form) return;
  const { instances, classes } = JSON.parse(source.textContent);
  const tokens = document.getElementById("steps-tokens");
  const bars = document.getElementById("steps-bars");
  const curve = document.getElementById("steps-curve");
  const said = document.getElementById("steps-said");
  const first = document.getElementById("steps-first");
  const { instance, order, removed, flip, none } = form.elements;
  const state = { one: null, removed: new Set(), byHand: false, walk: [], walked: [] };

  function logits(one, removed) {
    let mass = 0;
    const sums = one.offset.map(() => 0);
    one.alpha.forEach((weight, t) => {
      if (removed.has(t)) return;
      mass += weight;
      one.readout.forEach((row, c) => { sums[c] += weight * row[t]; });
    });
    return mass > 0 ? sums.map((sum, c) => one.offset[c] + sum / mass) : null;
  }

  function probabilities(one, removed) {
    const z = logits(one, removed);
    if (z === null) return null;
    if (z.length === 1) {
      const p = 1 / (1 + Math.exp(-z[0]));
      return [1 - p, p];
    }
    const allowed = (c) => one.allowed === null || one.allowed[c];
    const highest = Math.max(...z.filter((_, c) => allowed(c)));
    const raised = z.map((value, c) => (allowed(c) ? Math.exp(value - highest) : 0));
    const total = raised.reduce((a, b) => a + b, 0);
    return raised.map((value) => value / total);
  }

  function decided(p) {
    if (p.length === 2 && state.one.offset.length === 1) return p[1] >= 0.5 ? 1 : 0;
    return p.indexOf(Math.max(...p));
  }

  // ∂ log-odds of the decided class / ∂ alpha: only its order counts.
  function slope(one) {
    const z = logits(one, new Set());
    const y = decided(probabilities(one, new Set()));
    if (z.length === 1) return one.readout[0].map((r) => (y === 1 ? r : -r));
    const rivals = z.map((value, c) => (c !== y && (one.allowed === null || one.allowed[c]) ? value : -Infinity));
    const highest = Math.max(...rivals);
    const raised = rivals.map((value) => (value === -Infinity ? 0 : Math.exp(value - highest)));
    const total = raised.reduce((a, b) => a + b, 0) || 1;
    return one.alpha.map((_, t) => one.readout[y][t] - raised.reduce((sum, weight, c) => sum + (weight / total) * one.readout[c][t], 0));
  }

  function descending(score) {
    return score.map((value, t) => [value, t]).sort(([a, i], [b, j]) => b - a || i - j).map(([, t]) => t);
  }

  function walkOf(one, ranking) {
    if (ranking === "minimum") {
      const rest = descending(one.alpha).filter((t) => !one.minimum.includes(t));
      return [...one.minimum, ...rest];
    }
    if (ranking === "attention") return descending(one.alpha);
    const g = slope(one);
    return descending(ranking === "gradient" ? g : g.map((value, t) => value * one.alpha[t]));
  }

  function walkThrough() {
    const removed = new Set();
    state.walked = [probabilities(state.one, removed)];
    for (const t of state.walk.slice(0, -1)) {
      removed.add(t);
      state.walked.push(probabilities(state.one, removed));
    }
  }

  function firstFlip() {
    const y = decided(state.walked[0]);
    const found = state.walked.findIndex((p) => p !== null && decided(p) !== y);
    return found === -1 ? null : found;
  }

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Once for an instance: a text of 2,000 tokens takes too long to build at every step.
  function buildTokens() {
    const top = Math.max(...state.one.alpha);
    tokens.replaceChildren(...state.one.tokens.flatMap((word, t) => {
      const made = element("button", "token", word);
      made.type = "button";
      made.style.setProperty("--w", top > 0 ? state.one.alpha[t] / top : 0);
      made.title = String(Number(state.one.alpha[t].toPrecision(3)));
      made.tabIndex = t === 0 ? 0 : -1; // one stop for the tab key; arrows go from token to token
      made.addEventListener("click", () => toggle(t));
      return [made, " "];
    }));
  }

  function drawTokens() {
    Array.from(tokens.children, (token, t) => {
      const pressed = String(state.removed.has(t));
      if (token.getAttribute("aria-pressed") !== pressed) token.setAttribute("aria-pressed", pressed);
    });
  }

  function drawBars(p) {
    const shown = p === null ? [] : p.map((value, c) => [value, c]).sort(([a], [b]) => b - a).slice(0, 5);
    bars.replaceChildren(...shown.map(([value, c]) => {
      const row = element("p", "steps-bar");
      const bar = element("i");
      bar.style.width = `${100 * value}%`;
      row.append(element("span", "", classes[c]), bar, element("b", "", value.toFixed(3)));
      return row;
    }), ...(p !== null && p.length > shown.length ? [element("p", "note", `the ${shown.length} most probable of ${p.length} classes`)] : []));
  }

  function svg(tag, attributes, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  const LEFT = 40, RIGHT = 460, TOP = 26, BOTTOM = 160;

  function point(k, p) {
    return [LEFT + ((RIGHT - LEFT) * k) / Math.max(state.walked.length - 1, 1), BOTTOM - (BOTTOM - TOP) * p];
  }

  function axes(y) {
    const last = state.walked.length - 1;
    const step = Math.max(1, Math.ceil(last / 6));
    const across = Array.from({ length: Math.floor(last / step) + 1 }, (_, i) => i * step);
    return [
      svg("path", { d: `M${LEFT} ${TOP}V${BOTTOM}H${RIGHT}`, class: "axis" }),
      ...[0, 0.5, 1].flatMap((p) => [
        svg("path", { d: `M${LEFT} ${point(0, p)[1]}H${RIGHT}`, class: "grid" }),
        svg("text", { x: LEFT - 6, y: point(0, p)[1] + 4, "text-anchor": "end" }, String(p)),
      ]),
      ...across.map((k) => svg("text", { x: point(k, 0)[0], y: BOTTOM + 16, "text-anchor": "middle" }, String(k))),
      svg("text", { x: (LEFT + RIGHT) / 2, y: BOTTOM + 34, "text-anchor": "middle" }, "tokens removed"),
      svg("text", { x: 0, y: 12 }, `probability of ${shortened(classes[y])}`),
    ];
  }

  function shortened(name) {
    return name.length > 24 ? `${name.slice(0, 23)}…` : name;
  }

  function drawCurve(y) {
    const points = state.walked.map((p, k) => (p === null ? null : point(k, p[y]))).filter(Boolean);
    const parts = [...axes(y), svg("path", { d: `M${points.map((xy) => xy.map((v) => v.toFixed(1)).join(" ")).join("L")}`, class: "line" })];
    const flipped = firstFlip();
    if (flipped !== null) {
      const [x] = point(flipped, 0);
      const side = x > (LEFT + RIGHT) / 2 ? { x: x - 5, "text-anchor": "end" } : { x: x + 5 };
      parts.push(svg("path", { d: `M${x.toFixed(1)} ${TOP}V${BOTTOM}`, class: "flip" }), svg("text", { ...side, y: TOP + 10 }, "first flip"));
    }
    const now = state.walked[state.removed.size];
    if (!state.byHand && now) {
      const [cx, cy] = point(state.removed.size, now[y]);
      parts.push(svg("circle", { cx, cy, r: 4, class: "now" }));
    }
    curve.replaceChildren(curve.firstElementChild, ...parts);
  }

  function draw() {
    const p = probabilities(state.one, state.removed);
    const y = decided(state.walked[0]);
    drawTokens();
    drawBars(p);
    drawCurve(y);
    const held = [...state.removed].reduce((sum, t) => sum + state.one.alpha[t], 0);
    const other = p !== null && decided(p) !== y;
    said.textContent = `${state.removed.size} of ${state.one.tokens.length} tokens and ${(100 * held).toFixed(0)} % of the attention removed: `
      + (p === null ? "no weight is left" : `${classes[decided(p)]} ${Math.max(...p).toFixed(3)}${other ? ", flipped" : ""}`);
    said.dataset.flipped = String(other);
  }

  function walkTo(count) {
    state.byHand = false;
    state.removed = new Set(state.walk.slice(0, count));
    removed.value = String(count);
    draw();
  }

  function toggle(t) {
    state.byHand = true;
    if (!state.removed.delete(t)) state.removed.add(t);
    draw();
    focus(t);
  }

  function focus(t) {
    for (const token of tokens.children) token.tabIndex = -1;
    tokens.children[t].tabIndex = 0;
    tokens.children[t].focus();
  }

  function choose() {
    const chosen = instances[Number(instance.value)];
    if (chosen !== state.one) {
      state.one = chosen;
      buildTokens();
    }
    state.walk = walkOf(state.one, order.value);
    walkThrough();
    removed.max = String(state.walk.length - 1);
    const flipped = firstFlip();
    flip.disabled = flipped === null;
    first.textContent = flipped === null ? "No removal in this order flips the prediction." : `First flip after ${flipped} of ${state.one.tokens.length} tokens.`;
    walkTo(0);
  }

  tokens.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const t = Array.from(tokens.children).indexOf(event.target) + (step || 0);
    if (!step || t < 0 || t >= tokens.children.length) return;
    event.preventDefault();
    focus(t);
  });
  instance.addEventListener("change", choose);
  order.addEventListener("change", choose);
  removed.addEventListener("input", () => walkTo(Number(removed.value)));
  flip.addEventListener("click", () => walkTo(firstFlip()));
  none.addEventListener("click", () => walkTo(0));
  form.addEventListener("submit", (event) => event.preventDefault());
  choose();
})();
