// The table of runs, and one measure over all of them.
const runTable = document.getElementById("run-table");
const facetForm = document.getElementById("facets");
const SMALL = { width: 170, height: 46 };

const runsView = {
  rows: runTable ? Array.from(runTable.tBodies[0].rows) : [], grid: new Map(),
  show(fields) {
    if (!runTable) return;
    for (const field of facetForm.elements) if (field.name && field.type !== "button") field.value = fields.get(field.name) || "";
    this.filter();
    this.order(fields.get("sort") || "");
    load("overview").then((overview) => this.multiples(overview, state.read()), complain);
  },
  filter() {
    const asked = Array.from(facetForm.elements).filter((field) => field.name && field.type !== "button" && field.value !== "")
      .map(({ name, value }) => (name === "name" ? (run) => run.name.toLowerCase().includes(value.toLowerCase()) : (run) => run.settings[name] === value));
    let count = 0;
    for (const row of this.rows) {
      const run = site.runs[row.dataset.run];
      row.hidden = !asked.every((fits) => fits(run));
      count += !row.hidden;
      const small = this.grid.get(Number(row.dataset.run));
      if (small) small.hidden = row.hidden;
    }
    document.getElementById("runs-shown").textContent = `${count} of ${site.runs.length} run${site.runs.length === 1 ? "" : "s"}`;
  },
  // `sort` is the number of a column, with a minus for descending.
  order(sort) {
    const heads = Array.from(runTable.tHead.rows[0].cells);
    for (const head of heads) if (head.hasAttribute("aria-sort")) head.setAttribute("aria-sort", "none");
    const column = Math.abs(Number(sort)), sign = sort.startsWith("-") ? -1 : 1;
    const rows = [...this.rows];
    if (heads[column] && heads[column].hasAttribute("aria-sort")) {
      heads[column].setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const keyed = new Map(rows.map((row) => [row, keyOf(row.cells[column])]));
      rows.sort((one, other) => {
        const [a, b] = [keyed.get(one), keyed.get(other)];
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * (a < b ? -1 : a > b ? 1 : 0);
      });
    }
    runTable.tBodies[0].append(...rows);
    const place = document.getElementById("multiples-grid");
    place.append(...rows.map((row) => this.grid.get(Number(row.dataset.run))).filter(Boolean));
  },
  multiples({ columns, facts }, fields) {
    const select = document.getElementById("multiples-form").elements.measure;
    if (!select.children.length) measureOptions(select, facts.measures, "correlation.tau_gradient");
    select.disabled = false;
    const asked = facts.measures.findIndex((one) => one.name === fields.get("measure"));
    const m = asked >= 0 ? asked : facts.measures.findIndex((one) => one.name === select.value);
    const one = facts.measures[m];
    select.value = one.name;
    const means = site.runs.map((_, r) => columns.means.subarray((r * facts.measures.length + m) * 3, (r * facts.measures.length + m) * 3 + 3));
    const bins = site.runs.map((_, r) => columns.bins.subarray((r * facts.measures.length + m) * facts.bins, (r * facts.measures.length + m + 1) * facts.bins));
    const known = means.flatMap((mean) => Array.from(mean)).filter((value) => !Number.isNaN(value));
    const [low, high] = one.rows ? one.ends : [Math.min(0, ...known), Math.max(...known)];
    document.getElementById("multiples-meaning").textContent = `${one.meaning} Axis: ${figure(low)} to ${figure(high)}.`.trim();
    this.grid.clear();
    site.runs.forEach((run, r) => this.grid.set(r, multiple(run, means[r], bins[r], low, high, one.label)));
    this.order(fields.get("sort") || "");
    this.filter();
  },
};

function keyOf(cell) {
  if (cell.dataset.value === undefined) return cell.textContent.trim().toLowerCase();
  return cell.dataset.value === "" ? null : Number(cell.dataset.value);
}

function multiple(run, [mean, from, to], bins, low, high, label) {
  const made = element("a", "multiple");
  made.href = `#view=instances&run=${encodeURIComponent(run.name)}`;
  const interval = Number.isNaN(mean) ? "undefined" : figure(mean) + (Number.isNaN(from) ? "" : ` [${figure(from)}, ${figure(to)}]`);
  const { width, height } = SMALL;
  const across = (value) => (high > low ? Math.min(Math.max((value - low) / (high - low), 0), 1) : 0) * width;
  const chart = drawn("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const most = Math.max(...bins, 1), step = width / bins.length, base = height - 12;
  let path = "";
  bins.forEach((count, k) => {
    const tall = ((count / most) * (base - 2)).toFixed(1);
    if (count) path += `M${(k * step).toFixed(1)} ${base}v-${tall}h${(step - 0.6).toFixed(1)}v${tall}z`;
  });
  chart.append(drawn("path", { d: path, class: "of-all" }), drawn("line", { class: "axis", x1: 0, x2: width, y1: base, y2: base }));
  if (low < 0 && high > 0) chart.append(drawn("line", { class: "zero", x1: across(0), x2: across(0), y1: 0, y2: base }));
  if (!Number.isNaN(mean)) {
    if (!Number.isNaN(from)) chart.append(drawn("line", { class: "span", x1: across(from), x2: across(to), y1: base + 6, y2: base + 6 }));
    chart.append(drawn("circle", { class: "mean", cx: across(mean), cy: base + 6, r: 3.5 }));
  }
  made.append(element("bdi", "multiple-name", run.name), chart, element("span", "multiple-value", interval));
  made.title = `${run.name}: ${label} ${interval}`;
  return made;
}

if (runTable) {
  facetForm.addEventListener("input", () => {
    const changes = {};
    for (const field of facetForm.elements) if (field.name && field.type !== "button") changes[field.name] = field.value;
    state.write(changes);
    runsView.filter();
  });
  facetForm.addEventListener("submit", (event) => event.preventDefault());
  facetForm.addEventListener("click", (event) => {
    if (event.target.name === "clear") {
      facetForm.reset();
      facetForm.dispatchEvent(new Event("input"));
    }
    if (event.target.name === "compare") {
      const [a, b] = runTable.querySelectorAll("input:checked");
      const name = (box) => site.runs[box.closest("tr").dataset.run].name;
      state.write({ a: name(a), b: name(b) }, "compare");
    }
  });
  runTable.addEventListener("change", () => {
    facetForm.elements.compare.disabled = runTable.querySelectorAll("input:checked").length !== 2;
  });
  runTable.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th[aria-sort]");
    if (!head) return;
    const column = head.cellIndex, sort = head.getAttribute("aria-sort") === "ascending" ? `-${column}` : String(column);
    state.write({ sort });
    runsView.order(sort);
  });
  document.getElementById("multiples-form").addEventListener("change", (event) => {
    state.write({ measure: event.target.value });
    load("overview").then((overview) => runsView.multiples(overview, state.read()), complain);
  });
}
