// The card of one head and heatmaps of its texts: chosen on a map, in the list, or by the address.
const view = byId("head-view"), texts = dataOf("head-texts-data"), title = byId("head-title");
const choice = byId("head-form").elements.head;

function picture(one) {
  const labelled = one.label === null ? [] : [", labelled ", element("b", "", one.label), " ",
    element("span", one.correct ? "right" : "wrong", one.correct ? "correct" : "wrong")];
  return heatmap(one, element("h4", "", `Text ${one.text}: predicted `,
    element("b", "", one.predicted), ...labelled));
}

function show(address) {
  const card = byId(`card-${address}`);
  if (!card) return false;
  choice.value = address;
  title.textContent = choice.selectedOptions[0].text;
  byId("head-rows").replaceChildren(card.content.cloneNode(true));
  byId("head-texts").replaceChildren(...(texts[address] ?? []).map(picture));
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
for (const { value } of choice.options) byId(value)?.removeAttribute("id");
if (!lead()) show(view.dataset.shown);
