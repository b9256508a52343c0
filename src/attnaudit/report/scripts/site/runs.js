// The table of runs.
const runsView = (() => {
  const table = byId("run-table"), rows = Array.from(table.tBodies[0].rows);
  const facets = byId("facets");
  const measure = byId("run-measure"), known = site.measures, title = button("");
  const head = Object.assign(element("th", "num", title), { scope: "col", ariaSort: "none" });
  table.tHead.rows[0].append(head);
  for (const row of rows) row.append(element("td", "num"));
  measureOptions(measure, known, "correlation.tau_gradient");
  const named = Array.from(facets.elements).filter(({ name, type }) => name && type !== "button");

  function filter() {
    const fits = ({ name, settings }) => named.every((field) => field.value === ""
      || (field.name === "name" ? name.toLowerCase().includes(field.value.toLowerCase())
        : settings[field.name] === field.value));
    rows.forEach((row) => { row.hidden = !fits(site.runs[row.dataset.run]); });
    byId("runs-shown").textContent = `${rows.filter(({ hidden }) => !hidden).length} of ${rows.length} run`
      + (rows.length === 1 ? "" : "s");
  }

  function order(sort) {
    table.tBodies[0].append(...rows);
    sortRows(table, sort);
  }

  // One measure of the reader's choice is the last column.
  function draw(name) {
    measure.value = known.some((one) => one.name === name) ? name : measure.value;
    const { label, meaning } = known.find((one) => one.name === measure.value);
    title.textContent = label;
    title.title = meaning;
    for (const row of rows) {
      const [value, low, high] = site.runs[row.dataset.run].means[measure.value] ?? [null];
      const interval = low === null || value === null ? "" : ` [${fixed(low)}, ${fixed(high)}]`;
      row.lastChild.dataset.value = value ?? "";
      row.lastChild.textContent = fixed(value) + interval;
    }
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
  onSort(table, (sort) => {
    state.write({ sort });
    order(sort);
  });
  on(measure, "change", () => {
    state.write({ measure: measure.value });
    draw(measure.value);
  });

  return {
    show(fields) {
      for (const field of named) field.value = fields.get(field.name) ?? "";
      filter();
      draw(fields.get("measure"));
      order(fields.get("sort") ?? "");
    },
  };
})();
