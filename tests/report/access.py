"""What axe-core finds on a page in headless Chromium, in both colour schemes."""

from functools import cache
from importlib.resources import files

_RUN = """(rules) => axe.run({resultTypes: ['violations'], ...rules}).then((found) => found.violations
  .filter((one) => ['serious', 'critical'].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 160)} ${one.nodes[0].failureSummary}`))"""

# Of what a page has many times over a few are enough: axe takes seconds for thousands of elements.
_FEW = """() => {
  const few = (all, most) => Array.from(all).slice(most).forEach((one) => one.remove());
  document.querySelectorAll('details').forEach((one) => { one.open = true; });
  document.querySelectorAll('tbody, .strips, .panels, .settings').forEach((one) => few(one.children, 3));
  document.querySelectorAll('.tokens, .block, .play-tokens, select').forEach((one) => few(one.children, 6));
  document.querySelectorAll('.definitions').forEach((one) => few(one.children, 8));
  document.querySelectorAll('section').forEach((one) => few(one.querySelectorAll('table'), 3));
  few(document.querySelectorAll('.heatmap'), 3);
  few(document.querySelectorAll('figure'), 3);
  document.querySelectorAll('g[class*=role-mark]').forEach((one) => few(one.children, 2));
}"""
_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}


@cache
def _axe():
    return files("axe_playwright_python").joinpath("axe.min.js").read_text()


def barriers(browser, address, ready="main", width=1280):
    """The serious and critical findings on the page at ``address``, once it has an element ``ready``."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, offline=True, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(ready)
    page.evaluate(_FEW)
    page.evaluate(_axe())
    found = page.evaluate(_RUN, {})
    page.emulate_media(color_scheme="dark")
    found += page.evaluate(_RUN, _COLOURS)
    context.close()
    return found
