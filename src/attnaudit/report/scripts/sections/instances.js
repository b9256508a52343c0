// The list of instances: filter, sort, pages, and a heatmap below each row that is opened.
const table = byId("instance-table");
const PAGE = 25, SLACK = 1e-6; // of weights that are float32
const data = dataOf("instance-data"), form = byId("filters");
const words = ({ tokens, question }) => [...tokens.filter(isNaN), question].join(" ").toLowerCase();
const texts = data.map(words);
const rows = () => Array.from(table.tBodies[0].rows).filter((row) => row.matches("[data-index]"));
const pages = pager((page) => {
  turn(page);
  table.scrollIntoView({ block: "start" });
});
let fitting = rows();

function close(row) {
  const opener = row.querySelector(".open");
  if (opener.ariaExpanded === "true") row.nextElementSibling.remove();
  opener.ariaExpanded = "false";
}

function open(row) {
  const picture = heatmap(data[row.dataset.index]), cell = element("td", "", picture);
  cell.colSpan = row.cells.length;
  row.after(element("tr", "detail", cell));
  row.querySelector(".open").ariaExpanded = "true";
  row.dispatchEvent(new CustomEvent("instance-opened", { bubbles: true, detail: picture }));
}

function filter() {
  const { text, predicted, correct, from, to } = Object.fromEntries(new FormData(form));
  const parts = text.toLowerCase().split(/\s+/).filter(Boolean);
  const low = Number(from), high = to === "" ? 1 : Number(to);
  fitting = rows().filter(({ dataset: { index, max, ...is } }) => (
    parts.every((part) => texts[index].includes(part)) && max >= low - SLACK && max <= high + SLACK
    && (!predicted || is.predicted === predicted) && (!correct || is.correct === correct)));
  turn(0);
}

function clear() {
  form.reset();
  filter();
}

function turn(page) {
  const first = page * PAGE, visible = new Set(fitting.slice(first, first + PAGE));
  for (const row of rows()) {
    if (!visible.has(row)) close(row);
    row.hidden = !visible.has(row);
  }
  const count = fitting.length, { unit } = table.dataset;
  const range = count > PAGE ? `${first + 1} to ${first + visible.size} of ` : "";
  const of = count < data.length ? `, of ${data.length} listed` : "";
  const said = `${range}${count} ${unit}${count === 1 ? "" : "s"}${of}`;
  byId("shown").textContent = said;
  pages.show(page, Math.max(Math.ceil(count / PAGE) - 1, 0));
}

// The instance that the address names: on its page, open, with the focus.
function go() {
  const row = rows().find((one) => `#${one.id}` === location.hash);
  if (!row) return;
  if (!fitting.includes(row)) clear();
  turn(Math.floor(fitting.indexOf(row) / PAGE));
  if (row.querySelector(".open").ariaExpanded !== "true") open(row);
  row.querySelector(".open").focus({ preventScroll: true });
  row.scrollIntoView({ block: "center" });
}

table.closest(".scroll").after(pages.box);
on(table.tBodies[0], "click", ({ target }) => {
  const opener = target.closest(".open");
  if (opener) (opener.ariaExpanded === "true" ? close : open)(opener.closest("tr"));
});
onSort(table, (sort) => {
  rows().forEach(close);
  sortRows(table, sort);
  filter();
});
on(form, "input", filter);
on(form, "submit", (event) => event.preventDefault());
on(form.querySelector("button"), "click", clear);
addEventListener("hashchange", go);
filter();
go();
