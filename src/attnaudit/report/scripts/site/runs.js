// The table of runs, and one measure over all of them.
const runsView = (() => {
  const table = byId("run-table"), rows = Array.from(table.tBodies[0].rows), grid = byId("multiples-grid");
  const facets = byId("facets"), compare = facets.elements.compare;
  const measure = byId("multiples-form").elements.measure;
  const named = Array.from(facets.elements).filter(({ name, type }) => name && type !== "button");
  const checked = () => Array.from(table.querySelectorAll("input:checked"),
    (box) => site.runs[box.closest("tr").dataset.run].name);

  function filter() {
    const fits = ({ name, settings }) => named.every((field) => field.value === ""
      || (field.name === "name" ? name.toLowerCase().includes(field.value.toLowerCase())
        : settings[field.name] === field.value));
    rows.forEach((row) => { row.hidden = !fits(site.runs[row.dataset.run]); });
    for (const small of grid.children) small.hidden = rows[small.dataset.place].hidden;
    byId("runs-shown").textContent = `${rows.filter(({ hidden }) => !hidden).length} of ${rows.length} run`
      + (rows.length === 1 ? "" : "s");
  }

  function order(sort) {
    table.tBodies[0].append(...rows);
    sortRows(table, sort);
    const small = Object.fromEntries(Array.from(grid.children, (one) => [one.dataset.place, one]));
    grid.append(...Array.from(table.tBodies[0].rows, ({ dataset: { run } }) => small[run]).filter(Boolean));
  }

  function multiples({ columns, facts: { measures, bins } }, fields) {
    if (!measure.children.length) measureOptions(measure, measures, "correlation.tau_gradient");
    measure.disabled = false;
    measure.value = fields.get("measure") ?? measure.value;
    const m = Math.max(measures.findIndex(({ name }) => name === measure.value), 0);
    const { name, label, meaning, ends, rows: hasRows } = measures[m];
    measure.value = name;
    const part = (column, size) => site.runs.map((_, r) => {
      const start = (r * measures.length + m) * size;
      return columns[column].subarray(start, start + size);
    });
    const means = part("means", 3), counts = part("bins", bins);
    const known = means.flatMap((mean) => Array.from(mean)).filter((value) => !Number.isNaN(value));
    const axis = hasRows ? ends : [Math.min(0, ...known), Math.max(...known)];
    byId("multiples-meaning").textContent = `${meaning} Axis: ${figure(axis[0])} to ${figure(axis[1])}.`;
    grid.replaceChildren(...site.runs.map((run, r) => multiple(run.name, r, means[r], counts[r], axis, label)));
    order(fields.get("sort") ?? "");
    filter();
  }

  function multiple(name, place, [mean, from, to], counts, axis, label) {
    const [WIDE, HIGH] = [170, 46], base = HIGH - 12, below = base + 6, across = scaled(axis, [0, WIDE]);
    const hasEnds = !Number.isNaN(from), hasZero = axis[0] < 0 && axis[1] > 0;
    const text = figure(mean) + (hasEnds ? ` [${figure(from)}, ${figure(to)}]` : "");
    const chart = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, "aria-hidden": "true" },
      svg("path", { d: bars(counts, Math.max(...counts, 1), WIDE, base), class: "of-all" }),
      line([[0, base], [WIDE, base]], { class: "axis" }),
      ...(hasZero ? [line([[across(0), 0], [across(0), base]], { class: "zero" })] : []),
      ...(hasEnds ? [line([[across(from), below], [across(to), below]], { class: "span" })] : []),
      ...(Number.isNaN(mean) ? [] : [svg("circle", { class: "mean", cx: across(mean), cy: below, r: 3.5 })]));
    const made = element("a", "multiple", element("bdi", "multiple-name", name), chart,
      element("span", "muted", text));
    made.href = `#view=instances&run=${encodeURIComponent(name)}`;
    made.title = `${name}: ${label} ${text}`;
    made.dataset.place = place;
    return made;
  }

  on(facets, "input", () => {
    state.write(Object.fromEntries(named.map(({ name, value }) => [name, value])));
    filter();
  });
  on(facets, "submit", (event) => event.preventDefault());
  on(facets.elements.clear, "click", () => {
    facets.reset();
    facets.dispatchEvent(new Event("input"));
  });
  on(compare, "click", () => {
    const [a, b] = checked();
    state.write({ a, b }, "compare");
  });
  on(table, "change", () => { compare.disabled = checked().length !== 2; });
  onSort(table, (sort) => {
    state.write({ sort });
    order(sort);
  });
  on(measure, "change", () => {
    state.write({ measure: measure.value });
    go();
  });

  return {
    show(fields) {
      for (const field of named) field.value = fields.get(field.name) ?? "";
      filter();
      order(fields.get("sort") ?? "");
      return load("overview").then((overview) => multiples(overview, state.read()));
    },
  };
})();
