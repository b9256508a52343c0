"use strict";
// Heatmaps of long texts: every token in boxes that scroll, in place of those around the most weight, which paper and a page without scripts show.
(() => {
  const source = document.getElementById("long-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);

{% include "strip.js" %}


  function whole(one) {
    const strips = element("div", "strips whole");
    for (const each of one.strips) strips.append(strip(one, each));
    const shades = one.strips[0][5];
    const most = shades.indexOf(Math.max(...shades));
    let count = -1;
    scrollTogether(strips, one.tokens.findIndex((token) => typeof token !== "number" && (count += 1) === most));
    return strips;
  }

  document.querySelectorAll("#heatmaps .heatmap").forEach((article) => {
    const one = data[article.querySelector("h4 a").hash.slice(1)];
    if (!one) return;
    const cut = article.querySelector(".strips"), held = article.querySelector(":scope > .note"), all = whole(one);
    const note = element("p", "note", one.note || `All ${one.length.toLocaleString("en")} tokens, scrolled to the most attention.`);
    const button = element("button", "more");
    const views = [[all, note], [cut, held]];
    button.type = "button";
    note.classList.add("whole");
    const show = (shown) => {
      views.forEach((view, k) => view.forEach((part) => part.classList.toggle("unshown", k !== shown)));
      button.textContent = shown ? `Show all ${one.length.toLocaleString("en")} tokens` : "Show only those around the most weight";
    };
    let shown = 0;
    button.addEventListener("click", () => show((shown = 1 - shown)));
    cut.after(all);
    held.after(note, button);
    show(shown);
    // What saves the picture reads its tokens.
    article.addEventListener("whole", () => all.querySelectorAll(".block").forEach(fillBlock));
  });
})();
