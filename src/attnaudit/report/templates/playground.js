// The panel of the playground: bars that are dragged, what the output does, and the steps taken so far. Texts enter as text nodes only.
const playground = (() => {
  const model = playgroundModel;
  const by = (id) => document.getElementById(`play-${id}`);
  const form = by("form");
  if (!form) return null;
  const buttons = by("buttons");
  const token = by("token");
  const tokens = by("tokens");
  const CEILINGS = [0.05, 0.1, 0.25, 0.5, 1];
  const state = { data: null, entry: null, one: null, target: null, steps: [], at: 0, selected: 0, ceiling: 1, bars: [], drag: null, best: new Map() };

  const short = (value) => (Math.abs(value) >= 0.9995 || value === 0 ? String(Math.round(value)) : value.toFixed(3));
  const now = () => state.steps[state.at].weights;
  const isDistribution = (weights) => Math.abs(model.sum(weights) - 1) < 1e-6;
  const keeps = () => form.elements.others.value === "stay";

  function measured(weights) {
    const p = model.prediction(state.one, weights);
    const proper = isDistribution(weights);
    return {
      p, tvd: model.tvd(p, state.target), jsd: proper ? model.jsd(weights, state.one.own) : null,
      same: model.decided(p) === model.decided(state.target),
    };
  }

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Bars

  function build() {
    const { entry } = state;
    const named = [...entry.tokens, ...(entry.rest ? [`${entry.rest} other tokens`] : [])];
    const gaps = new Set(entry.gaps);
    state.bars = named.map((word, t) => {
      const bar = element("div", entry.rest && t === entry.tokens.length ? "play-bar rest" : "play-bar");
      bar.append(element("i"), element("span", "", word));
      bar.setAttribute("role", "slider");
      bar.setAttribute("aria-orientation", "vertical");
      bar.setAttribute("aria-valuemin", "0");
      bar.setAttribute("aria-valuemax", "1");
      bar.setAttribute("aria-label", `${word}, token ${t + 1} of ${named.length}`);
      return bar;
    });
    tokens.replaceChildren(...state.bars.flatMap((bar, t) => (gaps.has(t) ? [element("span", "play-gap", "…"), bar] : [bar])));
  }

  function select(t, focus) {
    state.selected = t;
    state.bars.forEach((bar, k) => {
      bar.tabIndex = k === t ? 0 : -1; // one stop for the tab key; arrows go from token to token
      if (k === t) bar.setAttribute("aria-current", "true");
      else bar.removeAttribute("aria-current");
    });
    if (focus) state.bars[t].focus();
    drawToken(now());
  }

  function drawBars(weights) {
    const { own } = state.one;
    state.bars.forEach((bar, t) => {
      const share = weights[t] / state.ceiling;
      bar.style.setProperty("--share", Math.min(share, 1));
      bar.style.setProperty("--w", Math.min(share, 1));
      bar.style.setProperty("--own", Math.min(own[t] / state.ceiling, 1));
      bar.classList.toggle("over", share > 1);
      bar.setAttribute("aria-valuenow", weights[t].toFixed(4));
      bar.setAttribute("aria-valuetext", `${short(weights[t])}, the model's own ${short(own[t])}`);
    });
    const total = model.sum(weights);
    by("scale").textContent = `A full bar is a weight of ${state.ceiling}.`
      + (isDistribution(weights) ? "" : ` The weights sum to ${total.toFixed(3)}: no distribution, so JSD is not defined. “Renormalise” rescales them.`);
  }

  function drawToken(weights) {
    const { entry, selected: t } = state;
    by("word").textContent = state.bars[t].lastElementChild.textContent;
    token.elements.weight.value = String(Number(weights[t].toFixed(4)));
    by("own").textContent = `own ${short(state.one.own[t])}`;
    for (const [name, word] of [["least", "Least possible"], ["most", "Most possible"]]) {
      const ends = entry[name] && t < entry.tokens.length ? entry[name] : null;
      token.elements[name].hidden = ends === null;
      token.elements[name].textContent = ends === null ? "" : `${word}: ${short(ends[t])}`;
    }
  }

  // Readings

  function drawOutput({ p, tvd, jsd, same }) {
    by("tvd").textContent = short(tvd);
    by("jsd").textContent = jsd === null ? "–" : short(jsd);
    by("decision").textContent = same ? "the same" : "flipped";
    by("decision").className = same ? "" : "flipped";
    by("bars").replaceChildren(...playgroundPlane.bars(model.classes(p), model.classes(state.target), state.data.classes));
  }

  function optimum() {
    const { entry, data } = state;
    const point = (entry.frontier || []).find(([epsilon]) => Math.abs(epsilon - data.epsilon) < 1e-6);
    return point ? [point[1], point[2]] : entry.emax;
  }

  function drawBest() {
    const best = state.best.get(state.entry.id);
    const most = optimum();
    const proven = most && most[1] - most[0] <= 1e-3;
    const known = !most ? "" : proven
      ? `${short(most[0])}, the proven maximum`
      : `${short(most[0])}, the largest found (none exceeds ${short(most[1])})`;
    const rule = `within ε = ${state.data.epsilon} and with the same decision`;
    by("best").textContent = best
      ? `Your best ${rule}: JSD ${short(best.jsd)} at TVD ${short(best.tvd)}${most ? `, ${Math.round((100 * best.jsd) / Math.max(most[0], 1e-9))} % of ${known}` : ""}.`
      : `No move of yours ${rule} yet.${most ? ` To reach: JSD ${known}.` : ""}`;
    by("reached").style.cssText = `left:0;width:${best ? (100 * best.jsd) / Math.LN2 : 0}%`;
    by("optimum").style.cssText = most ? `left:${(100 * most[0]) / Math.LN2}%` : "display:none";
  }

  const colours = () => playgroundPlane.colours(tokens);

  function planeParts(live) {
    const best = state.best.get(state.entry.id);
    const path = state.steps.slice(0, state.at + 1).map(({ weights }) => measured(weights)).concat(live || []).filter(({ jsd }) => jsd !== null);
    return playgroundPlane.draw({
      curve: state.entry.frontier, path: path.slice(-60).map(({ tvd, jsd }) => [tvd, jsd]), best: best && [best.tvd, best.jsd],
      epsilon: state.data.epsilon, colours: colours(),
    });
  }

  function drawPlane(live) {
    const svg = by("plane");
    svg.replaceChildren(...svg.querySelectorAll("title, desc"), ...planeParts(live));
  }

  function show(weights, live) {
    const found = measured(weights);
    drawBars(weights);
    drawToken(weights);
    drawOutput(found);
    drawPlane(live ? [found] : null);
    return found;
  }

  function draw() {
    const weights = now();
    const count = model.listed(state.one);
    const highest = Math.max(...weights.slice(0, count), ...state.one.own.slice(0, count));
    state.ceiling = CEILINGS.find((ceiling) => ceiling >= highest - 1e-9) || 1;
    const { p, tvd, jsd, same } = show(weights);
    drawBest();
    form.elements.undo.disabled = state.at === 0;
    form.elements.redo.disabled = state.at === state.steps.length - 1;
    const class_ = model.decided(p);
    const text = `TVD ${short(tvd)}, JSD ${jsd === null ? "not defined" : short(jsd)}; ${state.data.classes[class_]} ${model.classes(p)[class_].toFixed(3)}, ${same ? "the same decision" : "flipped"}`;
    by("said").textContent = text;
    by("plane-text").textContent = `Now ${text}.`;
    by("shared").textContent = "";
  }

  // Steps

  // `aided`: the attention is not the reader's own work; `merge` joins steps of one kind, as repeated presses of a key.
  function step(weights, { aided = state.steps[state.at].aided, merge = null } = {}) {
    const last = state.steps[state.at];
    const first = merge !== null && last.merge === merge ? state.at : state.at + 1;
    state.steps.splice(first, state.steps.length, { weights, aided, merge });
    state.at = first;
    const { tvd, jsd, same } = measured(weights);
    const best = state.best.get(state.entry.id);
    if (!aided && same && jsd !== null && tvd <= state.data.epsilon && jsd > (best ? best.jsd : 1e-6)) state.best.set(state.entry.id, { tvd, jsd });
    draw();
  }

  function go(to) {
    if (to < 0 || to >= state.steps.length) return;
    state.at = to;
    draw();
  }

  function move(t, weight, options) {
    if (Number.isFinite(weight)) step(model.moved(now(), t, weight, state.one.own, keeps()), options);
  }

  function remove(positions) {
    const left = model.without(state.one.own, new Set(positions));
    if (left) step(left, { aided: true });
  }

  function frontierText({ frontier, listed }) {
    if (!frontier) return listed ? "Instances with a heatmap also have their frontier." : "This row is too large for its frontier.";
    return frontier.every(([, found, upper]) => upper - found <= 1e-3)
      ? "The line is the frontier: no attention with so small a change of the output differs more."
      : "The line joins the largest JSD found for so small a change of the output; no attention is above the band.";
  }

  function choose(index, weights) {
    state.entry = state.data.instances[index];
    state.one = model.row(state.entry, state.data.model);
    for (const name of ["adversary", "least", "most"]) {
      if (typeof state.entry[name] === "string") state.entry[name] = model.numbers(state.entry[name]);
    }
    state.target = model.prediction(state.one, state.one.own);
    state.steps = [{ weights: state.one.own, aided: false, merge: null }];
    state.at = 0;
    form.elements.instance.value = String(index);
    const { entry } = state;
    by("question").hidden = !entry.question;
    by("question").textContent = entry.question ? `Read with: ${entry.question}` : "";
    by("caption").textContent = `${frontierText(entry)} The dot is the attention now, the trail the way there, the cross your best.`;
    disable(buttonOf("adversary"), entry.adversary ? "" : "The experiment adversary has no attention of this instance, or one with weight on tokens that are not listed.");
    const reason = entry.minimum === null ? "Not known for this instance, or with tokens that are not listed." : "No removal flips the decision.";
    disable(buttonOf("minimum"), entry.minimum && entry.minimum.length ? "" : reason);
    form.ownerDocument.querySelector("#play-buttons input").max = String(entry.tokens.length - 1);
    build();
    select(0);
    draw();
    if (weights) step(weights, { aided: true });
  }

  const buttonOf = (name) => buttons.querySelector(`button[name="${name}"]`);

  function disable(button, reason) {
    button.disabled = reason !== "";
    button.title = reason;
  }

  const ACTIONS = {
    own: () => step(state.one.own, { aided: false }),
    uniform: () => step(model.uniform(state.one), { aided: false }),
    shuffle: () => step(model.shuffled(state.one, now(), Math.random)),
    adversary: () => step(state.entry.adversary, { aided: true }),
    top: () => remove(model.top(state.one, Math.max(1, Number(buttons.querySelector("input").value) || 1))),
    minimum: () => remove(state.entry.minimum),
  };

  buttons.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) ACTIONS[button.name]();
  });
  form.elements.undo.addEventListener("click", () => go(state.at - 1));
  form.elements.redo.addEventListener("click", () => go(state.at + 1));
  form.elements.instance.addEventListener("change", () => choose(Number(form.elements.instance.value)));
  form.addEventListener("change", (event) => {
    const total = model.sum(now());
    if (event.target.name === "others" && !keeps() && !isDistribution(now()) && total > 0) step(now().map((w) => w / total));
  });
  for (const one of [form, token]) one.addEventListener("submit", (event) => event.preventDefault());

  token.elements.weight.addEventListener("change", (event) => move(state.selected, event.target.valueAsNumber));
  for (const name of ["least", "most"]) {
    token.elements[name].addEventListener("click", () => {
      const { selected: t } = state;
      step(model.extreme(state.one, t, state.entry[name][t], state.data.epsilon), { aided: true });
    });
  }

  tokens.addEventListener("keydown", (event) => {
    const t = state.bars.indexOf(event.target);
    if (t < 0 || event.altKey || event.metaKey) return;
    if (event.ctrlKey) {
      if (event.key.toLowerCase() !== "z") return;
      go(state.at + (event.shiftKey ? 1 : -1));
      return event.preventDefault();
    }
    const change = { ArrowUp: 0.01, ArrowDown: -0.01, PageUp: 0.1, PageDown: -0.1 }[event.key];
    const end = { Home: 0, End: 1 }[event.key];
    const to = { ArrowLeft: t - 1, ArrowRight: t + 1 }[event.key];
    if (change !== undefined) move(t, Math.round((now()[t] + change) * 1e4) / 1e4, { merge: `key ${t}` });
    else if (end !== undefined) move(t, end);
    else if (to !== undefined) select(Math.min(Math.max(to, 0), state.bars.length - 1), true);
    else if (event.key === "Enter") token.elements.weight.select();
    else return;
    event.preventDefault();
  });

  tokens.addEventListener("focusin", (event) => {
    const t = state.bars.indexOf(event.target);
    if (t >= 0 && t !== state.selected) select(t);
  });
  tokens.addEventListener("pointerdown", (event) => {
    const bar = event.target.closest(".play-bar");
    if (!bar || event.button !== 0) return;
    const t = state.bars.indexOf(bar);
    select(t, true);
    bar.setPointerCapture(event.pointerId);
    state.drag = { t, from: event.clientY, base: now(), height: bar.firstElementChild.clientHeight, next: null };
    event.preventDefault();
  });
  tokens.addEventListener("pointermove", (event) => {
    const { drag } = state;
    if (!drag || (drag.next === null && Math.abs(event.clientY - drag.from) < 2)) return;
    const weight = drag.base[drag.t] + ((drag.from - event.clientY) / drag.height) * state.ceiling;
    drag.next = model.moved(drag.base, drag.t, weight, state.one.own, keeps());
    show(drag.next, true);
  });
  const drop = (kept) => () => {
    const { drag } = state;
    state.drag = null;
    if (drag && drag.next && kept) step(drag.next);
    else if (drag) draw();
  };
  tokens.addEventListener("pointerup", drop(true));
  tokens.addEventListener("pointercancel", drop(false));
  const recolour = () => state.entry && drawPlane();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  document.addEventListener("scheme", recolour);

  // The instance and the attention that the address names: #play-<instance>=<weights>.
  function follow() {
    const [, id, text] = /^#play-([\w-]+?)(?:=([\w-]*))?$/.exec(window.location.hash) || [];
    const index = id === undefined ? -1 : state.data.instances.findIndex((entry) => entry.id === id);
    if (index < 0) return;
    const { tokens: words, rest } = state.data.instances[index];
    choose(index, text ? model.fromText(text, words.length + (rest ? 1 : 0)) : null);
    document.getElementById("playground").scrollIntoView();
  }

  function load(data) {
    state.data = data;
    state.best.clear();
    const options = data.instances.map((entry, k) => new Option(`${entry.title}: ${entry.predicted}`, String(k)));
    const listed = options.filter((_, k) => data.instances[k].listed);
    form.elements.instance.replaceChildren(...options.filter((_, k) => !data.instances[k].listed));
    if (listed.length) form.elements.instance.append(Object.assign(element("optgroup"), { label: "of the list" }));
    form.elements.instance.lastElementChild.append(...listed);
    choose(0);
    follow();
  }

  const source = document.getElementById("playground-data");
  if (source) {
    load(JSON.parse(source.textContent));
    playgroundLinks(state.data.instances.map(({ id }) => id), follow);
  }
  return { state, load, now, measured, planeParts, colours };
})();
