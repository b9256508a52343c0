// Linked charts over a table of rows: each filter holds for the list and for all other charts.
const LISTED = 25, SNIPPET = 14, RANGE = "range.", LAST_BIT = 31;
const KEY = "Grey: all rows; blue: those that fit every other filter; bars are shares of either. Drag over a chart "
  + "to filter, click it to clear.";

/* `data` has rows, unit, measures [{name, label, experiment}], value(name), categories [{name, label, names,
   values}], name(row), tokens(row), having(words), detail(row), which promises an element, and initial {charts,
   sort}. The explorer's `show(fields)` shows what the address says. */
function explorer(root, data) {
  const labels = new Map([...data.measures, ...data.categories].map(({ name, label }) => [name, label]));
  const failed = new Uint32Array(data.rows); // a bit for each filter that a row does not pass
  const bits = new Map(), rowsByName = new Map();
  let fields = state.read();

  const choice = (name, options) => Object.assign(element("select", "", ...options), { name });
  const words = Object.assign(element("input"), {
    type: "search", placeholder: "words of the text", autocomplete: "off", name: "word",
  });
  const selects = data.categories.map(({ name, names }) => (
    choice(name, [new Option("any", ""), ...names.map((one) => new Option(one))])));
  const adding = choice("adding", []);
  const shown = Object.assign(element("output"), { ariaLive: "polite" });
  const form = element("form", "filters", labelled("Text", words),
    ...selects.map((select) => labelled(labels.get(select.name), select)),
    button("Clear", () => set(cleared())), shown);
  form.ariaLabel = "Filter rows";
  const small = element("div", "linked-charts"), opened = element("article", "opened");
  const add = element("div", "axes", labelled("Add a chart", adding));
  const list = Object.assign(element("div", "scroll"), { tabIndex: 0, role: "region", ariaLabel: "List" });
  const pages = pager((page) => set({ page: page + 1 }));
  root.replaceChildren(form, small, add, element("p", "note", KEY), opened, list, pages.box);

  const written = (range) => range?.map((end) => (Number.isFinite(end) ? end : "")).join("..");
  const chosen = () => (fields.get("charts") ?? data.initial.charts.join(",")).split(",")
    .filter((name) => data.measures.some((one) => one.name === name));
  const sorting = () => fields.get("sort") ?? data.initial.sort;
  const othersThan = (name) => ~(bits.get(RANGE + name) ?? 0);
  const categoryOf = (name) => data.categories.find((one) => one.name === name);

  function rangeOf(name) {
    const ends = (fields.get(RANGE + name) ?? "").split("..");
    const range = ends.map((end, k) => (end === "" ? [-Infinity, Infinity][k] : Number(end)));
    return range.length === 2 && !range.some(Number.isNaN) ? range : null;
  }

  function cleared() {
    const ranges = [...fields.keys()].filter((name) => name.startsWith(RANGE));
    const names = [...ranges, ...selects.map(({ name }) => name), "word", "page", "open"];
    return Object.fromEntries(names.map((name) => [name, null]));
  }

  function set(changes) {
    state.write(changes);
    show(state.read());
  }

  function show(read) {
    fields = read;
    for (const field of [words, ...selects]) field.value = fields.get(field.name) ?? "";
    filter();
    drawCharts();
    drawList();
    open(fields.get("open") ?? "");
  }

  function filter() {
    const parts = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    bits.clear();
    failed.fill(0);
    if (parts.length) keep("word", data.having(parts));
    data.categories.forEach(({ name, names, values }, k) => {
      const place = names.indexOf(selects[k].value);
      if (place >= 0) keep(name, (row) => values[row] === place);
    });
    for (const { name } of data.measures) {
      const range = rangeOf(name);
      if (!range) continue;
      const values = data.value(name), slack = stepOf(values), [low, high] = [range[0] - slack, range[1] + slack];
      keep(RANGE + name, (row) => values[row] >= low && values[row] <= high);
    }
  }

  function keep(name, passes) {
    const bit = 1 << Math.min(bits.size, LAST_BIT); // filters beyond the last share its bit
    bits.set(name, bit);
    for (let row = 0; row < data.rows; row += 1) if (!passes(row)) failed[row] |= bit;
  }

  function drawCharts() {
    const names = chosen();
    for (const name of names) chartOf(name).update(failed, othersThan(name), rangeOf(name));
    if (adding.dataset.names === names.join()) return;
    adding.dataset.names = names.join();
    small.replaceChildren(...names.map((name) => chartOf(name).box));
    measureOptions(adding, data.measures.filter(({ name }) => !names.includes(name)));
    adding.prepend(new Option("choose a measure", ""));
    adding.value = "";
  }

  const chartOf = memo((name) => {
    const made = histogram(labels.get(name), data.value(name), (range) => {
      set({ [RANGE + name]: written(range), page: null });
    });
    const close = button("×", () => {
      const left = chosen().filter((one) => one !== name).join(",") || "none";
      set({ charts: left, [RANGE + name]: null });
      adding.focus();
    }, "chart-close");
    close.ariaLabel = `Remove the chart of ${labels.get(name)}`;
    made.box.id = `chart-${name}`;
    made.legend.append(close);
    return made;
  });

  const sorted = memo((key) => {
    const name = key.replace("-", ""), sign = key.startsWith("-") ? -1 : 1;
    const values = categoryOf(name)?.values ?? (labels.has(name) && data.value(name));
    const order = Uint32Array.from(times(data.rows, (row) => row));
    if (!values) return sign > 0 ? order : order.reverse();
    return order.sort((a, b) => {
      const [one, other] = [values[a], values[b]]; // undefined last
      if (one !== one || other !== other) return (one !== one) - (other !== other);
      return sign * (one - other) || a - b;
    });
  });

  function drawList() {
    const key = sorting(), listed = data.categories.filter(({ hidden }) => !hidden).map(({ name }) => name);
    const columns = ["row", "", ...listed, ...chosen()];
    const fitting = sorted(key).filter((row) => failed[row] === 0);
    const last = Math.max(Math.ceil(fitting.length / LISTED) - 1, 0);
    const page = Math.min(Math.max(Number(fields.get("page")) - 1 || 0, 0), last);
    shown.textContent = `${thousands(fitting.length)} of ${thousands(data.rows)} ${data.unit}s`;
    pages.show(page, last);
    const heads = columns.map((name) => {
      if (!name) return "Text";
      const made = button(labels.get(name) ?? data.unit, () => sortBy(name));
      made.dataset.sort = name;
      return made;
    });
    const rows = Array.from(fitting.subarray(page * LISTED, (page + 1) * LISTED), (row) => (
      columns.map((name) => cellOf(row, name))));
    const title = `Sorted by ${labels.get(key.replace("-", "")) ?? data.unit}, `
      + (key.startsWith("-") ? "largest first" : "smallest first");
    const table = tableOf(title, heads, rows, [1, ...listed.map((_, k) => k + 2)]);
    table.className = "instances";
    table.caption.className = "";
    for (const { parentNode: head, dataset: { sort } } of heads.filter((one) => one.dataset)) {
      head.ariaSort = { [sort]: "ascending", [`-${sort}`]: "descending" }[key] ?? "none";
    }
    list.replaceChildren(table);
  }

  function sortBy(name) {
    set({ sort: sorting() === name ? `-${name}` : name, page: null });
    list.querySelector(`[data-sort="${CSS.escape(name)}"]`)?.focus();
  }

  function cellOf(row, name) {
    if (!name) return openerOf(row);
    if (name === "row") return data.name(row);
    const category = categoryOf(name), values = category?.values ?? data.value(name);
    return category ? category.names[values[row]] ?? "–" : fixed(values[row], decimalsOf(values));
  }

  function openerOf(row) {
    const tokens = data.tokens(row), name = data.name(row), isOpen = fields.get("open") === name;
    const snippet = tokens.slice(0, SNIPPET).join(" ") + (tokens.length > SNIPPET ? " …" : "");
    const made = button(snippet, () => set({ open: isOpen ? null : name }), "open");
    made.dataset.row = row;
    made.ariaExpanded = String(isOpen);
    return made;
  }

  async function open(name) {
    opened.hidden = !name;
    if (opened.dataset.name === name) return;
    opened.dataset.name = name;
    if (!name) return;
    for (let row = rowsByName.size; row < data.rows; row += 1) rowsByName.set(data.name(row), row);
    const row = rowsByName.get(name), { unit } = data;
    const title = row === undefined ? `No ${unit} ${name} here` : `${unit[0].toUpperCase()}${unit.slice(1)} ${name}`;
    const head = Object.assign(element("h3", "", title), { tabIndex: -1 });
    opened.replaceChildren(head, button("Close", () => {
      set({ open: null });
      (list.querySelector(`.open[data-row="${row}"]`) ?? words).focus();
    }, "close"));
    head.focus({ preventScroll: true });
    opened.scrollIntoView({ block: "nearest" });
    const detail = row === undefined ? "" : await data.detail(row).catch(complain);
    if (opened.dataset.name !== name || !detail) return;
    opened.append(detail);
    opened.dataset.ready = name;
    opened.scrollIntoView({ block: "nearest" });
  }

  on(form, "input", () => set({
    ...Object.fromEntries([words, ...selects].map(({ name, value }) => [name, value])), page: null,
  }));
  on(form, "submit", (event) => event.preventDefault());
  on(adding, "change", () => set({ charts: [...chosen(), adding.value].join(",") }));
  return { show };
}
