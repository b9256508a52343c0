// Linked charts over a table of rows: each filter holds for the list and for all other charts; the address holds everything set here.
const LISTED = 25, SNIPPET = 14, RANGE = "range.", LAST_BIT = 31, NO_CHART = "none";

/* `data`: rows, measures [{name, label}], value(name), categories [{name, label, names, values}], name(row), tokens(row), having(words),
   detail(row) (a promise of an element), initial {charts, x, y, sort}. Returns {show(fields)}. */
function explorer(root, data) {
  const byName = new Map(data.measures.map((one) => [one.name, one]));
  const dimensions = new Map(); // active filters: name -> its bit
  const failed = new Uint32Array(data.rows); // a bit for each filter that a row does not pass; those beyond the last share it
  const charts = new Map();
  let page = 0, order = null, ordered = "", added = "", fields = state.read();

  const form = element("form", "filters");
  form.setAttribute("aria-label", "Filter rows");
  const words = element("input");
  Object.assign(words, { type: "search", placeholder: "words of the text", autocomplete: "off", name: "word" });
  form.append(labelled("Text", words));
  const selects = data.categories.map((one) => {
    const select = element("select");
    select.name = one.name;
    select.append(option("", "any"), ...one.names.map((name) => option(name)));
    form.append(labelled(one.label, select));
    return select;
  });
  const clear = element("button", "", "Clear");
  clear.type = "button";
  const shown = element("output");
  shown.setAttribute("aria-live", "polite");
  form.append(clear, shown);

  const small = element("div", "linked-charts");
  const adding = element("select");
  const more = labelled("Add a chart", adding);
  more.className = "add-chart";
  const across = element("select"), up = element("select");
  const axes = element("div", "axes");
  axes.append(labelled("Across", across), labelled("Up", up));
  const scatter = plane(
    (xs, ys) => set({ [RANGE + across.value]: packed(xs), [RANGE + up.value]: packed(ys) }),
    (row) => set({ open: data.name(row) }),
  );
  const planeBox = element("div", "plane-box");
  planeBox.id = "plane";
  planeBox.append(axes, scatter.canvas, scatter.numbers);
  const board = element("div", "board");
  const left = element("div");
  left.append(small, more);
  board.append(left, planeBox);
  const opened = element("article", "opened");
  opened.hidden = true;
  const list = element("table", "instances");
  const scroll = element("div", "scroll");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", "List of rows");
  scroll.append(list);
  const pages = element("div", "pages");
  const [previous, following, where] = [element("button", "", "← previous"), element("button", "", "next →"), element("span")];
  previous.type = following.type = "button";
  pages.append(previous, where, following);
  const key = element("p", "note", "Grey: all rows; blue: those that fit every other filter; bars are shares of either. Drag over a chart to filter, click it to clear.");
  root.replaceChildren(form, board, key, opened, scroll, pages);

  const packed = (range) => range && range.map((end) => (Number.isFinite(end) ? end : "")).join("..");
  const unpacked = (text) => {
    const ends = text.split("..").map((end, k) => (end === "" ? [-Infinity, Infinity][k] : Number(end)));
    return ends.length === 2 && !ends.some(Number.isNaN) ? ends : null;
  };
  const chosen = () => (fields.get("charts") || data.initial.charts.join(",")).split(",").filter((name) => byName.has(name));
  const ranges = () => new Map([...fields].filter(([name]) => name.startsWith(RANGE) && byName.has(name.slice(RANGE.length)))
    .map(([name, text]) => [name.slice(RANGE.length), unpacked(text)]).filter(([, range]) => range));

  function set(changes) {
    state.write(changes);
    show(state.read());
  }

  function show(read) {
    fields = read;
    words.value = fields.get("word") || "";
    selects.forEach((select) => (select.value = fields.get(select.name) || ""));
    filters();
    drawCharts();
    drawPlane();
    drawList();
    open(fields.get("open"));
  }

  function filters() {
    dimensions.clear();
    failed.fill(0);
    const parts = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (parts.length) keep("word", data.having(parts));
    data.categories.forEach((one, k) => {
      const place = one.names.indexOf(selects[k].value);
      if (place >= 0) keep(one.name, (row) => one.values[row] === place);
    });
    for (const [name, [from, to]] of ranges()) {
      const values = data.value(name), [low, high] = endsOf(values);
      const slack = high > low ? (high - low) / 60000 : 0; // values were kept in 65,535 steps: a range includes its own ends
      keep(RANGE + name, (row) => values[row] >= from - slack && values[row] <= to + slack);
    }
  }

  function keep(name, passes) {
    const bit = 1 << Math.min(dimensions.size, LAST_BIT);
    dimensions.set(name, bit);
    for (let row = 0; row < data.rows; row += 1) if (!passes(row)) failed[row] |= bit;
  }

  const othersThan = (names) => names.reduce((bits, name) => bits & ~(dimensions.get(name) || 0), -1);

  function drawCharts() {
    const names = chosen();
    for (const name of names) if (!charts.has(name)) charts.set(name, chartOf(name));
    const boxes = names.map((name) => charts.get(name).box);
    if (boxes.length !== small.children.length || boxes.some((box, k) => small.children[k] !== box)) small.replaceChildren(...boxes);
    const active = ranges();
    for (const name of names) charts.get(name).update(failed, othersThan([RANGE + name]), active.get(name));
    if (added === names.join()) return;
    added = names.join();
    const groups = element("select");
    measureOptions(groups, data.measures.filter((one) => !names.includes(one.name)));
    adding.replaceChildren(option("", "choose a measure"), ...groups.children);
    adding.value = "";
  }

  function chartOf(name) {
    const made = histogram(byName.get(name).label, data.value(name), (range) => set({ [RANGE + name]: packed(range), page: null }));
    made.box.id = `chart-${name}`;
    const link = element("a", "chart-link", "#");
    link.href = "#";
    link.setAttribute("aria-label", `Link to the chart of ${byName.get(name).label}`);
    link.addEventListener("click", (event) => {
      event.preventDefault();
      state.write({ at: made.box.id });
    });
    const close = element("button", "chart-close", "×");
    close.type = "button";
    close.setAttribute("aria-label", `Remove the chart of ${byName.get(name).label}`);
    close.addEventListener("click", () => {
      set({ charts: chosen().filter((one) => one !== name).join(",") || NO_CHART, [RANGE + name]: null });
      adding.focus();
    });
    made.legend.append(" ", link, close);
    return made;
  }

  function drawPlane() {
    for (const [select, name, initial] of [[across, "x", data.initial.x], [up, "y", data.initial.y]]) {
      if (!select.children.length) measureOptions(select, data.measures);
      select.value = byName.has(fields.get(name)) ? fields.get(name) : initial;
    }
    const names = [across.value, up.value], active = ranges();
    scatter.update(...names.map(data.value), names.map((name) => byName.get(name).label), failed, othersThan(names.map((name) => RANGE + name)),
      names.map((name) => active.get(name)));
  }

  function sorted(key) {
    if (order && ordered === key) return order;
    const name = key.replace(/^-/, ""), sign = key.startsWith("-") ? -1 : 1;
    order = Uint32Array.from({ length: data.rows }, (_, row) => row);
    ordered = key;
    const category = data.categories.find((one) => one.name === name);
    const values = category ? category.values : byName.has(name) ? data.value(name) : null;
    if (!values) return sign > 0 ? order : order.reverse();
    order.sort((a, b) => {
      const [one, other] = [values[a], values[b]];
      if (one !== one || other !== other) return (one !== one) - (other !== other); // undefined stays last either way
      return sign * (one - other) || a - b;
    });
    return order;
  }

  function drawList() {
    const key = fields.get("sort") || data.initial.sort, names = chosen();
    const fitting = sorted(key).filter((row) => failed[row] === 0);
    const last = Math.max(Math.ceil(fitting.length / LISTED) - 1, 0);
    page = Math.min(Math.max(Number(fields.get("page")) - 1 || 0, 0), last);
    shown.textContent = `${thousands(fitting.length)} of ${thousands(data.rows)} ${data.unit}s`;
    where.textContent = `page ${page + 1} of ${thousands(last + 1)}`;
    pages.hidden = last === 0;
    previous.disabled = page === 0;
    following.disabled = page === last;
    const heads = [["row", data.unit, "num"], ["", "Text", "text"], ...data.categories.filter((one) => !one.hidden).map((one) => [one.name, one.label, ""]),
      ...names.map((name) => [name, byName.get(name).label, "num"])];
    const head = element("thead"), line = element("tr"), body = element("tbody");
    for (const [name, label, kind] of heads) {
      const cell = element("th", kind);
      cell.scope = "col";
      if (name) {
        const button = element("button", "", label);
        button.type = "button";
        button.dataset.sort = name;
        cell.setAttribute("aria-sort", key === name ? "ascending" : key === `-${name}` ? "descending" : "none");
        cell.append(button);
      } else cell.textContent = label;
      line.append(cell);
    }
    head.append(line);
    for (const row of fitting.subarray(page * LISTED, (page + 1) * LISTED)) body.append(rowOf(row, names));
    list.replaceChildren(element("caption", "", `Sorted by ${sortedBy(key)}`), head, body);
  }

  function sortedBy(key) {
    const name = key.replace(/^-/, ""), known = byName.get(name) || data.categories.find((one) => one.name === name);
    return `${known ? known.label : data.unit}, ${key.startsWith("-") ? "largest" : "smallest"} first`;
  }

  function rowOf(row, names) {
    const line = element("tr"), text = element("td", "text"), button = element("button", "open");
    const tokens = data.tokens(row);
    button.type = "button";
    button.dataset.row = row;
    button.textContent = tokens.slice(0, SNIPPET).join(" ") + (tokens.length > SNIPPET ? " …" : "");
    button.setAttribute("aria-expanded", String(fields.get("open") === data.name(row)));
    text.append(button);
    line.append(element("td", "num", data.name(row)), text);
    for (const one of data.categories) if (!one.hidden) line.append(element("td", "", one.values[row] < 0 ? "–" : one.names[one.values[row]]));
    for (const name of names) line.append(element("td", "num", fixed(data.value(name)[row], decimalsOf(data.value(name)))));
    return line;
  }

  function open(name) {
    if (!name) {
      opened.hidden = true;
      opened.dataset.name = "";
      return;
    }
    if (opened.dataset.name === name) return;
    opened.dataset.name = name;
    const row = data.rowOf(name);
    opened.hidden = false;
    const head = element("h3", "", row < 0 ? `No ${data.unit} ${name} here` : `${data.unit === "row" ? "Row" : "Instance"} ${name}`);
    head.tabIndex = -1;
    const close = element("button", "close", "Close");
    close.type = "button";
    close.addEventListener("click", () => {
      set({ open: null });
      const line = row >= 0 && list.querySelector(`.open[data-row="${row}"]`);
      (line || words).focus();
    });
    opened.replaceChildren(head, close);
    head.focus({ preventScroll: true });
    opened.scrollIntoView({ block: "nearest" });
    if (row < 0) return;
    data.detail(row).then((detail) => {
      if (opened.dataset.name !== name) return;
      opened.append(detail);
      opened.dataset.ready = name;
      opened.scrollIntoView({ block: "nearest" });
    }, complain);
  }

  form.addEventListener("input", () => {
    const changes = { word: words.value, page: null };
    for (const select of selects) changes[select.name] = select.value;
    set(changes);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  clear.addEventListener("click", () => {
    const changes = { word: null, page: null, open: null };
    for (const name of fields.keys()) if (name.startsWith(RANGE)) changes[name] = null;
    for (const select of selects) changes[select.name] = null;
    set(changes);
  });
  adding.addEventListener("change", () => adding.value && set({ charts: [...chosen(), adding.value].join(",") }));
  axes.addEventListener("change", () => set({ x: across.value, y: up.value }));
  list.addEventListener("click", (event) => {
    const sort = event.target.closest("[data-sort]"), row = event.target.closest(".open");
    if (sort) {
      const name = sort.dataset.sort;
      set({ sort: (fields.get("sort") || data.initial.sort) === name ? `-${name}` : name, page: null });
      const again = list.querySelector(`[data-sort="${CSS.escape(name)}"]`);
      if (again) again.focus();
    }
    if (row) set({ open: row.getAttribute("aria-expanded") === "true" ? null : data.name(Number(row.dataset.row)) });
  });
  pages.addEventListener("click", (event) => {
    const step = event.target === previous ? -1 : event.target === following ? 1 : 0;
    if (!step) return;
    set({ page: page + 1 + step });
    if (event.target.disabled) (event.target === following ? previous : following).focus({ preventScroll: true });
  });
  document.addEventListener("scheme", () => {
    scatter.recolour();
    if (root.contains(form) && !root.closest("[hidden]")) drawPlane();
  });
  return { show };
}
