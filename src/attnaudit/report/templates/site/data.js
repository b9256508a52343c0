"use strict";
// The site's data: packed columns, loaded once by a script of their own, or from an element of this page where it is one file.
const site = JSON.parse(document.getElementById("site-data").textContent);
const arrived = new Map();

window.attnauditData = (key, packed) => {
  const waiting = arrived.get(key);
  if (waiting) waiting.resolve(packed);
};

function load(key) {
  if (!arrived.has(key)) {
    const entry = {};
    const packed = new Promise((resolve, reject) => Object.assign(entry, { resolve, reject }));
    entry.read = packed.then(unpack);
    arrived.set(key, entry);
    request(key, entry);
  }
  return arrived.get(key).read;
}

function request(key, entry) {
  const inlined = document.getElementById(`data-${key}`);
  if (inlined) return entry.resolve(JSON.parse(inlined.textContent));
  const script = document.createElement("script");
  script.src = `data/${key}.js`;
  script.addEventListener("error", () => entry.reject(new Error(`data/${key}.js cannot be read: keep the folder of this page together`)));
  document.head.append(script);
}

async function unpack(packed) {
  const bytes = Uint8Array.from(window.atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const { columns, facts } = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const types = { Uint8Array, Uint16Array, Uint32Array, Int32Array, Float32Array, Float64Array };
  const found = {};
  for (const [name, [type, start, size]] of Object.entries(columns)) found[name] = new types[type](buffer, 4 + length + start, size);
  return { columns: found, facts };
}

// A run's rows: `value(name)` is a measure as numbers, NaN where undefined.
async function loadRun(run) {
  const [{ columns, facts }, texts] = await Promise.all([load(run.columns), load(run.texts)]);
  const values = new Map();
  return {
    run, columns, facts, rows: facts.rows, text: textsOf(texts), ...rowNames({ columns, facts, rows: facts.rows }),
    measures: Object.keys(facts.ends),
    value(name) {
      if (!values.has(name)) values.set(name, restored(columns[name], facts.ends[name]));
      return values.get(name);
    },
    weights: () => load(run.weights).then(weightsOf),
  };
}

function restored(steps, [low, high]) {
  const values = new Float64Array(steps.length);
  const width = (high - low) / 65534;
  for (let row = 0; row < steps.length; row += 1) values[row] = steps[row] === 65535 ? NaN : low + width * steps[row];
  return values;
}

function starts(lengths) {
  const found = new Uint32Array(lengths.length + 1);
  for (let k = 0; k < lengths.length; k += 1) found[k + 1] = found[k] + lengths[k];
  return found;
}

// Texts are numbers of words; those of the questions come after all texts.
function textsOf({ columns: { words, lengths, mark }, facts: { texts, vocabulary } }) {
  const at = starts(lengths);
  const read = (k) => Array.from(words.subarray(at[k], at[k + 1]), (word) => vocabulary[word]);
  const lower = vocabulary.map((word) => word.toLowerCase());
  return {
    mark, tokens: read, question: (k) => read(texts + k),
    // 1 for each text that has a token, in it or in its question, with every one of the parts
    having(parts) {
      const bits = new Uint32Array(vocabulary.length), found = new Uint8Array(texts); // which parts a word has, the first 31
      const asked = parts.slice(0, 31), every = 2 ** asked.length - 1;
      asked.forEach((part, bit) => lower.forEach((word, k) => { if (word.includes(part)) bits[k] |= 1 << bit; }));
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
  const part = (name, row) => columns[name] && columns[name].subarray(at[row], at[row + 1]);
  return {
    kinds: facts.kinds,
    shares(kind, row) {
      const full = columns[kind] instanceof Uint16Array ? 65535 : 255;
      return Array.from(part(kind, row), (step) => step / full);
    },
    top: (kind, row) => columns[`${kind}.top`][row],
    mark: (name, row) => part(name, row),
  };
}
