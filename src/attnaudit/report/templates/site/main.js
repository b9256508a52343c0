// The view that the address names.
function go() {
  const fields = state.read(), view = fields.get("view");
  for (const part of document.querySelectorAll("[data-view]")) part.hidden = part.dataset.view !== view;
  for (const link of document.querySelectorAll("nav a")) {
    const of = new URLSearchParams(link.hash.slice(1));
    if (of.get("view") === view && !of.get("at")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.getElementById("site-error").hidden = true;
  const shown = { runs: runsView, instances: instancesView, compare: compareView }[view].show(fields);
  Promise.resolve(shown).then(() => {
    const place = fields.get("at") && document.getElementById(fields.get("at"));
    if (place) place.scrollIntoView();
    document.body.dataset.shown = view;
  }, complain);
}

if (site.runs.length) {
  window.addEventListener("hashchange", go);
  go();
}
