// The address holds what is shown, so that a link leads to it: view, runs, filters, charts, order, the instance that is open.
const VIEWS = ["runs", "instances", "compare"];
const RESTING = 120; // ms: browsers ignore changes of the address beyond about 200 in ten seconds, and a drag makes 60 a second

const state = {
  fields: null, waiting: 0, written: -RESTING, at: "",
  read() {
    if (!this.fields || window.location.hash !== this.at) this.take();
    return new URLSearchParams(this.fields);
  },
  // What the address says, which somebody else has changed: a link, the back button, a reader.
  take() {
    window.clearTimeout(this.waiting);
    this.waiting = 0;
    this.at = window.location.hash;
    this.fields = new URLSearchParams(this.at.slice(1));
    if (!VIEWS.includes(this.fields.get("view"))) this.fields.set("view", "runs");
  },
  // Changes of the same view replace the address; a new view is one that the browser's back button leaves.
  write(changes, view) {
    const fields = view ? new URLSearchParams({ view }) : this.read();
    for (const [name, value] of Object.entries(changes)) {
      if (value === "" || value === null || value === undefined) fields.delete(name);
      else fields.set(name, value);
    }
    if (view) {
      this.settle();
      window.location.hash = `#${fields}`;
      return;
    }
    this.fields = fields;
    const rest = this.written + RESTING - performance.now();
    if (this.waiting) return;
    if (rest <= 0) this.replace();
    else this.waiting = window.setTimeout(() => this.replace(), rest);
  },
  replace() {
    this.waiting = 0;
    this.written = performance.now();
    window.history.replaceState(null, "", `#${this.fields}`);
    this.at = window.location.hash;
  },
  // The address is brought up to date at once, before it is left or copied.
  settle() {
    if (!this.waiting) return;
    window.clearTimeout(this.waiting);
    this.replace();
  },
};
for (const event of ["click", "pagehide"]) window.addEventListener(event, () => state.settle(), true);

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawn(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function option(value, text) {
  const made = element("option", "", text === undefined ? value : text);
  made.value = value;
  return made;
}

function labelled(text, control) {
  const label = element("label", "", `${text} `);
  label.append(control);
  return label;
}

// Measures grouped by their experiment, those of rows alone or all.
function measureOptions(select, measures, chosen) {
  const groups = new Map();
  for (const one of measures) {
    if (!groups.has(one.experiment)) groups.set(one.experiment, element("optgroup"));
    groups.get(one.experiment).label = one.experiment === "row" ? "instance" : one.experiment;
    groups.get(one.experiment).append(option(one.name, one.label));
  }
  select.replaceChildren(...groups.values());
  if (measures.some((one) => one.name === chosen)) select.value = chosen;
  return select.value;
}

function figure(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const text = Math.abs(value) >= 1000 ? String(Math.round(value)) : String(Number(value.toFixed(digits)));
  return text.replace("-", "−");
}

// As many digits as every other number of its column.
function fixed(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const text = value.toFixed(Math.abs(value) >= 1000 ? 0 : digits);
  return (Number(text) ? text : text.replace("-", "")).replace("-", "−");
}

function thousands(number) {
  return number >= 10000 ? number.toLocaleString("en-GB") : String(number);
}

function complain(error) {
  const line = document.getElementById("site-error");
  line.textContent = error.message;
  line.hidden = false;
}
