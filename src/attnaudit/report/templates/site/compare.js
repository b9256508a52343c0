// Two runs on the rows that both have with the same text: paired differences of every measure, and the rows on which they disagree most.
const FEWEST = 6, Z = 1.959964, JSD = "pair.jsd";

function joined(a, b) {
  const names = [rowNames(a), rowNames(b)];
  const rows = [];
  for (let row = 0; row < a.rows; row += 1) {
    const other = names[1].rowOf(names[0].name(row));
    if (other >= 0 && a.text.mark[a.columns.text[row]] === b.text.mark[b.columns.text[other]]) rows.push([row, other]);
  }
  return { a: Uint32Array.from(rows, ([row]) => row), b: Uint32Array.from(rows, ([, row]) => row), name: (k) => names[0].name(rows[k][0]) };
}

// The means where both are defined, their difference, and its interval: normal, by the spread of the sums over the rows of a text.
function pairedMeans(first, second, text) {
  let n = 0, sumA = 0, sumB = 0;
  for (let k = 0; k < first.length; k += 1) {
    if (Number.isNaN(first[k]) || Number.isNaN(second[k])) continue;
    n += 1;
    sumA += first[k];
    sumB += second[k];
  }
  const difference = (sumB - sumA) / n;
  const off = new Map();
  for (let k = 0; k < first.length; k += 1) {
    if (Number.isNaN(first[k]) || Number.isNaN(second[k])) continue;
    off.set(text[k], (off.get(text[k]) || 0) + second[k] - first[k] - difference);
  }
  let square = 0;
  for (const one of off.values()) square += one * one;
  const half = off.size < FEWEST ? NaN : (Z * Math.sqrt((square * off.size) / (off.size - 1))) / n;
  return { n, a: sumA / n, b: sumB / n, difference, low: difference - half, high: difference + half };
}

function conclusion({ low, high }, judged) {
  if (!judged) return "withheld";
  if (Number.isNaN(low)) return "too few instances";
  return low > 0 ? "b is higher" : high < 0 ? "b is lower" : "no difference shown";
}

function divergence(weights, rows) {
  const found = new Float64Array(rows.a.length);
  const distribution = (one, row) => {
    const shares = one.shares("alpha", row), sum = shares.reduce((x, y) => x + y, 0);
    return shares.map((share) => share / sum);
  };
  for (let k = 0; k < found.length; k += 1) {
    const [p, q] = [distribution(weights[0], rows.a[k]), distribution(weights[1], rows.b[k])];
    let sum = 0;
    for (let t = 0; t < p.length; t += 1) {
      const middle = (p[t] + q[t]) / 2;
      if (p[t] > 0) sum += (p[t] * Math.log(p[t] / middle)) / 2;
      if (q[t] > 0) sum += (q[t] * Math.log(q[t] / middle)) / 2;
    }
    found[k] = p.length === q.length ? Math.max(sum, 0) : NaN;
  }
  return found;
}

const compareView = {
  pair: "", found: null, explorer: null, measure: "",
  async show(fields) {
    const form = document.getElementById("compare-runs");
    const first = site.runs.find((one) => one.name === fields.get("a")) || site.runs[0];
    const alike = (one) => one !== first && one.texts === first.texts;
    const second = site.runs.find((one) => one.name === fields.get("b")) || site.runs.find(alike) || site.runs[site.runs.length > 1 ? 1 : 0];
    form.elements.a.value = first.name;
    form.elements.b.value = second.name;
    const pair = JSON.stringify([first.name, second.name]);
    if (this.pair !== pair) {
      this.pair = pair;
      this.explorer = null;
      const [a, b, overview] = await Promise.all([loadRun(first), loadRun(second), load("overview")]);
      if (this.pair !== pair) return;
      this.found = this.compared(a, b, overview);
      this.table();
    }
    if (!this.found || !this.found.rows.a.length) return;
    const asked = fields.get("measure");
    const measure = asked === JSD || this.found.measures.some((one) => one.name === asked) ? asked : this.found.first;
    form.elements.measure.value = measure;
    if (!this.explorer || this.measure !== measure) {
      this.measure = measure;
      const data = await this.data(measure);
      if (this.pair !== pair || this.measure !== measure) return;
      this.explorer = explorer(document.getElementById("compare-explorer"), data);
    }
    this.explorer.show(state.read());
  },
  compared(a, b, overview) {
    const rows = joined(a, b);
    const measures = overview.facts.measures.filter((one) => one.name !== "row.positions" && a.measures.includes(one.name) && b.measures.includes(one.name));
    const take = (values, rows) => Float64Array.from(rows, (row) => values[row]);
    const value = (name) => [take(a.value(name), rows.a), take(b.value(name), rows.b)];
    const text = Array.from(rows.a, (row) => `${a.columns.split ? a.columns.split[row] : ""}.${a.columns.instance[row]}`);
    const ids = new Map();
    const cluster = Uint32Array.from(text, (name) => {
      if (!ids.has(name)) ids.set(name, ids.size);
      return ids.get(name);
    });
    const judged = !(a.run.notice || b.run.notice);
    const differences = rows.a.length ? measures.map((one) => {
      const row = pairedMeans(...value(one.name), cluster);
      return { ...one, ...row, conclusion: conclusion(row, judged || one.experiment === "prediction" || one.name === "row.confidence") };
    }) : [];
    const first = ["correlation.tau_gradient", "permutation.median_delta_y"].find((name) => measures.some((one) => one.name === name));
    return { a, b, rows, measures, value, differences, texts: ids.size, first: first || (measures[0] && measures[0].name) };
  },
  table() {
    const { a, b, rows, measures, differences, texts } = this.found;
    const lead = document.getElementById("compare-lead"), place = document.getElementById("compare-table");
    const select = document.getElementById("compare-runs").elements.measure;
    const notes = [...new Set([a, b].filter((one) => one.run.notice).map((one) => `${one.run.name}: ${one.run.notice}`))];
    place.replaceChildren();
    document.getElementById("compare-explorer").replaceChildren();
    if (!rows.a.length) {
      lead.textContent = "These two runs have no row with the same text: choose runs on the same corpus.";
      select.replaceChildren();
      return;
    }
    measureOptions(select, [{ name: JSD, experiment: "attention", label: "JSD of the two attentions" }, ...measures]);
    lead.textContent = [`${thousands(rows.a.length)} rows of ${thousands(texts)} texts are in both; a has ${thousands(a.rows - rows.a.length)} more, b ${thousands(b.rows - rows.a.length)}.`,
      "Intervals (95 %, normal, over texts) compare these two trained models, not models of other seeds.", ...notes].join(" ");
    const made = element("table"), head = element("thead"), line = element("tr"), body = element("tbody");
    made.append(element("caption", "", "Paired differences, b − a"), head, body);
    for (const [k, title] of ["Measure", "a", "b", "b − a", "95 % interval", "n", "Conclusion"].entries()) {
      const cell = element("th", k && k < 6 ? "num" : "", title);
      cell.scope = "col";
      line.append(cell);
    }
    head.append(line);
    for (const row of differences.filter((one) => one.n)) {
      const one = element("tr"), name = element("th"), link = element("button", "as-link", row.label);
      link.type = "button";
      link.dataset.measure = row.name;
      if (row.meaning) link.title = row.meaning;
      name.scope = "row";
      name.append(link, " ", element("span", "muted", row.experiment === "row" ? "" : row.experiment));
      one.append(name, ...[figure(row.a), figure(row.b), figure(row.difference), Number.isNaN(row.low) ? "–" : `[${figure(row.low)}, ${figure(row.high)}]`, thousands(row.n)]
        .map((shown) => element("td", "num", shown)), element("td", "", row.conclusion));
      if (!row.conclusion.startsWith("b is")) one.className = "not-shown";
      body.append(one);
    }
    place.append(made);
  },
  async data(measure) {
    const { a, b, rows, value, measures } = this.found;
    const label = measure === JSD ? "JSD of the two attentions" : measures.find((one) => one.name === measure).label;
    const values = new Map();
    if (measure === JSD) {
      values.set(JSD, divergence(await Promise.all([a.weights(), b.weights()]), rows));
      const [first, second] = value("row.confidence");
      values.set("pair.a", first).set("pair.b", second);
    } else {
      const [first, second] = value(measure);
      values.set("pair.a", first).set("pair.b", second).set("pair.difference", second.map((one, k) => one - first[k]));
      values.set("pair.apart", second.map((one, k) => Math.abs(one - first[k])));
    }
    const of = measure === JSD ? "ŷ" : label;
    const named = { [JSD]: label, "pair.difference": `${label}: b − a`, "pair.apart": `${label}: |b − a|`, "pair.a": `${of}: a`, "pair.b": `${of}: b` };
    const list = Object.keys(named).filter((name) => values.has(name)).map((name) => ({ name, label: named[name], experiment: "pair" }));
    const classes = [...new Set([...a.facts.classes, ...b.facts.classes])];
    const classOf = (run, rows) => Int32Array.from(rows, (row) => classes.indexOf(run.facts.classes[run.columns.predicted[row]]));
    const [one, other] = [classOf(a, rows.a), classOf(b, rows.b)];
    const gold = Int32Array.from(rows.a, (row) => (a.columns.label[row] < 0 ? -1 : classes.indexOf(a.facts.classes[a.columns.label[row]])));
    const rowsByName = new Map();
    rows.a.forEach((_, k) => rowsByName.set(rows.name(k), k));
    return {
      rows: rows.a.length, unit: a.run.unit, name: rows.name, rowOf: (name) => (rowsByName.has(name) ? rowsByName.get(name) : -1), measures: list, value: (name) => values.get(name),
      categories: [
        { name: "predicted_a", label: "Predicted by a", names: classes, values: one },
        { name: "predicted_b", label: "Predicted by b", names: classes, values: other },
        { name: "label", label: "Label", names: classes, values: gold },
        { name: "agree", label: "Predictions", names: ["same", "different"], values: one.map((chosen, k) => (chosen === other[k] ? 0 : 1)), hidden: true },
      ],
      initial: { charts: list.map((each) => each.name).filter((name) => name !== "pair.apart"), x: "pair.a", y: "pair.b", sort: measure === JSD ? `-${JSD}` : "-pair.apart" },
      tokens: (k) => a.text.tokens(a.columns.text[rows.a[k]]),
      having(parts) {
        const found = a.text.having(parts);
        return (k) => found[a.columns.text[rows.a[k]]] === 1;
      },
      async detail(k) {
        const made = element("div", "side-by-side");
        for (const [run, row] of [[a, rows.a[k]], [b, rows.b[k]]]) {
          const text = run.columns.text[row], chosen = run.facts.classes[run.columns.predicted[row]];
          const title = `${run.run.name}: predicted ${chosen}, ŷ ${figure(run.value("row.confidence")[row])}`;
          made.append(heatmap(run.text.tokens(text), run.text.question(text), await run.weights(), row, title));
        }
        return made;
      },
    };
  },
};

document.getElementById("compare-runs")?.addEventListener("change", (event) => {
  const { a, b, measure } = event.currentTarget.elements;
  if (event.target === measure) state.write({ a: a.value, b: b.value, measure: measure.value, sort: null, page: null, open: null, charts: null, x: null, y: null });
  else state.write({ a: a.value, b: b.value, measure: measure.value }, "compare");
  if (event.target === measure) compareView.show(state.read()).catch(complain);
});
document.getElementById("compare-table")?.addEventListener("click", (event) => {
  const link = event.target.closest("[data-measure]");
  if (!link) return;
  const { a, b } = document.getElementById("compare-runs").elements;
  state.write({ a: a.value, b: b.value, measure: link.dataset.measure }, "compare");
  document.getElementById("compare").scrollIntoView();
});
