// Two runs on the rows that both have with the same text: paired differences of every measure, and the rows on which they disagree most.
const JSD = "pair.jsd", QUALITY = "prediction";

// The rows of both runs with the same split, instance, layer, head and query, as far as both name them, and the same text.
function joined(a, b) {
  const keys = ["split", "instance", ...SPLIT_KEYS].filter((key) => a.columns[key] && b.columns[key]);
  const named = (one) => (row) => keys.map((key) => (key === "split" ? one.facts.splits[one.columns.split[row]] : one.columns[key][row])).join("/");
  const [nameA, nameB] = [named(a), named(b)], others = new Map(), seen = new Set();
  for (let row = 0; row < b.rows; row += 1) others.set(nameB(row), row);
  let several = others.size < b.rows ? b.run.name : "", changed = 0;
  const rows = [];
  for (let row = 0; row < a.rows; row += 1) {
    const name = nameA(row), other = others.get(name);
    if (seen.has(name)) several = a.run.name;
    seen.add(name);
    if (other === undefined) continue;
    if (a.text.mark[a.columns.text[row]] === b.text.mark[b.columns.text[other]]) rows.push([row, other]);
    else changed += 1;
  }
  if (several) rows.length = 0;
  return { a: Uint32Array.from(rows, ([row]) => row), b: Uint32Array.from(rows, ([, row]) => row), name: (k) => a.name(rows[k][0]), several, changed };
}

// Which text each of these rows is of, numbered in the order of split and instance.
function textsInOrder({ columns, facts }, rows) {
  const split = (row) => (columns.split ? facts.splits[columns.split[row]] || "" : "");
  const order = Array.from(rows, (_, k) => k).sort((k, other) => {
    const [one, two] = [split(rows[k]), split(rows[other])];
    return one < two ? -1 : one > two ? 1 : columns.instance[rows[k]] - columns.instance[rows[other]];
  });
  const of = new Uint32Array(rows.length);
  let texts = 0;
  order.forEach((k, place) => {
    const before = place ? rows[order[place - 1]] : -1;
    if (before < 0 || split(before) !== split(rows[k]) || columns.instance[before] !== columns.instance[rows[k]]) texts += 1;
    of[k] = texts - 1;
  });
  return { of, texts };
}

// The means of both where both are defined.
function pairedMeans(first, second) {
  let n = 0, a = 0, b = 0;
  for (let k = 0; k < first.length; k += 1) {
    if (Number.isNaN(first[k]) || Number.isNaN(second[k])) continue;
    n += 1;
    a += first[k];
    b += second[k];
  }
  return { n, a: a / n, b: b / n, difference: (b - a) / n, low: NaN, high: NaN };
}

function conclusion({ low, high }, judged) {
  if (!judged) return "withheld";
  if (Number.isNaN(low)) return "too few instances";
  return low > 0 ? "b is higher" : high < 0 ? "b is lower" : "no difference shown";
}

// What must be known of two runs before their differences are read.
function notesOf(a, b, measures) {
  const lacking = (one, other) => [...new Set(one.measures.filter((name) => !other.measures.includes(name)).map((name) => name.split(".")[0]))];
  const settings = [...new Set([a, b].flatMap((one) => Object.keys(one.run.settings)))]
    .filter((name) => name.startsWith("experiments.") && !name.endsWith(".seed") && a.run.settings[name] !== b.run.settings[name])
    .filter((name) => a.run.settings[name] !== undefined && b.run.settings[name] !== undefined && measures.some((one) => name.startsWith(`experiments.${one.experiment}.`)));
  return [
    ...[a, b].filter((one) => one.run.notice).map((one) => `${one.run.name}: ${one.run.notice}`),
    ...[[a, b], [b, a]].map(([one, other]) => [lacking(one, other), other]).filter(([names]) => names.length)
      .map(([names, other]) => `Measures of ${names.join(", ")} that ${other.run.name} lacks are not compared.`),
    ...settings.map((name) => `${name.slice("experiments.".length)} is ${a.run.settings[name]} in a and ${b.run.settings[name]} in b: its measures are not of one kind.`),
  ];
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

function stepOf({ facts }, name) {
  const [low, high] = facts.ends[name];
  return (high - low) / 131000;
}

// Keys of the resamples, and the tails of percentiles, as the data of all runs have them.
function drawingOf({ columns, facts }) {
  return { keys: columns["bootstrap.keys"], tails: columns["bootstrap.tails"], first: facts.fewest };
}

const compareView = {
  pair: "", found: null, explorer: null, measure: "",
  async show(fields) {
    const form = document.getElementById("compare-runs");
    const first = runNamed(fields.get("a")) || site.runs[0];
    const alike = (one) => one !== first && one.texts === first.texts;
    const second = runNamed(fields.get("b")) || site.runs.find(alike) || site.runs[site.runs.length > 1 ? 1 : 0];
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
    const known = new Map(overview.facts.measures.map((one) => [one.name, one]));
    const measures = a.measures.filter((name) => name !== "row.positions" && b.measures.includes(name)).map((name) => known.get(name));
    const take = (values, rows) => Float64Array.from(rows, (row) => values[row]);
    const value = (name) => { // equal where they are as far as the steps tell in which values were kept
      const [first, second] = [take(a.value(name), rows.a), take(b.value(name), rows.b)], slack = stepOf(a, name) + stepOf(b, name);
      return [first, second.map((one, k) => (Math.abs(one - first[k]) <= slack ? first[k] : one))];
    };
    const { of, texts } = textsInOrder(a, rows.a);
    const notices = a.run.notice || b.run.notice;
    const differences = rows.a.length ? measures.map((one) => ({
      ...one, ...pairedMeans(...value(one.name)), judged: !notices || one.experiment === QUALITY || one.name === "row.confidence",
    })).filter((one) => one.n) : [];
    const first = ["correlation.tau_gradient", "permutation.median_delta_y"].find((name) => measures.some((one) => one.name === name));
    return { a, b, rows, measures, value, differences, of, texts, drawing: drawingOf(overview), first: first || (measures[0] && measures[0].name) };
  },
  table() {
    const { a, b, rows, measures, differences, texts } = this.found;
    const lead = document.getElementById("compare-lead"), notes = document.getElementById("compare-notes");
    const place = document.getElementById("compare-table"), select = document.getElementById("compare-runs").elements.measure;
    place.replaceChildren();
    place.hidden = !rows.a.length;
    notes.replaceChildren();
    document.getElementById("compare-explorer").replaceChildren();
    if (!rows.a.length) {
      lead.textContent = rows.several ? `${rows.several} has several rows of an instance, and the other run does not name them: choose runs with the same heads.`
        : rows.changed ? `${thousands(rows.changed)} instances have the same number in both runs, and none the same text: choose runs on the same texts.`
          : "These two runs have no instance in common: choose runs on the same corpus.";
      select.replaceChildren();
      return;
    }
    measureOptions(select, [{ name: JSD, experiment: "attention", label: "JSD of the two attentions" }, ...measures]);
    const unit = texts < rows.a.length ? `rows, of ${thousands(texts)} texts,` : "instances";
    const changed = rows.changed ? ` ${thousands(rows.changed)} of each have a number of the other and another text.` : "";
    lead.textContent = `Both runs have ${thousands(rows.a.length)} ${unit} with the same text; a has ${thousands(a.rows - rows.a.length)} more, b has ${thousands(b.rows - rows.a.length)} more.${changed} `
      + "Intervals are 95 % bootstrap intervals over these texts, as of attnaudit compare: they compare these two trained models, not models of other seeds.";
    notes.replaceChildren(...notesOf(a, b, measures).map((note) => element("li", "", note)));
    const made = element("table"), head = element("thead"), line = element("tr"), body = element("tbody");
    made.append(element("caption", "", "Paired differences, b − a"), head, body);
    for (const [k, title] of ["Measure", "a", "b", "b − a", "95 % interval", "n", "Conclusion"].entries()) {
      const cell = element("th", k && k < 6 ? "num" : "", title);
      cell.scope = "col";
      line.append(cell);
    }
    head.append(line);
    for (const row of differences) {
      const one = element("tr"), name = element("th"), link = element("button", "as-link", row.label);
      link.type = "button";
      link.dataset.measure = row.name;
      if (row.meaning) link.title = row.meaning;
      name.scope = "row";
      name.append(link, " ", element("span", "muted", row.experiment === "row" ? "" : row.experiment));
      one.append(name, ...[fixed(row.a), fixed(row.b), fixed(row.difference), "…", thousands(row.n)].map((shown) => element("td", "num", shown)), element("td", "", "…"));
      body.append(one);
    }
    place.append(made);
    this.intervals(place, body).catch(complain);
  },
  // Intervals and conclusions, once they are drawn: seconds for many rows.
  async intervals(place, body) {
    const { value, differences, of, texts, drawing } = this.found, pair = this.pair;
    const bar = element("progress");
    bar.setAttribute("aria-label", "Drawing the intervals");
    place.querySelector("caption").append(" ", bar);
    place.setAttribute("aria-busy", "true");
    delete place.dataset.ready;
    const sums = differences.map((one) => summed(...value(one.name), of, texts));
    const found = await intervals(sums, texts, drawing, () => this.pair === pair, (share) => { bar.value = share; });
    if (!found) return;
    bar.remove();
    differences.forEach((one, k) => {
      [one.low, one.high] = found[k];
      one.conclusion = conclusion(one, one.judged);
      const line = body.rows[k];
      line.cells[4].textContent = Number.isNaN(one.low) ? "–" : `[${fixed(one.low)}, ${fixed(one.high)}]`;
      line.cells[6].textContent = one.conclusion;
      line.classList.toggle("not-shown", !one.conclusion.startsWith("b is"));
    });
    place.removeAttribute("aria-busy");
    place.dataset.ready = pair;
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
