"""A real browser that is offline."""

import os
import shutil

import pytest
from playwright.sync_api import sync_playwright

from attnaudit.report.run_page import write_report
from tests.report.runs import write_run
from tests.traces import make_trace

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip
OWN_SCALE = ".strip-head [title^='The largest value. Each strip has a scale of its own']"


def chromium():
    """The path of a Chromium; without one the test is skipped, or fails where all must run."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        reason = "no Chromium on the PATH: install it, on Debian with `apt-get install -y chromium`"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def browser():
    found = chromium()
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(scope="package")
def report(tmp_path_factory):
    """The page of a run."""
    trace = make_trace(150, (6, 40), sharpness=1.2)
    return write_report(write_run(tmp_path_factory.mktemp("run"), trace))


@pytest.fixture
def page(opened, report):
    return opened(report)


@pytest.fixture
def without_scripts(browser, report):
    """The page where scripts do not run."""
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(report.as_uri())
    yield page
    context.close()


@pytest.fixture
def context(browser):
    made = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    yield made
    made.close()


@pytest.fixture
def opened(context):
    """Open pages that may complain of nothing and ask for nothing but their own data."""
    complaints = []

    def open_page(path, place=""):
        page, address = context.new_page(), path.as_uri()
        own = ("data:", f"{address.rpartition('/')[0]}/data/")

        def check(request):
            schemes = ("file:", "about:") if request.is_navigation_request() else own
            if not request.url.startswith(schemes):
                complaints.append(request.url)

        page.on("request", check)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(address + place)
        return page

    yield open_page
    assert complaints == []
