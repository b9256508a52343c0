// The rows of one run, the rows that two runs share, and the view that the address names.
const FIRST_CHARTS = ["row.confidence", "row.positions", "row.max_alpha", "correlation.tau_gradient",
  "correlation.tau_loo", "permutation.median_delta_y", "adversary.emax_jsd", "erasure.removed_attention"];
const JSD = "pair.jsd";

const category = (name, label, names, values, hidden) => ({ name, label, names, values, hidden });

// What both views show of the texts of rows: `textOf` tells which text a row has.
const textsAt = ({ text }, textOf) => ({
  tokens: (row) => text.tokens(textOf(row)),
  having(parts) {
    const matches = text.having(parts);
    return (row) => matches[textOf(row)];
  },
});

// An explorer at an element, made again if its `key` is another; `make` promises its data.
const explorers = new Map();
async function explore(id, key, make) {
  if (explorers.get(id)?.key !== key) {
    const entry = { key };
    explorers.set(id, entry);
    const data = await make();
    if (explorers.get(id) !== entry) return;
    entry.explorer = explorer(byId(id), data);
  }
  explorers.get(id).explorer?.show(state.read());
}

const instancesView = {
  show(fields) {
    const run = runNamed(fields.get("run"), site.runs[0]), link = element("a", "", "page of this run");
    byId("instances-run").elements.run.value = run.name;
    byId("instances-notice").textContent = run.notice;
    byId("instances-notice").hidden = !run.notice;
    link.href = run.page.split("/").map(encodeURIComponent).join("/");
    byId("instances-page").replaceChildren(...(run.page ? [link] : []));
    return explore("instances-explorer", run.name, () => this.data(run));
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
      ...textsAt(loaded, (row) => columns.text[row]),
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

// The measures of a pair: each of both runs, and how far they are apart.
const SIDES = { a: "a", b: "b", difference: "b − a", apart: "|b − a|" };

const compareView = {
  form: byId("compare-runs"),
  async show(fields) {
    const { runs, pairs } = site, asked = runNamed(fields.get("a"), runs[0]);
    const others = runs.filter((run) => run !== asked);
    const alike = others.find(({ texts }) => texts === asked.texts) ?? others[0] ?? asked;
    const two = [asked, runNamed(fields.get("b"), alike)].map((run) => runs.indexOf(run)).sort((p, q) => p - q);
    const { key, reason } = pairs[two.join("-")] ?? {}, [a, b] = two.map((k) => runs[k]), { elements } = this.form;
    [elements.a.value, elements.b.value] = [a.name, b.name];
    const [loadedA, loadedB, pair] = await Promise.all([loadRun(a), loadRun(b), key && load(key)]);
    if (elements.a.value !== a.name || elements.b.value !== b.name) return;
    this.table(pair?.facts, reason ?? "These two runs are not compared in this site: run attnaudit compare on them.");
    if (pair) await explore("compare-explorer", key, async () => this.data(loadedA, loadedB, pair));
    byId("compare-explorer").hidden = !pair;
  },
  table(facts, reason) {
    byId("compare-lead").textContent = facts?.lead ?? reason;
    byId("compare-notes").replaceChildren(...(facts?.notes ?? []).map((note) => element("li", "", note)));
    byId("compare-table").replaceChildren();
    if (!facts) return;
    const rows = facts.measures.map(([name, experiment, label, ...texts]) => {
      const link = button(label, () => this.lead(name), "as-link");
      return [element("span", "", link, element("span", "muted", ` ${experiment}`)), ...texts];
    });
    const table = tableOf("Paired differences, b − a", facts.columns, rows, [0, facts.columns.length - 1]);
    table.caption.className = "";
    for (const row of table.tBodies[0].rows) {
      row.classList.toggle("not-shown", !row.lastChild.textContent.startsWith("b is"));
    }
    byId("compare-table").append(table);
  },
  lead(name) {
    const [a, b, gap, apart] = Object.keys(SIDES).map((side) => `${side}.${name}`);
    state.write({ charts: `${gap},${a},${b}`, sort: `-${apart}`, page: null });
    go();
    byId("compare-explorer").scrollIntoView();
  },
  data(a, b, { columns, facts }) {
    // Rows of both runs are stored as steps from one to the next.
    const sides = { a: [a, starts(columns.a).subarray(1)], b: [b, starts(columns.b).subarray(1)] };
    const [[, ofA], [, ofB]] = Object.values(sides), jsd = restored(columns.jsd, facts.jsd);
    const value = memo((name) => {
      if (name === JSD) return jsd;
      const [side, ...rest] = name.split("."), measure = rest.join(".");
      if (side in sides) {
        const [run, rows] = sides[side], values = run.value(measure);
        return Float64Array.from(rows, (row) => values[row]);
      }
      const [first, second] = ["a", "b"].map((each) => value(`${each}.${measure}`));
      const slack = stepOf(first) + stepOf(second), sign = side === "apart" ? Math.abs : (gap) => gap;
      return second.map((one, k) => (Math.abs(one - first[k]) <= slack ? 0 : sign(one - first[k])));
    });
    const measures = facts.measures
      .filter(([name]) => a.measures.includes(name) && b.measures.includes(name))
      .flatMap(([name, experiment, label]) => Object.entries(SIDES).map(([side, mark]) => (
        { name: `${side}.${name}`, experiment, label: `${label}: ${mark}` })));
    const classes = [...new Set([...a.facts.classes, ...b.facts.classes])];
    const placed = (side, nameOf) => Int32Array.from(side, (row) => classes.indexOf(nameOf(row)));
    const [one, other] = [placed(ofA, a.classOf), placed(ofB, b.classOf)];
    const gold = placed(ofA, (row) => a.facts.classes[a.columns.label[row]]);
    const same = one.map((chosen, k) => Number(chosen !== other[k]));
    const usual = "difference.correlation.tau_gradient", names = measures.map(({ name }) => name);
    const main = (names.includes(usual) ? usual : names[2])?.replace("difference.", "");
    const charts = [JSD, ...(main ? [`a.${main}`, `b.${main}`] : [])];
    return {
      rows: jsd.length, unit: a.run.unit, name: (k) => a.name(ofA[k]), value,
      measures: [{ name: JSD, experiment: "attention", label: "JSD of the two attentions" }, ...measures],
      categories: [
        category("predicted_a", "Predicted by a", classes, one),
        category("predicted_b", "Predicted by b", classes, other),
        category("label", "Label", classes, gold),
        category("agree", "Predictions", ["same", "different"], same, true),
      ],
      initial: { charts, sort: `-${JSD}` },
      ...textsAt(a, (k) => a.columns.text[ofA[k]]),
      async detail(k) {
        const both = Object.values(sides).map(([run, rows]) => {
          const confidence = figure(run.value("row.confidence")[rows[k]]);
          const title = `${run.run.name}: predicted ${run.classOf(rows[k])}, ŷ ${confidence}`;
          return pictureOf(run, rows[k], element("h4", "", title));
        });
        return element("div", "side-by-side", ...await Promise.all(both));
      },
    };
  },
};

on(byId("instances-run"), "change", ({ target }) => state.write({ run: target.value }, "instances"));
on(compareView.form, "change", ({ currentTarget: { elements: { a, b } } }) => {
  state.write({ a: a.value, b: b.value }, "compare");
});

function go() {
  const fields = state.read(), view = fields.get("view");
  for (const part of document.querySelectorAll("[data-view]")) part.hidden = part.dataset.view !== view;
  for (const link of document.querySelectorAll("nav a")) {
    const to = new URLSearchParams(link.hash.slice(1));
    link.ariaCurrent = to.get("view") === view && !to.get("at") ? "page" : null;
  }
  byId("site-error").hidden = true;
  const views = { runs: runsView, instances: instancesView, compare: compareView };
  Promise.resolve(views[view].show(fields)).then(() => {
    byId(fields.get("at"))?.scrollIntoView();
    document.body.dataset.shown = view;
  }, complain);
}

addEventListener("hashchange", go);
go();
