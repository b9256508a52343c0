"""Take the pictures of a report: ``python docs/screenshot.py RUN``.

Writes docs/images/report.png, the text on it (report.txt, by which a test knows that the picture is
today's demo) and playground.png. Needs the dev extra and a Chromium on the PATH; loads nothing from
the network.
"""

from __future__ import annotations

import html
import re
import shutil
import sys
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).with_name("images")
ANSWER = r'<section id="answer".*?</section>'
# Two texts are equally typical but for rounding, so the processor decides which one is shown.
EXAMPLE = r'<article class="example".*?</article>'


def first_screen(page: Path) -> str:
    """Return the text on the first screen of a page, without its example."""
    whole = page.read_text(encoding="utf-8")
    parts = re.search(r"<h1.*?</h1>", whole, re.DOTALL), re.search(ANSWER, whole, re.DOTALL)
    shown = (re.sub(EXAMPLE, "", part[0], flags=re.DOTALL) for part in parts if part)
    text = " ".join(re.sub(r"<[^>]*>", " ", part) for part in shown)
    return " ".join(html.unescape(text).split()) + "\n"


def shoot(browser: Any, page: Path, images: Path) -> None:
    """Save the first screen, and the playground with the most different attention."""
    view = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
    view.route("http*://**", lambda route: route.abort())
    view.goto(page.resolve().as_uri())
    images.mkdir(parents=True, exist_ok=True)
    view.screenshot(path=images / "report.png")
    view.evaluate(SURE)
    view.locator("#playground").get_by_role("button", name="Most different").click()
    view.locator("#playground").screenshot(path=images / "playground.png")
    view.close()


# The first text whose decision some removal flips, so that attention has something to decide.
SURE = """() => {
  const select = document.querySelector("#play-form select");
  const flips = (one) => one.adversary && one.minimum && one.minimum.length;
  select.value = String(Math.max(0, playground.state.data.instances.findIndex(flips)));
  select.dispatchEvent(new Event("change", { bubbles: true }));
}"""


def main(run: Path) -> None:
    from playwright.sync_api import sync_playwright

    browser_path = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        shoot(browser, run / "report.html", IMAGES)
        (IMAGES / "report.txt").write_text(first_screen(run / "report.html"), encoding="utf-8")
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/screenshot.py RUN")
    main(Path(sys.argv[1]))
