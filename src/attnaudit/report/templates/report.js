"use strict";
// The list of instances: filter, sort, and a heatmap drawn below a row when it is opened. Texts enter the page as text nodes only.
(() => {
  const source = document.getElementById("instance-data");
  const table = document.getElementById("instance-table");
  if (!source || !table) return;
  const data = JSON.parse(source.textContent);
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const form = document.getElementById("filters");
  const shown = document.getElementById("shown");
  const texts = data.map((one) => [...one.tokens.filter((t) => typeof t === "string"), one.question].join(" ").toLowerCase());

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function strip(one, [kind, caption, note, top, full, shades]) {
    const made = element("div", "strip");
    const head = element("p", "strip-head");
    head.append(element("b", "", caption), element("span", "", note), element("span", "muted", `top ${Number(top.toPrecision(3))}`));
    const text = element("p", `tokens ${kind}`);
    const known = new Set(one.known);
    let at = 0;
    for (const token of one.tokens) {
      if (typeof token === "number") {
        text.append(element("span", "gap", `… ${token} token${token === 1 ? "" : "s"} …`), " ");
        continue;
      }
      const span = element("span", known.has(at) ? "token known" : "token", token);
      span.style.setProperty("--w", shades[at] / 1000);
      span.title = String(Number((shades[at] * full / 1000).toPrecision(3)));
      text.append(span, " ");
      at += 1;
    }
    made.append(head, text);
    return made;
  }

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
  }

  function filter() {
    const fields = new FormData(form);
    const words = String(fields.get("text")).toLowerCase().split(/\s+/).filter(Boolean);
    const predicted = fields.get("predicted");
    const correct = fields.get("correct");
    const from = fields.get("from") === "" ? 0 : Number(fields.get("from"));
    const to = fields.get("to") === "" ? 1 : Number(fields.get("to"));
    let count = 0;
    for (const row of rows) {
      const text = texts[Number(row.dataset.index)];
      const max = Number(row.dataset.max);
      const fits = words.every((word) => text.includes(word)) && (!predicted || row.dataset.predicted === predicted)
        && (!correct || row.dataset.correct === correct) && max >= from - 1e-9 && max <= to + 1e-6;
      if (!fits) close(row);
      row.hidden = !fits;
      count += fits ? 1 : 0;
    }
    shown.textContent = `${count} of ${rows.length} instance${rows.length === 1 ? "" : "s"} shown`;
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
    body.append(...keyed.map(([, row]) => row));
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
  form.addEventListener("reset", () => setTimeout(filter));
})();
