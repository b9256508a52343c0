// The address holds what is shown, so that a link leads to it: view, runs, filters, charts, order, the instance that is open.
const VIEWS = ["runs", "instances", "compare"];

const state = {
  read() {
    const fields = new URLSearchParams(window.location.hash.slice(1));
    if (!VIEWS.includes(fields.get("view"))) fields.set("view", "runs");
    return fields;
  },
  // Changes of the same view replace the address; a new view is one that the browser's back button leaves.
  write(changes, view) {
    const fields = view ? new URLSearchParams({ view }) : state.read();
    for (const [name, value] of Object.entries(changes)) {
      if (value === "" || value === null || value === undefined) fields.delete(name);
      else fields.set(name, value);
    }
    const address = `#${fields}`;
    if (view) window.location.hash = address;
    else window.history.replaceState(null, "", address);
  },
};

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

function thousands(number) {
  return number >= 10000 ? number.toLocaleString("en-GB") : String(number);
}

function complain(error) {
  const line = document.getElementById("site-error");
  line.textContent = error.message;
  line.hidden = false;
}
