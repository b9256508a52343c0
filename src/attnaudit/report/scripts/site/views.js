// The rows of one run, and the view that the address names.
const FIRST_CHARTS = ["row.confidence", "row.positions", "row.max_alpha", "correlation.tau_gradient",
  "correlation.tau_loo", "permutation.median_delta_y", "adversary.emax_jsd", "erasure.removed_attention"];

const category = (name, label, names, values, hidden) => ({ name, label, names, values, hidden });

// The explorer is made again for another run.
let current;
async function explore(run, make) {
  if (current?.run !== run) {
    const entry = current = { run }, data = await make();
    if (current !== entry) return;
    entry.explorer = explorer(byId("instances-explorer"), data);
  }
  current.explorer?.show(state.read());
}

const instancesView = {
  show(fields) {
    const run = runNamed(fields.get("run"), site.runs[0]), link = element("a", "", "page of this run");
    byId("instances-run").elements.run.value = run.name;
    byId("instances-notice").textContent = run.notice;
    byId("instances-notice").hidden = !run.notice;
    link.href = run.page.split("/").map(encodeURIComponent).join("/");
    byId("instances-page").replaceChildren(link);
    return explore(run, () => this.data(run));
  },
  async data(run) {
    const loaded = await loadRun(run), { columns, facts, rows, measures, value } = loaded;
    const { label, predicted } = columns, known = facts.measures;
    const categories = [category("predicted", "Predicted", facts.classes, predicted)];
    if (label.some((one) => one >= 0)) {
      const right = label.map((one, row) => (one < 0 ? -1 : Number(one !== predicted[row])));
      categories.push(category("label", "Label", facts.classes, label),
        category("correct", "Prediction", ["correct", "wrong"], right, true));
    }
    for (const key of KEYS.filter((name) => columns[name])) {
      const numbers = [...new Set(columns[key])].sort((a, b) => a - b);
      if (numbers.length < 2 || numbers.length > 64) continue;
      const values = columns[key].map((number) => numbers.indexOf(number));
      categories.push(category(key, key, numbers.map(String), values, true));
    }
    return {
      rows, unit: run.unit, name: loaded.name, measures: known, value, categories,
      initial: { charts: FIRST_CHARTS.filter((name) => measures.includes(name)), sort: "row" },
      tokens: (row) => loaded.text.tokens(columns.text[row]),
      having(parts) {
        const matches = loaded.text.having(parts);
        return (row) => matches[columns.text[row]];
      },
      async detail(row) {
        const made = await pictureOf(loaded, row);
        const all = known.map(({ name, label }) => element("div", "", element("dt", "", label),
          element("dd", "", figure(value(name)[row]))));
        made.append(element("details", "", element("summary", "", "All measures of this row"),
          element("dl", "settings", ...all)));
        return made;
      },
    };
  },
};

on(byId("instances-run"), "change", ({ target }) => state.write({ run: target.value }, "instances"));

function go() {
  const fields = state.read(), view = fields.get("view");
  for (const part of document.querySelectorAll("[data-view]")) part.hidden = part.dataset.view !== view;
  for (const link of document.querySelectorAll("nav a")) {
    const to = new URLSearchParams(link.hash.slice(1));
    link.ariaCurrent = to.get("view") === view && !to.get("at") ? "page" : null;
  }
  byId("site-error").hidden = true;
  const views = { runs: runsView, instances: instancesView };
  Promise.resolve(views[view].show(fields)).then(() => {
    byId(fields.get("at"))?.scrollIntoView();
    document.body.dataset.shown = view;
  }, complain);
}

addEventListener("hashchange", go);
go();
