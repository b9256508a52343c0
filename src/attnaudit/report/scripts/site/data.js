// What a site shows, which its address holds, and its data: packed columns, each loaded once.
const site = dataOf("site-data");
const VIEWS = ["runs", "instances", "compare"];
const RESTING = 120; // ms: browsers ignore changes of the address beyond about 20 a second
const KEYS = ["layer", "head", "query"];
const CAPTIONS = {
  alpha: "Attention", adversary: "Adversarial attention", gradient: "Gradient",
    loo: "Leave-one-out",
};
const LONG = 120; // tokens from which a text is in boxes that scroll
const UNIFORM = 4;
  // uniform shares that have the deepest colour, so nearly uniform weights are pale

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
  const said = byId("site-error");
  said.textContent = message;
  said.hidden = false;
}

// A run of this name; a link to one that this site lacks says so, and the `other` is shown.
function runNamed(name, other) {
  const found = site.runs.find((run) => run.name === name);
  if (name && !found) complain(new Error(`No run ${name} is in this site: another is shown.`));
  return found ?? other;
}

// Data arrive from a script of their own, or are in an element of a page that is one file.
const arrivals = new Map();
window.attnauditData = (key, packed) => arrivals.get(key)?.arrived(packed);

function load(key) {
  if (!arrivals.has(key)) {
    const entry = {}, inlined = dataOf(`data-${key}`);
    entry.read = new Promise((arrived, reject) => {
      entry.arrived = arrived;
      if (inlined) return arrived(inlined);
      const script = Object.assign(element("script"), { src: `data/${key}.js` });
      const told = `data/${key}.js cannot be read: keep the folder of this page together`;
      on(script, "error", () => reject(new Error(told)));
      return document.head.append(script);
    }).then(unpack);
    arrivals.set(key, entry);
  }
  return arrivals.get(key).read;
}

async function unpack(packed) {
  const stream = new Blob([bytesOf(packed)]).stream().pipeThrough(
    new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const read = ([type, start, size]) => new window[type](buffer, 4 + length + start, size);
  const columns = Object.entries(header.columns).map(([name, place]) => [name, read(place)]);
  return { columns: Object.fromEntries(columns), facts: header.facts };
}

// The rows of a run: `value(name)` is a measure as numbers, NaN where it is undefined.
async function loadRun(run) {
  const [{ columns, facts }, texts] = await Promise.all([load(run.columns), load(run.texts)]);
  const keys = KEYS.filter((key) => columns[key]), values = new Map();
  const split = facts.splits.length > 1 ? (row) => [facts.splits[columns.split[row]]] : () => [];
  const name = (row) => [...split(row), columns.instance[row],
    ...keys.map((key) => columns[key][row])]
    .join(".");
  return {
    run, columns, facts, rows: facts.rows, text: textsOf(texts), name,
    measures: Object.keys(facts.ends),
    value(measure) {
      if (!values.has(measure)) values.set(measure,
        restored(columns[measure], facts.ends[measure]));
      return values.get(measure);
    },
    classOf: (row) => facts.classes[columns.predicted[row]],
    weights: () => load(run.weights).then(weightsOf),
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
  const found = new Uint32Array(lengths.length + 1);
  lengths.forEach((length, k) => { found[k + 1] = found[k] + length; });
  return found;
}

// Texts are numbers of words; those of the questions come after all texts.
function textsOf({ columns: { words, lengths }, facts: { texts, vocabulary } }) {
  const at = starts(lengths), lower = vocabulary.map((word) => word.toLowerCase());
  const read = (k) => Array.from(words.subarray(at[k], at[k + 1]), (word) => vocabulary[word]);
  return {
    tokens: read, question: (k) => read(texts + k).join(" "),
    // 1 for each text in which, or in whose question, a word has each of the parts
    having(parts) {
      const asked = parts.slice(0, 31), every = 2 ** asked.length - 1;
      const bits = Uint32Array.from(lower, (word) => asked.reduce(
        (seen, part, bit) => seen | (word.includes(part) ? 1 << bit : 0), 0));
      const found = new Uint8Array(texts);
      for (let k = 0; k < texts; k += 1) {
        let seen = 0;
        for (let i = at[k]; i < at[k + 1]; i += 1) seen |= bits[words[i]];
        for (let i = at[texts + k]; i < at[texts + k + 1]; i += 1) seen |= bits[words[i]];
        found[k] = seen === every ? 1 : 0;
      }
      return found;
    },
  };
}

function weightsOf({ columns, facts }) {
  const at = starts(columns.lengths);
  const part = (name, row) => Array.from(columns[name]?.subarray(at[row], at[row + 1]) ?? []);
  const full = (kind) => (columns[kind] instanceof Uint16Array ? 65535 : 255);
  const shares = (kind, row) => part(kind, row).map((step) => step / full(kind));
  const marked = (name, row) => part(name, row).flatMap((mark, k) => (mark ? [k] : []));
  return {
    strips: (row) => facts.kinds.map((kind) => {
      const own = shares(kind, row), top = columns[`${kind}.top`][row], sum = model.sum(own);
      const full = Math.max(1, Math.min((UNIFORM * sum) / own.length, sum));
      return [kind, CAPTIONS[kind], "", top, full * top, own.map((w) => (1000 * w) / full), []];
    }),
    marks: (row) => ({ known: marked("rationale", row), special: marked("special", row) }),
  };
}

// The text of a row with its weights, below a `head`.
async function pictureOf(loaded, row, ...head) {
  const weights = await loaded.weights(), text = loaded.columns.text[row];
  const tokens = loaded.text.tokens(text), question = loaded.text.question(text);
  const one = { tokens, question, strips: weights.strips(row), ...weights.marks(row) };
  const made = heatmap(one, ...head);
  if (tokens.length > LONG) made.querySelector(".strips").replaceWith(wholeText(one));
  return made;
}

// Measures grouped by their experiment.
function measureOptions(select, measures, chosen) {
  const groups = Object.groupBy(measures, ({ experiment }) => experiment);
  select.replaceChildren(...Object.entries(groups).map(([experiment, group]) => {
    const made = element("optgroup", "",
      ...group.map(({ name, label }) => new Option(label, name)));
    made.label = experiment === "row" ? "instance" : experiment;
    return made;
  }));
  select.value = measures.some(({ name }) => name === chosen) ? chosen : measures[0]?.name;
}
