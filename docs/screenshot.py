"""Take the stills of the documentation: ``python docs/screenshot.py RUN`` writes docs/images/report.png and playground.png of a run's page.

Needs the dev extra and a Chromium on the PATH; nothing is loaded from the network.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

IMAGES = Path(__file__).with_name("images")


def shoot(page: Path, image: Path) -> None:
    """The top of an HTML page as a picture, and its playground under the adversary's attention."""
    from playwright.sync_api import sync_playwright

    browser_path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1280, "height": 1000}, color_scheme="light")
        view.route("http*://**", lambda route: route.abort())
        view.goto(page.resolve().as_uri())
        image.parent.mkdir(parents=True, exist_ok=True)
        view.screenshot(path=image)
        view.locator("#playground").get_by_role("button", name="Adversary").click()
        view.locator("#playground").screenshot(path=image.with_name("playground.png"))
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/screenshot.py RUN")
    shoot(Path(sys.argv[1]) / "report.html", IMAGES / "report.png")
