"use strict";
// Dark or light: as the system says, or as the reader last chose; runs before the page is drawn.
(() => {
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const other = () => ((root.dataset.scheme ?? (system.matches ? "dark" : "light")) === "dark" ? "light" : "dark");

  function chosen(scheme) {
    try {
      if (scheme) localStorage.setItem("attnaudit-scheme", scheme);
      return localStorage.getItem("attnaudit-scheme");
    } catch {
      return scheme; // a browser may keep nothing of a page opened from disk
    }
  }

  if (["dark", "light"].includes(chosen())) root.dataset.scheme = chosen();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("scheme");
    if (!button) return; // a page within another
    const changed = () => {
      button.textContent = `${other()} colours`;
      button.hidden = false;
      document.dispatchEvent(new Event("scheme"));
    };
    changed();
    system.addEventListener("change", changed);
    matchMedia("print").addEventListener("change", changed); // paper is light
    button.addEventListener("click", () => {
      root.dataset.scheme = chosen(other());
      changed();
    });
  });
})();
