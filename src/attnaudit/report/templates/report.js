"use strict";
// The list of instances: filter, sort, pages, and a heatmap drawn below a row when it is opened. Texts enter the page as text nodes only.
(() => {
  const source = document.getElementById("instance-data");
  const table = document.getElementById("instance-table");
  if (!source || !table) return;
  const data = JSON.parse(source.textContent);
  const body = table.tBodies[0];
  let rows = Array.from(body.rows);
  const form = document.getElementById("filters");
  const shown = document.getElementById("shown");
  const pages = document.getElementById("pages");
  const [previous, next] = pages.querySelectorAll("button");
  const PAGE = 25;
  const state = { fitting: rows, page: 0 };
  const texts = data.map((one) => [...one.tokens.filter((t) => typeof t === "string"), one.question].join(" ").toLowerCase());

{% include "strip.js" %}


  function detail(one) {
    const row = element("tr", "detail");
    const cell = element("td");
    cell.colSpan = table.tHead.rows[0].cells.length;
    const picture = element("div", "heatmap");
    if (one.question) {
      const asked = element("p", "question", "Read with: ");
      asked.append(element("q", "", one.question));
      picture.append(asked);
    }
    const strips = element("div", "strips");
    for (const each of one.strips) strips.append(strip(one, each));
    picture.append(strips);
    if (one.note) picture.append(element("p", "note", one.note));
    cell.append(picture);
    row.append(cell);
    return row;
  }

  function close(row) {
    const below = row.nextElementSibling;
    if (below && below.classList.contains("detail")) below.remove();
    row.querySelector(".open").setAttribute("aria-expanded", "false");
  }

  function toggle(row) {
    const button = row.querySelector(".open");
    if (button.getAttribute("aria-expanded") === "true") return close(row);
    row.after(detail(data[Number(row.dataset.index)]));
    button.setAttribute("aria-expanded", "true");
    row.dispatchEvent(new CustomEvent("instance-opened", { bubbles: true }));
  }

  function fits(row, fields, words) {
    const text = texts[Number(row.dataset.index)];
    const max = Number(row.dataset.max);
    const from = fields.get("from") === "" ? 0 : Number(fields.get("from"));
    const to = fields.get("to") === "" ? 1 : Number(fields.get("to"));
    return words.every((word) => text.includes(word)) && (!fields.get("predicted") || row.dataset.predicted === fields.get("predicted"))
      && (!fields.get("correct") || row.dataset.correct === fields.get("correct")) && max >= from - 1e-9 && max <= to + 1e-6;
  }

  function filter() {
    const fields = new FormData(form);
    const words = String(fields.get("text")).toLowerCase().split(/\s+/).filter(Boolean);
    state.fitting = rows.filter((row) => fits(row, fields, words));
    turn(0);
  }

  function clear() {
    form.reset();
    filter();
  }

  function turn(page) {
    state.page = page;
    const first = page * PAGE;
    const visible = new Set(state.fitting.slice(first, first + PAGE));
    for (const row of rows) {
      if (!visible.has(row)) close(row);
      row.hidden = !visible.has(row);
    }
    const count = state.fitting.length;
    const last = Math.max(Math.ceil(count / PAGE) - 1, 0);
    const range = count > PAGE ? `${first + 1} to ${first + visible.size} of ` : "";
    shown.textContent = `${range}${count} {{ unit }}${count === 1 ? "" : "s"}${count < rows.length ? `, of ${rows.length} listed` : ""}`;
    document.getElementById("page").textContent = `page ${page + 1} of ${last + 1}`;
    pages.hidden = last === 0;
    previous.disabled = page === 0;
    next.disabled = page === last;
  }

  // The instance that the address names: on its page, open, with the focus.
  function go() {
    const row = rows.find((one) => `#${one.id}` === window.location.hash);
    if (!row) return;
    if (!state.fitting.includes(row)) clear();
    turn(Math.floor(state.fitting.indexOf(row) / PAGE));
    const button = row.querySelector(".open");
    if (button.getAttribute("aria-expanded") !== "true") toggle(row);
    button.focus({ preventScroll: true });
    row.scrollIntoView({ block: "center" });
  }

  function key(row, column, numeric) {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent.trim().toLowerCase();
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  }

  function sort(button) {
    const head = button.closest("th");
    const descending = head.getAttribute("aria-sort") === "ascending";
    const column = Number(button.dataset.column);
    const numeric = button.dataset.kind === "num";
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const keyed = rows.map((row) => [key(row, column, numeric), row]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null); // undefined stays last either way
      const order = numeric ? a - b : a < b ? -1 : a > b ? 1 : 0;
      return descending ? -order : order;
    });
    for (const row of rows) close(row);
    rows = keyed.map(([, row]) => row);
    body.append(...rows);
    filter();
  }

  body.addEventListener("click", (event) => {
    const button = event.target.closest(".open");
    if (button) toggle(button.closest("tr"));
  });
  table.tHead.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) sort(button);
  });
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("button").addEventListener("click", clear);
  pages.addEventListener("click", (event) => {
    const step = { previous: -1, next: 1 }[event.target.name];
    if (!step) return;
    turn(state.page + step);
    table.scrollIntoView({ block: "start" });
    if (event.target.disabled) (event.target === next ? previous : next).focus({ preventScroll: true });
  });
  window.addEventListener("hashchange", go);
  filter();
  go();
})();
