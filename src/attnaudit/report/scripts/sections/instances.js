// The list of instances: filters, columns to sort by, pages, and a heatmap below each row that is opened.
const table = byId("instance-table"), { unit } = table.dataset;
const PAGE = 10, SLACK = 1e-6; // of weights that are float32
const data = dataOf("instance-data"), form = byId("filters");
const texts = data.map(({ tokens, question }) => [...tokens, question].join(" ").toLowerCase());
const rows = () => Array.from(table.tBodies[0].rows).filter((row) => row.matches("[data-index]"));
const openerOf = (row) => row.querySelector(".open");
const pages = pager((page) => {
  turn(page);
  table.scrollIntoView({ block: "start" });
});
let fitting = rows();

function close(row) {
  if (openerOf(row).ariaExpanded === "true") row.nextElementSibling.remove();
  openerOf(row).ariaExpanded = "false";
}

function open(row) {
  const cell = element("td", "", heatmap(data[row.dataset.index]));
  cell.colSpan = row.cells.length;
  row.after(element("tr", "detail", cell));
  openerOf(row).ariaExpanded = "true";
}

function filter() {
  const { text, predicted, correct, from, to } = Object.fromEntries(new FormData(form));
  const parts = text.toLowerCase().split(/\s+/).filter(Boolean);
  const low = Number(from) - SLACK, high = (to === "" ? 1 : Number(to)) + SLACK;
  fitting = rows().filter(({ dataset: { index, max, ...is } }) => (
    parts.every((part) => texts[index].includes(part)) && max >= low && max <= high
    && (!predicted || is.predicted === predicted) && (!correct || is.correct === correct)));
  turn(0);
}

function clear() {
  form.reset();
  filter();
}

function turn(page) {
  const first = page * PAGE, visible = new Set(fitting.slice(first, first + PAGE)), count = fitting.length;
  for (const row of rows()) {
    if (!visible.has(row)) close(row);
    row.hidden = !visible.has(row);
  }
  const range = count > PAGE ? `${first + 1} to ${first + visible.size} of ` : "";
  const listed = count < data.length ? `, of ${data.length} listed` : "";
  byId("shown").textContent = `${range}${count} ${unit}${count === 1 ? "" : "s"}${listed}`;
  pages.show(page, Math.max(Math.ceil(count / PAGE) - 1, 0));
}

// The instance that the address names: on its page, open, with the focus.
function go() {
  const row = rows().find((one) => `#${one.id}` === location.hash);
  if (!row) return;
  if (!fitting.includes(row)) clear();
  turn(Math.floor(fitting.indexOf(row) / PAGE));
  if (openerOf(row).ariaExpanded !== "true") open(row);
  openerOf(row).focus({ preventScroll: true });
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
