// The panel of points that were computed beforehand: a token, a share, and the output under that attention. Texts enter as text nodes only.
const curves = (() => {
  const model = playgroundModel;
  const by = (id) => document.getElementById(`play-${id}`);
  const form = by("form");
  const source = document.getElementById("curves-data");
  if (!form || !source) return null;
  const data = JSON.parse(source.textContent);
  const shares = [0, ...data.shares];
  const tokens = by("tokens");
  const CEILINGS = [0.01, 0.05, 0.1, 0.25, 0.5, 1];
  const state = { entry: null, points: [], token: 0, step: shares.length - 1, bars: [] };
  const short = (value) => (Math.abs(value) >= 0.9995 || value === 0 ? String(Math.round(value)) : value.toFixed(3));

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Of every token the points at `shares`; the first, the model's own attention, is the same for all.
  function read(entry) {
    const values = model.numbers(entry.points);
    const width = values.length / (1 + entry.tokens.length * data.shares.length);
    const at = (row) => {
      const [tvd, jsd, ...p] = values.slice(row * width, (row + 1) * width);
      return { tvd, jsd, p };
    };
    const own = at(0);
    return entry.tokens.map((_, t) => [own, ...data.shares.map((_, s) => at(1 + t * data.shares.length + s))]);
  }

  const same = ({ p }) => model.decided(p) === model.decided(state.points[0][0].p);

  function build() {
    const { entry } = state;
    const own = model.numbers(entry.alpha);
    const highest = Math.max(...own, 1e-12);
    const gaps = new Set(entry.gaps);
    state.bars = entry.tokens.map((word, t) => {
      const bar = element("button", "play-bar");
      bar.type = "button";
      bar.append(element("i"), element("span", "", word));
      bar.style.setProperty("--w", own[t] / highest);
      return bar;
    });
    tokens.replaceChildren(...state.bars.flatMap((bar, t) => (gaps.has(t) ? [element("span", "play-gap", "…"), bar] : [bar])));
  }

  function drawBars() {
    const highest = Math.max(...state.points.flat().map(({ tvd }) => tvd));
    const ceiling = CEILINGS.find((one) => one >= highest) || 1;
    by("scale").textContent = `A full bar is a TVD of ${ceiling}.`;
    state.bars.forEach((bar, t) => {
      const { tvd } = state.points[t][state.step];
      bar.style.setProperty("--share", tvd / ceiling);
      bar.tabIndex = t === state.token ? 0 : -1; // one stop for the tab key; arrows go from token to token
      bar.setAttribute("aria-pressed", String(t === state.token));
      bar.setAttribute("aria-label", `${state.entry.tokens[t]}, token ${t + 1} of ${state.bars.length}, TVD ${short(tvd)}`);
    });
  }

  function drawOutput(point) {
    by("word").textContent = `${shares[state.step]} given to “${state.entry.tokens[state.token]}”`;
    by("tvd").textContent = short(point.tvd);
    by("jsd").textContent = short(point.jsd);
    by("decision").textContent = same(point) ? "the same" : "flipped";
    by("decision").className = same(point) ? "" : "flipped";
    by("bars").replaceChildren(...playgroundPlane.bars(model.classes(point.p), model.classes(state.points[0][0].p), data.classes));
  }

  function drawTable() {
    const chosen = model.decided(state.points[0][0].p);
    by("points").tBodies[0].replaceChildren(...state.points[state.token].map((point, s) => {
      const row = element("tr");
      if (s === state.step) row.setAttribute("aria-current", "true");
      const numbers = [String(shares[s]), ...[model.classes(point.p)[chosen], point.tvd, point.jsd].map((value) => value.toFixed(3))];
      row.append(...numbers.map((text) => element("td", "num", text)), element("td", "", same(point) ? "the same" : "flipped"));
      return row;
    }));
  }

  function drawPlane() {
    const points = state.points[state.token];
    const pairs = [...points, points[state.step]].map(({ tvd, jsd }) => [tvd, jsd]);
    const svg = by("plane");
    svg.replaceChildren(svg.querySelector("title"), ...playgroundPlane.draw({ path: pairs, joined: false, epsilon: data.epsilon, colours: playgroundPlane.colours(tokens) }));
  }

  function draw() {
    const point = state.points[state.token][state.step];
    by("share").textContent = shares[state.step];
    form.elements.share.value = String(state.step);
    form.elements.share.setAttribute("aria-valuetext", String(shares[state.step]));
    drawBars();
    drawOutput(point);
    drawTable();
    drawPlane();
    by("shared").textContent = "";
    by("said").textContent = `${shares[state.step]} given to ${state.entry.tokens[state.token]}: TVD ${short(point.tvd)}, JSD ${short(point.jsd)}, ${same(point) ? "the same decision" : "flipped"}`;
  }

  function select(t, focus) {
    state.token = Math.min(Math.max(t, 0), state.bars.length - 1);
    if (focus) state.bars[state.token].focus();
    draw();
  }

  function choose(index, token, step) {
    state.entry = data.instances[index];
    state.points = read(state.entry);
    form.elements.instance.value = String(index);
    by("question").hidden = !state.entry.question;
    by("question").textContent = state.entry.question ? `Read with: ${state.entry.question}` : "";
    build();
    const farthest = state.points.reduce((best, points, t) => (points.at(-1).tvd > state.points[best].at(-1).tvd ? t : best), 0);
    if (step !== undefined) state.step = step;
    select(token === undefined ? farthest : token);
  }

  // The instance that the address names, with token and share: #play-<instance>=<token>.<step>.
  function follow() {
    const [, id, token, step] = /^#play-([\w-]+?)(?:=(\d{1,4})\.(\d))?$/.exec(window.location.hash) || [];
    const index = id === undefined ? -1 : data.instances.findIndex((entry) => entry.id === id);
    if (index < 0) return;
    if (step !== undefined && Number(step) < shares.length && Number(token) < data.instances[index].tokens.length) choose(index, Number(token), Number(step));
    else choose(index);
    document.getElementById("playground").scrollIntoView();
  }

  async function link() {
    window.history.replaceState(null, "", `#play-${state.entry.id}=${state.token}.${state.step}`);
    try {
      await navigator.clipboard.writeText(window.location.href);
      by("shared").textContent = "Link copied.";
    } catch {
      by("shared").textContent = "The address of this page now names this point.";
    }
  }

  function csv() {
    const names = state.points[0][0].p.length === 1 ? data.classes.slice(1) : data.classes;
    const rows = state.points.flatMap((points, t) => points.map(({ tvd, jsd, p }, s) => [state.entry.tokens[t], shares[s], tvd, jsd, ...p]));
    const quoted = (value) => (typeof value === "string" ? `"${value.replaceAll('"', '""')}"` : String(value));
    const text = [["token", "share", "tvd", "jsd", ...names], ...rows].map((row) => row.map(quoted).join(",")).join("\r\n");
    const made = document.createElement("a");
    made.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
    made.download = `playground-${state.entry.id}.csv`;
    made.click();
    setTimeout(() => URL.revokeObjectURL(made.href), 10000);
    by("shared").textContent = `Saved as ${made.download}.`;
  }

  tokens.addEventListener("click", (event) => {
    const bar = event.target.closest(".play-bar");
    if (bar) select(state.bars.indexOf(bar), true);
  });
  tokens.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: state.token - 1, ArrowRight: state.token + 1, Home: 0, End: state.bars.length - 1 }[event.key];
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    select(to, true);
    event.preventDefault();
  });
  form.elements.share.addEventListener("input", (event) => {
    state.step = event.target.valueAsNumber;
    draw();
  });
  form.elements.instance.addEventListener("change", (event) => choose(Number(event.target.value)));
  form.addEventListener("submit", (event) => event.preventDefault());
  document.querySelector(".play-save").addEventListener("click", (event) => ({ link, csv })[event.target.name]?.());
  document.querySelector('.play-save [name="link"]').hidden = !/^(file|http)/.test(window.location.protocol);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawPlane);
  document.addEventListener("scheme", drawPlane);

  form.elements.instance.replaceChildren(...data.instances.map((entry, k) => new Option(`${entry.title}: ${entry.predicted}`, String(k))));
  choose(0);
  playgroundLinks(data.instances.map(({ id }) => id), follow);
  follow();
  return { state, shares };
})();
