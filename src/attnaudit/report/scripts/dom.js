"use strict";
// What every script builds with. Texts enter a page as text nodes only.

const byId = (id) => document.getElementById(id);
const on = (target, event, act, options) => target?.addEventListener(event, act, options);
const sum = (values) => values.reduce((total, value) => total + value, 0);
const times = (count, make) => Array.from({ length: count }, (_, k) => make(k));

function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function button(text, act, className) {
  const made = element("button", className, text);
  made.type = "button";
  on(made, "click", act);
  return made;
}

const labelled = (text, control) => element("label", "", `${text} `, control);

// A table of numbers, but for columns that are in `words`; the first cell of a row names it.
function tableOf(title, heads, rows, words = [0]) {
  const line = (inHead) => (contents) => element("tr", "", ...contents.map((content, k) => {
    const isHead = inHead || k === 0;
    const cell = element(isHead ? "th" : "td", words.includes(k) ? "" : "num", content);
    if (isHead) cell.scope = inHead ? "col" : "row";
    return cell;
  }));
  return element("table", "", element("caption", "unseen", title), element("thead", "", line(true)(heads)),
    element("tbody", "", ...rows.map(line(false))));
}

// Sorts the rows of a table by column `sort`, with a minus for descending, undefined values last; "" is none.
function sortRows(table, sort) {
  const heads = Array.from(table.tHead.rows[0].cells), column = sort === "" ? -1 : Math.abs(sort);
  const descending = String(sort).startsWith("-");
  for (const head of heads) if (head.ariaSort) head.ariaSort = "none";
  if (!heads[column]?.ariaSort) return;
  heads[column].ariaSort = descending ? "descending" : "ascending";
  const rows = Array.from(table.tBodies[0].rows, (row) => {
    const { textContent: text, dataset: { value } } = row.cells[column];
    return [value === undefined ? text.trim().toLowerCase() : value === "" ? null : Number(value), row];
  });
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return (descending ? -1 : 1) * (a < b ? -1 : Number(a > b));
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

// Calls `sorted` with the column whose head is pressed, with a minus if it was ascending before.
function onSort(table, sorted) {
  on(table.tHead, "click", ({ target }) => {
    const head = target.closest("th[aria-sort]");
    if (head) sorted(`${head.ariaSort === "ascending" ? "-" : ""}${head.cellIndex}`);
  });
}

// Buttons that turn the pages of a list; `turn` is called with a page, from 0 on.
function pager(turn) {
  let at = 0;
  const step = (by) => ({ target }) => {
    turn(at + by);
    if (target.disabled) (target === next ? previous : next).focus({ preventScroll: true });
  };
  const previous = button("← previous", step(-1)), next = button("next →", step(1)), where = element("span");
  const box = element("div", "pages", previous, where, next);
  Object.assign(box, { role: "group", ariaLabel: "Pages of the list" });
  return {
    box,
    show(page, last) {
      at = page;
      where.textContent = `page ${page + 1} of ${thousands(last + 1)}`;
      box.hidden = last === 0;
      previous.disabled = page === 0;
      next.disabled = page === last;
    },
  };
}

const dataOf = (id) => JSON.parse(byId(id)?.textContent ?? "null");

const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

const thousands = (number) => (number < 10000 ? String(number) : number.toLocaleString("en-GB"));

// A number with as many decimals as the others of its column.
function fixed(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const text = value.toFixed(Math.abs(value) >= 1000 ? 0 : digits);
  return (Number(text) ? text : text.replace("-", "")).replace("-", "−");
}

// A number with at most so many decimals.
const figure = (value, digits) => fixed(value, digits).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
