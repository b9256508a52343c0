// A colour of the page as it is now, by the name of its property. `light-dark()` itself is no colour to a program that opens a saved picture.
function pageColour(name, of = document.body) {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  of.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
