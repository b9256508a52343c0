// The playground: bars of attention that are dragged, or points that were computed beforehand,
// tokens
// that are removed in an order, and what the output does.
const section = byId("playground"), by = (id) => byId(`play-${id}`);
const say = (id, text) => by(id).replaceChildren(text);
const form = by("form"), tokens = by("tokens"), token = by("token"), removing = by("removing");
const CEILINGS = [0.05, 0.1, 0.25, 0.5, 1], MOST_CLASSES = 6, MOST_STEPS = 60, PROVEN = 1e-3;
const computes = Boolean(token); // the page itself; else it has points: a share of one token
const state = {
  data: null, entry: null, one: null, target: null, bars: [], selected: 0, ceiling: 1, share: 0,
  steps: [], at: 0, drag: null, best: new Map(), // of attention that the reader moves
  walk: [], walked: [], flip: -1, // of tokens that are removed
};
const now = () => state.steps[state.at].weights;
const same = (p) => model.decided(p) === model.decided(state.target);
const words = () => state.bars.map((bar) => bar.lastChild.textContent);

function measured(weights) {
  const p = model.prediction(state.one, weights);
  return { p, tvd: model.tvd(p, state.target), jsd: model.jsd(weights, state.one.own) };
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
  const skipped = (t) => (gaps.includes(t) ? [element("span", "play-gap", "…")] : []);
  tokens.replaceChildren(...state.bars.flatMap((bar, t) => [...skipped(t), bar]));
}

function select(t, focus) {
  state.selected = Math.min(Math.max(t, 0), state.bars.length - 1);
  state.bars.forEach((bar, k) => {
    bar.tabIndex = k === state.selected ? 0 : -1; // one stop for the tab key
    bar.ariaCurrent = k === state.selected ? "true" : null;
  });
  if (focus) state.bars[state.selected].focus();
  if (computes) drawToken(now());
  else draw();
}

function drawBars(weights) {
  const { one: { own, listed }, bars } = state;
  bars.forEach((bar, t) => {
    const [share, mark] = [weights[t], own[t]].map((weight) => weight / state.ceiling);
    for (const name of ["--share", "--w"]) bar.style.setProperty(name, Math.min(share, 1));
    bar.style.setProperty("--own", Math.min(mark, 1));
    bar.classList.toggle("over", share > 1);
    bar.ariaValueNow = weights[t].toFixed(4);
    bar.ariaValueText = `${fixed(weights[t])}, the model's own ${fixed(own[t])}`;
  });
  say("scale", `A full bar is a weight of ${state.ceiling}.`);
}

function drawToken(weights) {
  const { entry, selected: t } = state;
  say("word", words()[t]);
  token.elements.weight.value = String(Number(weights[t].toFixed(4)));
  const { least, most } = entry, known = least?.[t] !== undefined;
  by("own").textContent = `the model's own ${fixed(state.one.own[t])}`
    + (known ? `; possible with nearly the same output: ${fixed(least[t])} to ${fixed(most[t])}`
      : "");
}

// Readings

// The classes with most probability, now or under the model's own attention.
function drawOutput({ p, tvd, jsd }) {
  const [shown, own] = [p, state.target].map(model.classes), { classes } = state.data;
  const most = shown.map((share, c) => [Math.max(share, own[c]), c]).sort(([a], [b]) => b - a);
  by("bars").replaceChildren(...most.slice(0, MOST_CLASSES).map(([, c]) => {
    const bar = element("i"), value = element("b", "", shown[c].toFixed(3));
    bar.style.setProperty("--share", shown[c]);
    bar.style.setProperty("--own", own[c]);
    return element("p", "play-row", element("span", "", classes[c]), bar, value);
  }));
  say("tvd", fixed(tvd));
  say("jsd", fixed(jsd));
  say("decision", same(p) ? "the same" : "flipped");
  by("decision").className = same(p) ? "" : "flipped";
  return `TVD ${fixed(tvd)}, JSD ${fixed(jsd)}; `
    + `${classes[model.decided(p)]} ${Math.max(...shown).toFixed(3)}, ${by("decision").textContent}`;
}

function tell(text) {
  say("said", text);
  say("plane-text", text);
  say("shared", "");
}

// How different the attention is, by how much the output changes, at readings of which the last is
// the present one.
function drawPlane(readings) {
  const { entry: { id, frontier: curve }, data: { epsilon } } = state, { LN2 } = Math;
  const { parts, across, up, left, right, top, bottom } = axes(460, 330, {
    ends: [0, 1], ticks: [0, 0.01, 0.05, 0.1, 0.25, 0.5, 1], bend: Math.sqrt, // most is small
    title: "change of the output (TVD, square-root scale)",
  }, { ends: [0, LN2], ticks: [0, 0.2, 0.4, 0.6], title: "change of the attention (JSD)" });
  const at = across(epsilon), room = { x: left, y: top, width: at - left, height: bottom - top };
  parts.push(svg("rect", { class: "room", ...room }),
    svg("text", { class: "good", x: at + 5, y: up(0.5 * LN2) }, `ε = ${epsilon}`),
    line([[at, top], [at, bottom]], { class: "limit", "stroke-dasharray": "5 3" }),
    line([[left, top], [right, top]], { class: "axis", "stroke-dasharray": "2 3" }),
    svg("text", { x: right, y: top - 5, "text-anchor": "end", "font-style": "italic" }, "ln 2"));
  if (curve) {
    const [found, bound] = [1,
      2].map((k) => curve.map((point) => [across(point[0]), up(point[k])]));
    const loose = curve.some(([, jsd, upper]) => upper - jsd > PROVEN);
    if (loose) parts.push(line([...found, ...bound.toReversed()], { class: "band" }));
    parts.push(line(found, { class: "line", "stroke-width": 2 }));
  }
  const points = readings.slice(-MOST_STEPS).map(({ tvd, jsd }) => [across(tvd), up(jsd)]),
    last = points.length - 1;
  if (computes) parts.push(line(points, { class: "trail", "stroke-width": 1.5 }));
  parts.push(...points.map(([cx, cy], k) => svg("circle", {
    cx, cy, r: k < last ? 2.5 : 5, class: k < last ? "past" : "now",
  })));
  const best = state.best.get(id), [x, y] = best ? [across(best.tvd), up(best.jsd)] : [];
  const cross = { d: `M${x - 6} ${y}H${x + 6}M${x} ${y - 6}V${y + 6}`, "stroke-width": 2 };
  if (best) parts.push(svg("path", { class: "cross", ...cross }));
  by("plane").replaceChildren(...by("plane").querySelectorAll("title, desc"), ...parts);
}

function drawBest() {
  const { entry, data: { epsilon } } = state, best = state.best.get(entry.id);
  const point = entry.frontier?.find(([at]) => Math.abs(at - epsilon) < 1e-6);
  const most = point?.slice(1) ?? entry.emax,
    rule = `within ε = ${epsilon} and with the same decision`;
  const known = most && (most[1] - most[0] <= PROVEN ? `${fixed(most[0])}, the proven maximum`
    : `${fixed(most[0])}, the largest found (none exceeds ${fixed(most[1])})`);
  const share = best && most
    ? `, ${Math.round((100 * best.jsd) / Math.max(most[0], 1e-9))} % of ${known}` : "";
  say("best", best ? `Your best ${rule}: JSD ${fixed(best.jsd)} at TVD ${fixed(best.tvd)}${share}.`
    : `No move of yours ${rule} yet.${most ? ` To reach: JSD ${known}.` : ""}`);
  by("reached").style.cssText = `left:0;width:${(100 * (best?.jsd ?? 0)) / Math.LN2}%`;
  by("optimum").style.cssText = most ? `left:${(100 * most[0]) / Math.LN2}%` : "display:none";
}

// Moves

function show(weights, live = []) {
  drawBars(weights);
  drawToken(weights);
  drawPlane([...state.steps.slice(0, state.at + 1).map((step) => measured(step.weights)), ...live]);
  return drawOutput(measured(weights));
}

function drawMoved() {
  const weights = now(), { own, listed } = state.one, { undo, redo } = form.elements;
  const highest = Math.max(...weights.slice(0, listed), ...own.slice(0, listed));
  state.ceiling = CEILINGS.find((one) => one >= highest - 1e-9) ?? 1;
  tell(show(weights));
  drawBest();
  drawRemoved();
  undo.disabled = state.at === 0;
  redo.disabled = state.at === state.steps.length - 1;
}

// `aided`: the attention is not the reader's own work; `merge` joins steps of one kind, as of a
// key.
function step(weights, { aided = state.steps[state.at].aided, merge = null, removed = 0 } = {}) {
  state.at += merge !== null && state.steps[state.at].merge === merge ? 0 : 1;
  state.steps.splice(state.at, state.steps.length, { weights, aided, merge, removed });
  const { p, tvd, jsd } = measured(weights), most = state.best.get(state.entry.id)?.jsd ?? 1e-6;
  const counts = !aided && same(p) && tvd <= state.data.epsilon && jsd > most;
  if (counts) state.best.set(state.entry.id, { tvd, jsd });
  draw();
}

function go(to) {
  state.at = Math.min(Math.max(to, 0), state.steps.length - 1);
  draw();
}

function move(t, weight, options) {
  if (Number.isFinite(weight)) step(model.moved(now(), t, weight, state.one.own), options);
}

// Removal

function chooseOrder() {
  const { one, entry } = state, gone = new Set(), { order, removed, flip } = removing.elements;
  state.walk = model.removals(one, order.value, entry.minimum ?? []);
  state.walked = [state.target];
  for (const t of state.walk) {
    const left = model.without(one.own, gone.add(t));
    if (left) state.walked.push(model.prediction(one, left));
  }
  state.flip = state.walked.findIndex((p) => !same(p));
  removed.max = String(state.walked.length - 1);
  flip.disabled = state.flip < 0;
}

function removeFirst(count) {
  const left = model.without(state.one.own, new Set(state.walk.slice(0, count)));
  step(left, { aided: true, merge: "removed", removed: count });
}

function drawRemoved() {
  const { one, walked, walk, flip, steps, at, entry } = state, { removed } = steps[at];
  const of = `${one.listed}${entry.rest ? " listed" : ""} tokens`, y = model.decided(state.target);
  const held = Math.round(100 * model.sum(walk.slice(0, removed).map((t) => one.own[t])));
  removing.elements.removed.value = String(removed);
  say("removed", `${removed} of ${of}, ${held} % of the attention`);
  say("flip", flip < 0 ? "No removal in this order flips the prediction."
    : `First flip after ${flip} of ${of}.`);
  const last = Math.max(walked.length - 1, 1), apart = Math.ceil(last / 6);
  const ticks = times(Math.floor(last / apart) + 1, (k) => k * apart);
  const title = `probability of ${state.data.classes[y].slice(0, 24)}`;
  const { parts, across, up, right, top, bottom } = axes(460, 210,
    { ends: [0, last], ticks, title: "tokens removed" },
      { ends: [0, 1], ticks: [0, 0.5, 1], title });
  const points = walked.map((p, k) => [across(k), up(model.classes(p)[y])]),
    [cx, cy] = points[removed];
  parts.push(line(points, { class: "line", "stroke-width": 2 }));
  if (flip >= 0) {
    const x = across(flip), [side, anchor] = x > right / 2 ? [-5, "end"] : [5, "start"];
    parts.push(line([[x, top], [x, bottom]], { class: "flip", "stroke-dasharray": "4 3" }),
      svg("text", { x: x + side, y: top + 10, "text-anchor": anchor }, "first flip"));
  }
  parts.push(svg("circle", { cx, cy, r: 4, class: "reading" }));
  by("curve").replaceChildren(by("curve").firstElementChild, ...parts);
}

// Points

// The readings of each token, at each share of all attention that is moved to it.
function readPoints({ points, tokens: listed }) {
  const values = model.numbers(points), { shares } = state.data;
  const width = values.length / (1 + listed.length * shares.length);
  const at = (row) => {
    const [tvd, jsd, ...p] = values.slice(row * width, (row + 1) * width);
    return { tvd, jsd, p };
  };
  return listed.map((_, t) => [at(0), ...shares.map((_, s) => at(1 + t * shares.length + s))]);
}

function drawPoints() {
  const { one: { own, points }, share, selected: t, data: { shares } } = state,
    given = [0, ...shares];
  const reading = points[t][share], y = model.decided(state.target);
  state.ceiling = 1;
  drawBars(own.map((weight, k) => (1 - given[share]) * weight + (k === t ? given[share] : 0)));
  say("word", `${given[share]} given to “${words()[t]}”`);
  say("share", given[share]);
  Object.assign(form.elements.share, { value: share, ariaValueText: String(given[share]) });
  drawPlane([...points[t], reading]);
  const rows = points.map((one, k) =>
    [words()[k], ...[model.classes(one[share].p)[y], one[share].tvd,
    one[share].jsd].map((value) => value.toFixed(3)), same(one[share].p) ? "the same" : "flipped"]);
  const heads = [`${given[share]} given to`, "ŷ", "TVD", "JSD", "decision"];
  const table = tableOf("Each token given this share", heads, rows, [0, 4]);
  table.tBodies[0].rows[t].ariaCurrent = "true";
  by("points").replaceChildren(table);
  tell(`${by("word").textContent}: ${drawOutput(reading)}`);
}

function setShare(share) {
  state.share = Math.min(Math.max(share, 0), state.data.shares.length);
  draw();
}

const draw = computes ? drawMoved : drawPoints;

// Instances

function choose(index) {
  const entry = state.data.instances[index];
  for (const name of ["adversary", "least", "most"]) {
    if (typeof entry[name] === "string") entry[name] = model.numbers(entry[name]);
  }
  state.entry = entry;
  form.elements.instance.value = String(index);
  by("question").hidden = !entry.question;
  say("question", `Read with: ${entry.question}`);
  build();
  if (!computes) {
    state.one = { own: model.numbers(entry.alpha), points: readPoints(entry) };
    state.target = state.one.points[0][0].p;
    const last = state.one.points.map((points) => points.at(-1).tvd);
    return select(last.indexOf(Math.max(...last)));
  }
  state.one = model.row(entry, state.data.model);
  state.target = model.prediction(state.one, state.one.own);
  state.steps = [{ weights: state.one.own, aided: false, merge: null, removed: 0 }];
  state.at = 0;
  const adversary = section.querySelector("[name=adversary]"), { order } = removing.elements;
  adversary.disabled = !entry.adversary;
  adversary.title = entry.adversary ? "" : "The experiment adversary has no attention of this "
    + "instance, or one with weight on tokens that are not listed.";
  order.querySelector("[value=minimum]").disabled = !entry.minimum;
  if (!entry.minimum && order.value === "minimum") order.value = "attention";
  chooseOrder();
  select(0);
  return draw();
}

// #play-<instance>, and perhaps =<weights>, or =<token>.<share> of a point
function follow() {
  const [, id, named = ""] = /^#play-([\w-]+?)(?:=([\w.-]*))?$/.exec(location.hash) ?? [];
  const index = state.data?.instances.findIndex((entry) => entry.id === id) ?? -1;
  if (index < 0) return;
  choose(index);
  const weights = computes && named ? model.fromText(named, state.one.own.length) : null;
  if (weights) step(weights, { aided: true });
  const [t, share] = named.split(".").map(Number);
  if (!computes && state.one.points[t]?.[share]) {
    state.share = share;
    select(t);
  }
  section.scrollIntoView();
}

async function copyLink() {
  const shown = computes ? model.toText(now()) : `${state.selected}.${state.share}`;
  history.replaceState(null, "", `#play-${state.entry.id}=${shown}`);
  const copying = navigator.clipboard?.writeText(location.href).then(() => "Link copied.");
  say("shared", await copying?.catch(() => "") || "The address of this page names it now.");
}

function rows() {
  const { entry, one, data, target } = state;
  if (computes) {
    const row = (word, t) => [word, one.own[t], now()[t], entry.least?.[t], entry.most?.[t]];
    return [["token", "own", "weight", "least possible", "most possible"], ...words().map(row)];
  }
  const row = (word) => ({ tvd, jsd, p }, s) => [word, [0, ...data.shares][s], tvd, jsd, ...p];
  const classes = data.classes.slice(target.length === 1 ? 1 : 0);
  return [["token", "share", "tvd", "jsd", ...classes], ...words().flatMap((word, t) => (
    one.points[t].map(row(word))))];
}

function drawings() {
  const heading =
    `${state.entry.title}: predicted ${state.entry.predicted}. ${by("said").textContent}`;
  return [save.text(heading, tokens.querySelectorAll(".token")), save.copied(by("plane"))];
}

function load(data) {
  Object.assign(state, { data, best: new Map(), share: data.shares?.length ?? 0 });
  const options = data.instances.map(({ title, predicted }, k) =>
    new Option(`${title}: ${predicted}`, k));
  const isListed = (_, k) => data.instances[k].listed,
    first = options.filter((_, k) => !isListed(_, k));
  const listed = element("optgroup", "", ...options.filter(isListed));
  listed.label = "of the list";
  form.elements.instance.replaceChildren(...first,
    ...(first.length < options.length ? [listed] : []));
  choose(0);
  follow();
}

// Events

const ACTIONS = {
  own: () => step(state.one.own, { aided: false }),
  uniform: () => step(model.uniform(state.one), { aided: false }),
  shuffle: () => step(model.shuffled(state.one, now(), Math.random)),
  adversary: () => step(state.entry.adversary, { aided: true }),
  undo: () => go(state.at - 1), redo: () => go(state.at + 1),
  flip: () => removeFirst(state.flip), restore: () => removeFirst(0),
  link: copyLink,
};
on(section, "click", ({ target }) => ACTIONS[target.closest("button")?.name]?.());
on(section, "submit", (event) => event.preventDefault());
on(section, "change", ({ target: { name, value, valueAsNumber } }) => {
  if (name === "instance") choose(Number(value));
  if (name === "weight") move(state.selected, valueAsNumber);
  if (name === "order") {
    chooseOrder();
    removeFirst(0);
  }
});
on(section, "input", ({ target: { name, valueAsNumber } }) => {
  if (name === "removed") removeFirst(valueAsNumber);
  if (name === "share") setShare(valueAsNumber);
});

const by1 = (change) => (t) => move(t, Math.round((now()[t] + change) * 1e4) / 1e4,
  { merge: `key ${t}` });
const KEYS_OF_ALL = { ArrowLeft: (t) => select(t - 1, true),
  ArrowRight: (t) => select(t + 1, true) };
const KEYS_OF_MOVES = {
  ArrowUp: by1(0.01), ArrowDown: by1(-0.01), PageUp: by1(0.1), PageDown: by1(-0.1),
  Home: (t) => move(t, 0), End: (t) => move(t, 1), Enter: () => token.elements.weight.select(),
  Delete: (t) => move(t, now()[t] > 0 ? 0 : state.one.own[t]),
};
const KEYS_OF_POINTS = {
  ArrowUp: () => setShare(state.share + 1), ArrowDown: () => setShare(state.share - 1),
  Home: () => select(0, true), End: () => select(state.bars.length - 1, true),
};
on(tokens, "keydown", (event) => {
  const t = state.bars.indexOf(event.target), keys = computes ? KEYS_OF_MOVES : KEYS_OF_POINTS;
  const undoes = computes && event.ctrlKey && event.key.toLowerCase() === "z";
  const act = undoes ? () => go(state.at + (event.shiftKey ? 1 : -1))
    : { ...KEYS_OF_ALL, ...keys }[event.key];
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
  if (!computes) return;
  bar.setPointerCapture(event.pointerId);
  const height = bar.firstChild.clientHeight;
  state.drag = { t: state.selected, from: event.clientY, base: now(), height, next: null };
});
on(tokens, "pointermove", ({ clientY }) => {
  const { drag } = state;
  if (!drag || (!drag.next && Math.abs(clientY - drag.from) < 2)) return;
  const weight = drag.base[drag.t] + ((drag.from - clientY) / drag.height) * state.ceiling;
  drag.next = model.moved(drag.base, drag.t, weight, state.one.own);
  show(drag.next, [measured(drag.next)]);
});
const drop = (kept) => () => {
  const { drag } = state;
  state.drag = null;
  if (drag?.next && kept) step(drag.next);
  else if (drag) draw();
};
on(tokens, "pointerup", drop(true));
on(tokens, "pointercancel", drop(false));

// A page within a page has no address, and that of a typed sentence does not hold the sentence.
const named = /^(file|http)/.test(location.protocol) && !byId("live");
section.querySelector("[name=link]").hidden = !named;
by("save").append(save.offer(() => `playground-${state.entry?.id ?? ""}`, computes && drawings,
  rows));
window.playground = { state, load, now, measured };
const played = dataOf("playground-data");
if (played) load(played);
const link = (id, place) => {
  if (!state.data?.instances.some((entry) => entry.id === id)) return;
  const made = element("a", "play-link", "move its attention");
  made.href = `#play-${id}`;
  place.append(" ", made);
};
for (const title of document.querySelectorAll('#heatmaps h4 a[href^="#instance-"]')) {
  link(title.hash.replace("#instance-", ""), title.parentNode);
}
on(document, "instance-opened", ({ target, detail }) => {
  link(target.id.replace("instance-", ""), detail);
});
on(document, "click", (event) => {
  const pressed = event.target.closest('a[href^="#play-"]');
  if (pressed?.hash === location.hash) follow(); // no change of the address
});
addEventListener("hashchange", follow);
