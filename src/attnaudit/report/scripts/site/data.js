// What a site shows, which its address holds, and its data: packed columns, each loaded once.
const site = dataOf("site-data");
const VIEWS = ["runs", "instances"];
const RESTING = 120; // ms: browsers ignore changes of the address beyond about 20 a second
const KEYS = ["layer", "head", "query"];
const CAPTIONS = {
  alpha: "Attention", adversary: "Adversarial attention", gradient: "Gradient", loo: "Leave-one-out",
};
const LEAST = { gradient: 0.01, loo: 0.01 }; // scores that are all lower stay pale
const UNIFORM = 4; // uniform shares that have the deepest colour, so nearly uniform weights are pale

const state = {
  fields: null, at: "", timer: 0,
  read() {
    if (!this.fields || location.hash !== this.at) { // somebody else changed the address
      this.timer = clearTimeout(this.timer);
      this.at = location.hash;
      this.fields = new URLSearchParams(this.at.slice(1));
      if (!VIEWS.includes(this.fields.get("view"))) this.fields.set("view", "runs");
    }
    return new URLSearchParams(this.fields);
  },
  // Changes of the same view replace the address; a new view is one that the back button leaves.
  write(changes, view) {
    const fields = view ? new URLSearchParams({ view }) : this.read();
    for (const [name, value] of Object.entries(changes)) {
      if (value) fields.set(name, value);
      else fields.delete(name);
    }
    if (view) {
      this.settle();
      location.hash = `#${fields}`;
    } else {
      this.fields = fields;
      this.timer ||= setTimeout(() => this.settle(), RESTING);
    }
  },
  settle() {
    if (!this.timer) return;
    this.timer = clearTimeout(this.timer);
    history.replaceState(null, "", `#${this.fields}`);
    this.at = location.hash;
  },
};
for (const event of ["click", "pagehide"]) addEventListener(event, () => state.settle(), true);

function complain({ message }) {
  byId("site-error").textContent = message;
  byId("site-error").hidden = false;
}

// A run of this name; a link to one that this site lacks says so, and the `other` is shown.
function runNamed(name, other) {
  const run = site.runs.find((one) => one.name === name);
  if (name && !run) complain(new Error(`No run ${name} is in this site: another is shown.`));
  return run ?? other;
}

// Data arrive from a script of their own.
const packed = new Map(), arrivals = new Map();
window.attnauditData = (key, text) => packed.set(key, text);

function load(key) {
  if (!arrivals.has(key)) arrivals.set(key, read(key).then(unpack));
  return arrivals.get(key);
}

async function read(key) {
  const src = `data/${key}.js`;
  await new Promise((arrived, reject) => {
    const script = Object.assign(element("script"), { src });
    on(script, "load", arrived);
    on(script, "error", () => reject(new Error(`${src} cannot be read: keep the folder of this page together`)));
    document.head.append(script);
  });
  return packed.get(key);
}

async function unpack(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const columns = Object.entries(header.columns).map(([name, [type, start, size]]) => (
    [name, new window[type](buffer, 4 + length + start, size)]));
  return { columns: Object.fromEntries(columns), facts: header.facts };
}

// The rows of a run: `value(name)` is a measure as numbers, NaN if it is undefined.
async function loadRun(run) {
  const [{ columns, facts }, texts] = await Promise.all([load(`${run.key}-columns`), load(run.texts)]);
  const keys = ["instance", ...KEYS.filter((key) => columns[key])];
  const split = (row) => (facts.splits.length > 1 ? [facts.splits[columns.split[row]]] : []);
  return {
    run, columns, facts, rows: facts.rows, text: textsOf(texts),
    name: (row) => [...split(row), ...keys.map((key) => columns[key][row])].join("."),
    measures: Object.keys(facts.ends),
    value: memo((measure) => restored(columns[measure], facts.ends[measure])),
    weights: () => load(`${run.key}-weights`).then(weightsOf),
  };
}

function memo(compute) {
  const known = new Map();
  return (name) => {
    if (!known.has(name)) known.set(name, compute(name));
    return known.get(name);
  };
}

function restored(steps, [low, high]) {
  const values = new Float64Array(steps.length), width = (high - low) / 65534;
  for (let row = 0; row < steps.length; row += 1) {
    values[row] = steps[row] === 65535 ? NaN : low + width * steps[row];
  }
  return values;
}

function starts(lengths) {
  const ends = new Uint32Array(lengths.length + 1);
  lengths.forEach((length, k) => { ends[k + 1] = ends[k] + length; });
  return ends;
}

// Texts are numbers of words; those of the questions come after all texts.
function textsOf({ columns: { words, lengths }, facts: { texts, vocabulary } }) {
  const at = starts(lengths), lower = vocabulary.map((word) => word.toLowerCase());
  const numbers = (k) => words.subarray(at[k], at[k + 1]);
  const tokens = (k) => Array.from(numbers(k), (word) => vocabulary[word]);
  return {
    tokens, question: (k) => tokens(texts + k).join(" "),
    // Whether each text, with its question, has a word with each of the parts.
    having(parts) {
      const matches = parts.map((part) => lower.map((word) => word.includes(part)));
      const has = (k, match) => numbers(k).some((word) => match[word]);
      return times(texts, (k) => matches.every((match) => has(k, match) || has(texts + k, match)));
    },
  };
}

function weightsOf({ columns, facts }) {
  const at = starts(columns.lengths);
  const part = (name, row) => Array.from(columns[name]?.subarray(at[row], at[row + 1]) ?? []);
  const marked = (name, row) => part(name, row).flatMap((mark, k) => (mark ? [k] : []));
  const strip = (kind, row) => {
    const steps = columns[kind] instanceof Uint16Array ? 65535 : 255, top = columns[`${kind}.top`][row];
    const own = part(kind, row).map((step) => step / steps), all = sum(own);
    const full = Math.max(1, Math.min((UNIFORM * all) / own.length, all), (LEAST[kind] ?? 0) / (top || 1));
    return [kind, CAPTIONS[kind], "", top, full * top, own.map((weight) => (1000 * weight) / full), []];
  };
  return {
    strips: (row) => facts.kinds.map((kind) => strip(kind, row)),
    known: (row) => marked("rationale", row), special: (row) => marked("special", row),
  };
}

// The text of a row with its weights, below a `head`.
async function pictureOf(loaded, row, ...head) {
  const { strips, known, special } = await loaded.weights(), text = loaded.columns.text[row];
  const [tokens, question] = [loaded.text.tokens(text), loaded.text.question(text)];
  const one = { tokens, question, strips: strips(row), known: known(row), special: special(row) };
  return heatmap(one, ...head);
}

// Measures grouped by their experiment.
function measureOptions(select, measures, chosen) {
  const groups = Object.groupBy(measures, ({ experiment }) => experiment);
  select.replaceChildren(...Object.entries(groups).map(([experiment, group]) => {
    const made = element("optgroup", "", ...group.map(({ name, label }) => new Option(label, name)));
    made.label = experiment === "row" ? "text" : experiment;
    return made;
  }));
  select.value = measures.some(({ name }) => name === chosen) ? chosen : measures[0]?.name;
}
