// Links to the playground: at each heatmap of the page, and at each instance of the list that is opened, if it is among `ids`.
function playgroundLinks(ids, follow) {
  const known = new Set(ids);

  function link(id) {
    const made = document.createElement("a");
    made.className = "play-link";
    made.textContent = "move its attention";
    made.href = `#play-${id}`;
    return made;
  }

  for (const heading of document.querySelectorAll('#heatmaps h4 a[href^="#instance-"]')) {
    const id = heading.getAttribute("href").replace("#instance-", "");
    if (known.has(id)) heading.parentNode.append(" ", link(id));
  }
  document.addEventListener("instance-opened", ({ target }) => {
    const id = target.id.replace(/^instance-/, "");
    if (known.has(id)) target.nextElementSibling.querySelector(".heatmap").prepend(link(id));
  });
  document.addEventListener("click", (event) => {
    const pressed = event.target.closest('a[href^="#play-"]');
    if (!pressed || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault(); // the browser says nothing of an address that is the same already
    if (pressed.hash !== window.location.hash) window.history.pushState(null, "", pressed.hash);
    follow();
  });
  window.addEventListener("hashchange", follow);
}
