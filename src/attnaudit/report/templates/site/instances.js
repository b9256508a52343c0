// The rows of one run.
const FIRST_CHARTS = ["row.confidence", "row.positions", "row.max_alpha", "correlation.tau_gradient", "correlation.tau_loo",
  "permutation.median_delta_y", "adversary.emax_jsd", "erasure.removed_attention"];
const SPLIT_KEYS = ["layer", "head", "query"];

function rowNames({ columns, rows, facts }) {
  const keys = SPLIT_KEYS.filter((name) => columns[name]);
  const several = facts.splits.length > 1;
  const name = (row) => [
    ...(several ? [facts.splits[columns.split[row]]] : []), columns.instance[row], ...keys.map((key) => columns[key][row]),
  ].join(".");
  let rowsByName = null;
  return {
    name,
    rowOf(asked) {
      if (!rowsByName) rowsByName = new Map(Array.from({ length: rows }, (_, row) => [name(row), row]));
      return rowsByName.has(asked) ? rowsByName.get(asked) : -1;
    },
  };
}

// Classes of predictions and labels, whether they agree, and layer and head where rows have them.
function categoriesOf({ columns, facts, rows }) {
  const named = (name, label, names, values, hidden) => ({ name, label, names, values, hidden });
  const found = [named("predicted", "Predicted", facts.classes, columns.predicted)];
  if (columns.label.some((label) => label >= 0)) {
    const right = Int8Array.from({ length: rows }, (_, row) => (columns.label[row] < 0 ? -1 : columns.label[row] === columns.predicted[row] ? 0 : 1));
    found.push(named("label", "Label", facts.classes, columns.label), named("correct", "Prediction", ["correct", "wrong"], right, true));
  }
  for (const key of SPLIT_KEYS) {
    if (!columns[key]) continue;
    const numbers = [...new Set(columns[key])].sort((a, b) => a - b);
    const place = new Map(numbers.map((number, k) => [number, k]));
    if (numbers.length > 1 && numbers.length <= 64) found.push(named(key, key, numbers.map(String), Int16Array.from(columns[key], (number) => place.get(number)), true));
  }
  return found;
}

function chartedFirst(measures) {
  const known = FIRST_CHARTS.filter((name) => measures.includes(name));
  return { charts: known.length >= 2 ? known : measures.slice(0, 4), x: measures.includes("correlation.tau_gradient") ? "correlation.tau_gradient" : "row.max_alpha",
    y: measures.includes("adversary.emax_jsd") ? "adversary.emax_jsd" : "row.confidence", sort: "row" };
}

function valuesOf(loaded, row, labels) {
  const made = element("details");
  made.append(element("summary", "", "All measures of this row"));
  const list = element("dl", "settings");
  for (const name of loaded.measures) {
    const line = element("div");
    line.append(element("dt", "", labels.get(name)), element("dd", "", figure(loaded.value(name)[row])));
    list.append(line);
  }
  made.append(list);
  return made;
}

// A run of this name; a link to one that this site lacks says so, and another is shown.
function runNamed(name) {
  const found = site.runs.find((one) => one.name === name);
  if (name && !found) complain(new Error(`No run ${name} is in this site: another is shown.`));
  return found;
}

const instancesView = {
  shown: null, explorer: null,
  async show(fields) {
    const form = document.getElementById("instances-run");
    const run = runNamed(fields.get("run")) || site.runs[0];
    form.elements.run.value = run.name;
    if (this.shown !== run) {
      this.shown = run;
      this.explorer = null;
      const place = document.getElementById("instances-page");
      place.replaceChildren();
      const notice = document.getElementById("instances-notice");
      notice.textContent = run.notice;
      notice.hidden = !run.notice;
      if (run.page) {
        const link = element("a", "", "page of this run");
        link.href = run.page.split("/").map(encodeURIComponent).join("/");
        place.append(link);
      }
      const [loaded, overview] = await Promise.all([loadRun(run), load("overview")]);
      if (this.shown !== run) return;
      this.explorer = explorer(document.getElementById("instances-explorer"), this.data(loaded, overview));
    }
    if (this.explorer) this.explorer.show(state.read());
  },
  data(loaded, overview) {
    const { columns, rows } = loaded;
    const known = new Map(overview.facts.measures.map((one) => [one.name, one]));
    const labels = new Map(loaded.measures.map((name) => [name, known.get(name).label]));
    return {
      name: loaded.name, rowOf: loaded.rowOf, rows, unit: loaded.run.unit, measures: loaded.measures.map((name) => known.get(name)), value: loaded.value,
      categories: categoriesOf(loaded), initial: chartedFirst(loaded.measures), tokens: (row) => loaded.text.tokens(columns.text[row]),
      having(parts) {
        const found = loaded.text.having(parts);
        return (row) => found[columns.text[row]] === 1;
      },
      async detail(row) {
        const weights = await loaded.weights();
        const text = columns.text[row];
        const made = heatmap(loaded.text.tokens(text), loaded.text.question(text), weights, row, "");
        made.append(valuesOf(loaded, row, labels));
        return made;
      },
    };
  },
};

document.getElementById("instances-run")?.addEventListener("change", (event) => {
  state.write({ run: event.target.value }, "instances");
});
