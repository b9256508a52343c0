// The card of one head and heatmaps of its texts: chosen on a map, in the list, or by the address.
const view = byId("head-view"), heads = dataOf("head-data"), title = byId("head-title");
const choice = byId("head-form").elements.head, rows = Array.from(byId("head-rows").children);

function fill(row, numbers) {
  row.hidden = numbers === null;
  if (numbers === null) return;
  const [value, interval, yardstick, sentence, parts] = numbers;
  const part = (name, ...children) => row.querySelector(name).replaceChildren(...children);
  part(".value", element("b", "", value), " ", element("span", "interval", interval));
  part(".yardstick", element("span", "label", "compared with"), ` ${yardstick}`);
  part(".sentence", sentence);
  part(".gauge", ...parts.map(([name, left, width]) => {
    const made = element("i", name);
    made.style.left = `${left}%`;
    if (width !== undefined) made.style.width = `${width}%`;
    return made;
  }));
}

function picture(one) {
  const correct = one.correct ? "correct" : "wrong";
  const labelled = one.label === null ? [] : [", labelled ", element("b", "", one.label), " ",
    element("span", one.correct ? "right" : "wrong", correct)];
  return heatmap(one, element("h4", "", `Text ${one.text}, ${one.why}: predicted `,
    element("b", "", one.predicted), ...labelled));
}

function show(address) {
  const one = heads[address];
  if (!one) return false;
  title.textContent = one.title;
  choice.value = address;
  rows.forEach((row, k) => fill(row, one.rows[k]));
  byId("head-texts").replaceChildren(...one.texts.map(picture));
  for (const link of document.querySelectorAll('#heads .map a[href^="#head-"]')) {
    link.ariaCurrent = link.hash === `#${address}` ? "true" : null;
  }
  return true;
}

function lead() {
  if (!show(location.hash.slice(1))) return false;
  title.focus({ preventScroll: true });
  view.scrollIntoView({ block: "start" });
  return true;
}

on(choice, "change", () => {
  show(choice.value);
  history.replaceState(null, "", `#${choice.value}`);
});
on(byId("heads"), "click", ({ target }) => {
  if (target.closest("a")?.hash === location.hash) lead(); // no change of the address
});
on(choice.form, "submit", (event) => event.preventDefault());
addEventListener("hashchange", lead);
// An address leads to the card, and only without scripts to the row of the table.
for (const address of Object.keys(heads)) byId(address)?.removeAttribute("id");
if (!lead()) show(view.dataset.shown);
