"use strict";
// Attention and relevance of a text at one step of the training after another. Texts enter the page as text nodes only.
(() => {
  const source = document.getElementById("growth-data");
  const form = document.getElementById("growth-form");
  if (!source || !form) return;
  const { steps, instances } = JSON.parse(source.textContent);
  const said = document.getElementById("growth-said");
  const { instance, at, play } = form.elements;
  const kinds = ["alpha", "relevance", "relevance_uniform"];
  const strips = kinds.map((kind) => document.getElementById(`growth-${kind}`));
  const FAINT = 20; // thousandths: a weaker shade is not seen, and so neither marked
  let timer = null;

  function text(one) {
    const nodes = [];
    for (const token of one.tokens) {
      const span = document.createElement("span");
      span.className = typeof token === "number" ? "gap" : "token";
      span.textContent = typeof token === "number" ? `… ${token} token${token === 1 ? "" : "s"} …` : token;
      nodes.push(span, " ");
    }
    return nodes;
  }

  function shade(place, shades, full) {
    place.querySelectorAll(".token").forEach((span, k) => {
      span.style.setProperty("--w", Math.abs(shades[k]) / 1000);
      span.classList.toggle("against", shades[k] <= -FAINT);
      span.title = String(Number((shades[k] * full / 1000).toPrecision(3)));
    });
  }

  function draw() {
    const one = instances[Number(instance.value)];
    const k = Number(at.value);
    kinds.forEach((kind, row) => shade(strips[row], one.shades[kind][k], one.full[kind]));
    const p = one.probability[k];
    at.setAttribute("aria-valuetext", `after ${steps[k]} steps`);
    said.textContent = `after ${steps[k]} steps: probability of ${one.gold} ${p.toFixed(3)}`;
  }

  function choose() {
    const one = instances[Number(instance.value)];
    for (const strip of strips) strip.replaceChildren(...text(one));
    draw();
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "play";
  }

  function start() {
    if (Number(at.value) === steps.length - 1) at.value = "0";
    play.textContent = "stop";
    draw();
    timer = setInterval(() => {
      at.value = String(Number(at.value) + 1);
      draw();
      if (Number(at.value) === steps.length - 1) stop();
    }, 500);
  }

  instance.addEventListener("change", choose);
  at.addEventListener("input", () => { stop(); draw(); });
  play.addEventListener("click", () => (timer === null ? start() : stop()));
  form.addEventListener("submit", (event) => event.preventDefault());
  choose();
})();
