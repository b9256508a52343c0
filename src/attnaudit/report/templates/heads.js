"use strict";
// The card of one head and heatmaps of its texts: chosen on a map, in the list, or by the address. Texts enter the page as text nodes only.
(() => {
  const source = document.getElementById("head-data");
  const view = document.getElementById("head-view");
  if (!source || !view) return;
  const heads = JSON.parse(source.textContent);
  const title = document.getElementById("head-title");
  const choice = document.getElementById("head-form").elements.head;
  const rows = Array.from(document.getElementById("head-rows").children);
  const texts = document.getElementById("head-texts");
  const links = Array.from(document.querySelectorAll('#heads .map a[href^="#head-"]'));

{% include "strip.js" %}


  function gauge([name, left, width]) {
    const made = element("i", name);
    made.style.left = `${left.toFixed(2)}%`;
    if (width !== undefined) made.style.width = `${width.toFixed(2)}%`;
    return made;
  }

  function fill(row, numbers) {
    row.hidden = numbers === null;
    if (numbers === null) return;
    const [figure, interval, yardstick, sentence, parts] = numbers;
    row.querySelector(".value").replaceChildren(element("b", "", figure), " ", element("span", "interval", interval));
    row.querySelector(".yardstick").replaceChildren(element("span", "label", "compared with"), ` ${yardstick}`);
    row.querySelector(".sentence").textContent = sentence;
    row.querySelector(".gauge").replaceChildren(...parts.map(gauge));
  }

  function picture(one) {
    const made = element("article", "heatmap");
    const head = element("h4", "", `Text ${one.text}, ${one.why}: predicted `);
    head.append(element("b", "", one.predicted));
    if (one.label !== null) {
      head.append(", labelled ", element("b", "", one.label), " ");
      head.append(element("span", one.correct ? "right" : "wrong", one.correct ? "correct" : "wrong"));
    }
    const strips = element("div", "strips");
    for (const each of one.strips) strips.append(strip(one, each));
    made.append(head, strips);
    if (one.note) made.append(element("p", "note", one.note));
    return made;
  }

  function show(address) {
    const one = heads[address];
    if (!one) return false;
    title.textContent = one.title;
    choice.value = address;
    rows.forEach((row, k) => fill(row, one.rows[k]));
    texts.replaceChildren(...one.texts.map(picture));
    for (const link of links) {
      if (link.getAttribute("href") === `#${address}`) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    return true;
  }

  function lead(address) {
    if (!show(address)) return false;
    title.focus({ preventScroll: true });
    view.scrollIntoView({ block: "start" });
    return true;
  }

  document.getElementById("heads").addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#head-"]');
    if (!link) return;
    const address = link.getAttribute("href").slice(1);
    if (!lead(address)) return;
    event.preventDefault();
    window.history.pushState(null, "", `#${address}`);
  });
  choice.addEventListener("change", () => {
    show(choice.value);
    window.history.replaceState(null, "", `#${choice.value}`);
  });
  choice.form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", () => lead(window.location.hash.slice(1)));
  // An address leads to the card, and only without scripts to the row of the table.
  for (const address of Object.keys(heads)) document.getElementById(address)?.removeAttribute("id");
  if (!lead(window.location.hash.slice(1))) show(view.dataset.shown);
})();
