// The playground: bars of attention that a reader moves, and what the model would have said.
const section = byId("playground"), by = (id) => byId(`play-${id}`);
const say = (id, text) => by(id).replaceChildren(text);
const form = by("form"), tokens = by("tokens"), typed = by("weight");
const CEILINGS = [0.05, 0.1, 0.25, 0.5, 1], MOST_CLASSES = 6, MOST_STEPS = 60, PROVEN = 1e-3;
const state = {
  data: null, entry: null, one: null, target: null, // what the page has, of it the instance shown, and its output
  bars: [], selected: 0, ceiling: 1, steps: [], drag: null,
};
const now = () => (state.drag?.next ?? state.steps.at(-1)).weights;

function measured(weights) {
  const p = model.prediction(state.one, weights);
  return { weights, p, tvd: model.tvd(p, state.target), jsd: model.jsd(weights, state.one.own) };
}

// Bars
function build() {
  const { tokens: listed, rest, gaps } = state.entry;
  const words = [...listed, ...(rest ? [`${rest} other tokens`] : [])];
  state.bars = words.map((word, t) => {
    const bar = element("div", "play-bar", element("i"), element("span", "token", word));
    bar.classList.toggle("rest", t === listed.length);
    return Object.assign(bar, {
      role: "slider", ariaOrientation: "vertical", ariaValueMin: "0", ariaValueMax: "1",
      ariaLabel: `${word}, token ${t + 1} of ${words.length}`,
    });
  });
  const skipped = (t) => (gaps.includes(t) ? [element("span", "muted", "…")] : []);
  tokens.replaceChildren(...state.bars.flatMap((bar, t) => [...skipped(t), bar]));
}

function select(t, focus) {
  state.selected = Math.min(Math.max(t, 0), state.bars.length - 1);
  state.bars.forEach((bar, k) => {
    bar.tabIndex = k === state.selected ? 0 : -1; // one stop for the tab key
    bar.ariaCurrent = k === state.selected ? "true" : null;
  });
  if (focus) state.bars[state.selected].focus();
  drawSelected();
}

function drawBars() {
  const { one: { own }, bars, ceiling } = state, weights = now();
  bars.forEach((bar, t) => {
    const share = weights[t] / ceiling;
    bar.style.setProperty("--w", Math.min(share, 1));
    bar.style.setProperty("--own", Math.min(own[t] / ceiling, 1));
    bar.classList.toggle("over", share > 1);
    bar.ariaValueNow = weights[t].toFixed(4);
    bar.ariaValueText = `${fixed(weights[t])}, the model's own ${fixed(own[t])}`;
  });
  say("scale", `A full bar is a weight of ${ceiling}.`);
}

function drawSelected() {
  const { one, bars, selected: t } = state;
  say("word", bars[t].lastChild.textContent);
  typed.value = String(Number(now()[t].toFixed(4)));
  say("own", `the model's own ${fixed(one.own[t])}`);
}

// Readings
// The classes with the most probability, now or under the model's own attention.
function drawOutput({ p, tvd, jsd }) {
  const [shown, own] = [p, state.target].map(model.classes), { classes } = state.data;
  const same = model.decided(p) === model.decided(state.target), decision = same ? "the same" : "flipped";
  const most = shown.map((share, c) => [Math.max(share, own[c]), c]).sort(([a], [b]) => b - a);
  by("bars").replaceChildren(...most.slice(0, MOST_CLASSES).map(([, c]) => {
    const bar = element("i"), value = element("b", "", shown[c].toFixed(3));
    bar.style.setProperty("--w", shown[c]);
    bar.style.setProperty("--own", own[c]);
    return element("p", "play-row", element("span", "", classes[c]), bar, value);
  }));
  say("tvd", fixed(tvd));
  say("jsd", fixed(jsd));
  say("decision", decision);
  by("decision").className = same ? "" : "flipped";
  return `TVD ${fixed(tvd)}, JSD ${fixed(jsd)}; `
    + `${classes[model.decided(p)]} ${Math.max(...shown).toFixed(3)}, ${decision}`;
}

// How different the attention is, by how much the output changes: the frontier, and the steps to the present.
function drawPlane(readings) {
  const { entry: { frontier: curve }, data: { epsilon } } = state, { LN2 } = Math;
  const { parts, across, up, left, right, top, bottom } = axes(460, 330, {
    ends: [0, 1], ticks: [0, 0.01, 0.05, 0.1, 0.25, 0.5, 1], bend: Math.sqrt, // most changes are small
    title: "change of the output (TVD, square-root scale)",
  }, { ends: [0, LN2], ticks: [0, 0.2, 0.4, 0.6], title: "change of the attention (JSD)" });
  const at = across(epsilon);
  parts.push(
    svg("rect", { class: "room", x: left, y: top, width: at - left, height: bottom - top }),
    svg("text", { class: "good", x: at + 5, y: up(0.5 * LN2) }, `ε = ${epsilon}`),
    line([[at, top], [at, bottom]], { class: "limit", "stroke-dasharray": "5 3" }),
    line([[left, top], [right, top]], { class: "axis", "stroke-dasharray": "2 3" }),
    svg("text", { x: right, y: top - 5, "text-anchor": "end", "font-style": "italic" }, "ln 2"),
  );
  if (curve) {
    const [found, bound] = [1, 2].map((k) => curve.map((point) => [across(point[0]), up(point[k])]));
    const loose = curve.some(([, jsd, upper]) => upper - jsd > PROVEN);
    if (loose) parts.push(line([...found, ...bound.toReversed()], { class: "band" }));
    parts.push(line(found, { class: "line", "stroke-width": 2 }));
  }
  const points = readings.map(({ tvd, jsd }) => [across(tvd), up(jsd)]), last = points.length - 1;
  parts.push(line(points, { class: "trail", "stroke-width": 1.5 }), ...points.map(([cx, cy], k) => svg("circle", {
    cx, cy, r: k < last ? 2.5 : 5, class: k < last ? "past" : "now",
  })));
  by("plane").replaceChildren(...by("plane").querySelectorAll("title, desc"), ...parts);
}

function drawLimit() {
  const { entry, data: { epsilon } } = state;
  const point = entry.frontier?.find(([at]) => Math.abs(at - epsilon) < 1e-6);
  const [found, bound] = point?.slice(1) ?? entry.emax ?? [];
  say("most", found === undefined ? "" : `Most different within ε = ${epsilon}: JSD ${fixed(found)}, `
    + (bound - found <= PROVEN ? "the proven maximum." : `the largest found; none exceeds ${fixed(bound)}.`));
}

function draw() {
  const readings = [...state.steps, ...(state.drag?.next ? [state.drag.next] : [])];
  drawBars();
  drawSelected();
  drawPlane(readings.slice(-MOST_STEPS));
  return drawOutput(readings.at(-1));
}

// Moves
function settle() {
  const { one: { own, listed }, steps } = state;
  const highest = Math.max(...now().slice(0, listed), ...own.slice(0, listed));
  state.ceiling = CEILINGS.find((one) => one >= highest - 1e-9) ?? 1;
  form.elements.undo.disabled = steps.length === 1;
  const text = draw();
  say("said", text);
  say("plane-text", text);
}

// Steps with the same `merge` are one, as those of a key that is held.
function step(weights, merge = null) {
  if (!weights) return;
  if (merge !== null && state.steps.at(-1).merge === merge) state.steps.pop();
  state.steps.push({ ...measured(weights), merge });
  settle();
}

function undo() {
  if (state.steps.length > 1) state.steps.pop();
  settle();
}

function move(t, weight, merge) {
  if (Number.isFinite(weight)) step(model.moved(now(), t, weight, state.one.own), merge);
}

function removeLargest() {
  const listed = now().slice(0, state.one.listed);
  step(model.without(now(), [listed.indexOf(Math.max(...listed))]));
}

// Instances
function choose(index) {
  const entry = state.data.instances[index];
  if (typeof entry.adversary === "string") entry.adversary = model.numbers(entry.adversary);
  const one = model.row(entry, state.data.model);
  Object.assign(state, { entry, one, target: model.prediction(one, one.own) });
  state.steps = [measured(one.own)];
  form.elements.instance.value = String(index);
  form.elements.adversary.disabled = !entry.adversary;
  form.elements.flip.disabled = !entry.minimum;
  by("question").hidden = !entry.question;
  say("question", `Read with: ${entry.question}`);
  build();
  select(0);
  drawLimit();
  settle();
}

// The address is #play-<instance>.
function follow() {
  const index = state.data?.instances.findIndex(({ id }) => location.hash === `#play-${id}`) ?? -1;
  if (index < 0) return;
  choose(index);
  section.scrollIntoView();
}

function load(data) {
  state.data = data;
  form.elements.instance.replaceChildren(...data.instances.map(({ title, predicted }, k) => (
    new Option(`${title}: ${predicted}`, k))));
  choose(0);
  follow();
}

// Events
const ACTIONS = {
  own: () => step(state.one.own),
  uniform: () => step(model.uniform(state.one)),
  shuffle: () => step(model.shuffled(state.one, now(), Math.random)),
  adversary: () => step(state.entry.adversary),
  remove: removeLargest,
  flip: () => step(model.without(state.one.own, state.entry.minimum)),
  undo,
};
on(section, "click", ({ target }) => ACTIONS[target.closest("button")?.name]?.());
on(section, "submit", (event) => event.preventDefault());
on(form.elements.instance, "change", ({ target }) => choose(Number(target.value)));
on(typed, "change", () => move(state.selected, typed.valueAsNumber));

const shift = (change) => (t) => move(t, Math.round((now()[t] + change) * 1e4) / 1e4, `key ${t}`);
const KEYS = {
  ArrowLeft: (t) => select(t - 1, true), ArrowRight: (t) => select(t + 1, true),
  ArrowUp: shift(0.01), ArrowDown: shift(-0.01), PageUp: shift(0.1), PageDown: shift(-0.1),
  Home: (t) => move(t, 0), End: (t) => move(t, 1), Enter: () => {
    typed.focus();
    typed.select();
  },
  Delete: (t) => move(t, now()[t] > 0 ? 0 : state.one.own[t]),
};
on(tokens, "keydown", (event) => {
  const t = state.bars.indexOf(event.target), undoes = event.ctrlKey && event.key === "z";
  const act = undoes ? undo : KEYS[event.key];
  if (t < 0 || event.altKey || event.metaKey || (event.ctrlKey && !undoes) || !act) return;
  act(t);
  event.preventDefault();
});
on(tokens, "focusin", ({ target }) => {
  const t = state.bars.indexOf(target);
  if (t >= 0 && t !== state.selected) select(t);
});
on(tokens, "pointerdown", (event) => {
  const bar = event.target.closest(".play-bar");
  if (!bar || event.button !== 0) return;
  select(state.bars.indexOf(bar), true);
  event.preventDefault();
  bar.setPointerCapture(event.pointerId);
  state.drag = { from: event.clientY, base: now(), height: bar.firstChild.clientHeight, next: null };
});
on(tokens, "pointermove", ({ clientY }) => {
  const { drag, selected, one, ceiling } = state;
  if (!drag || (!drag.next && Math.abs(clientY - drag.from) < 2)) return;
  const weight = drag.base[selected] + ((drag.from - clientY) / drag.height) * ceiling;
  drag.next = measured(model.moved(drag.base, selected, weight, one.own));
  draw();
});
const drop = (isKept) => () => {
  const { drag } = state;
  state.drag = null;
  if (drag?.next && isKept) step(drag.next.weights);
  else if (drag) draw();
};
on(tokens, "pointerup", drop(true));
on(tokens, "pointercancel", drop(false));

window.playground = { state, load, now, measured };
const played = dataOf("playground-data");
if (played) load(played);

on(document, "click", ({ target }) => {
  const pressed = target.closest('a[href^="#play-"]');
  if (pressed?.hash === location.hash) follow(); // no change of the address
});
addEventListener("hashchange", follow);
