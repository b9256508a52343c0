"""The first screen of a run's page: the answer, one text, and why; everything else is below."""

import re

import pytest
from playwright.sync_api import expect

from attnaudit.report.run_page import write_report
from tests.report.access import barriers
from tests.report.runs import write_run
from tests.traces import make_trace

MOST_PIXELS = 8000  # of the page of two classes, with everything folded
ORDER = ["answer", "heatmaps", "instances", "playground", "figures", "verdict", "numbers", "run"]
ANSWER = {
    "headline": "h1",
    "chips": "#answer .chips",
    "attention": "#answer .example:not([hidden]) .tokens.alpha",
    "other heatmap": "#answer .example:not([hidden]) .tokens.adversary",
    "rows": "#answer .rows",
}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Without the published numbers that a registered corpus has."""
    trace = make_trace(150, (6, 40), sharpness=1.2)
    return write_report(write_run(tmp_path_factory.mktemp("run"), trace, corpus="mine"))


def bottoms(page):
    """Where each part of the answer ends, in pixels from the top."""
    end = "one => one.getBoundingClientRect().bottom + scrollY"
    return {name: page.locator(where).evaluate(end) for name, where in ANSWER.items()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_answer_is_on_the_first_screen(browser, report, scheme):
    page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
    page.goto(report.as_uri())
    assert max(bottoms(page).values()) <= 800
    assert page.evaluate("document.documentElement.scrollHeight") <= MOST_PIXELS
    page.set_viewport_size({"width": 390, "height": 844})
    ends = bottoms(page)
    assert max(ends["headline"], ends["chips"]) <= 844
    assert list(ends.values()) == sorted(ends.values())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


def test_everything_else_follows_in_order(page):
    assert page.locator("main > section").evaluate_all("all => all.map(({id}) => id)")[:8] == ORDER


def test_every_class_has_a_word_and_a_sign_beside_its_colour(page):
    chips = page.locator(".chip").all_inner_texts()
    assert len(chips) == 2
    for chip in chips:
        assert re.match(r"(✔ may be shown|✘ where, not why|– no conclusion) +\w+ \d+ texts", chip)


def test_another_text_is_shown_and_tried(page):
    shown = page.locator("#answer .example:visible")
    first = shown.locator("h2").inner_text()
    page.keyboard.press("Tab")
    shown.get_by_role("button", name="Another text").press("Enter")
    expect(shown).to_have_count(1)
    assert shown.locator("h2").inner_text() != first
    number = shown.get_by_role("link", name="Try it yourself").get_attribute("href")
    shown.get_by_role("link", name="Try it yourself").click()
    # The playground follows the address a moment later.
    page.wait_for_function("name => `#play-${playground.state.entry.id}` === name", arg=number)


def test_all_measures_open_and_the_command_is_shown(page):
    page.get_by_role("link", name="All measures").click()
    expect(page.locator("#verdict .card-row").first).to_be_visible()
    page.get_by_text("Would another training agree?").click()
    expect(page.locator("#answer .foot code")).to_contain_text("attnaudit study seeds")


@pytest.mark.slow
def test_the_first_screen_has_no_barrier_on_a_phone(browser, report):
    assert barriers(browser, report.as_uri(), width=390) == []
