"use strict";
// Dark or light: as the system says, or as the reader last chose; runs before the page is drawn.
(() => {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const now = () => root.dataset.scheme || (system.matches ? "dark" : "light");

  function kept(scheme) {
    try {
      if (scheme) window.localStorage.setItem("attnaudit-scheme", scheme);
      return window.localStorage.getItem("attnaudit-scheme");
    } catch {
      return null; // a browser may keep nothing of a page opened from disk
    }
  }

  function show(button) {
    const other = now() === "dark" ? "light" : "dark";
    button.textContent = `${other} colours`;
    button.hidden = false;
  }

  const chosen = kept();
  if (chosen === "dark" || chosen === "light") root.dataset.scheme = chosen;
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("scheme");
    if (!button) return; // a page within another
    show(button);
    const changed = () => {
      show(button);
      document.dispatchEvent(new Event("scheme"));
    };
    system.addEventListener("change", changed);
    window.matchMedia("print").addEventListener("change", changed); // paper is light
    button.addEventListener("click", () => {
      root.dataset.scheme = now() === "dark" ? "light" : "dark";
      kept(root.dataset.scheme);
      changed();
    });
  });
})();
