"""Texts of 2,000 tokens: every token can be reached and searched, and only what is in view is laid out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from playwright.sync_api import BrowserContext, Page, expect

import attnaudit.report.sections.instances as instances
from attnaudit.report.run_page import write_report
from attnaudit.report.sections.heatmaps import visible
from attnaudit.trace import Trace
from tests.report.runs import write_run
from tests.report.test_page import EVIL
from tests.traces import make_trace

TOKENS, HOSTILE = 2000, 7
LAID_OUT = """blocks => blocks.filter((one) => {
  const probe = one.appendChild(document.createElement("i"));
  return probe.checkVisibility({contentVisibilityAuto: true});
}).length"""
SEEN = """(box) => new Promise((done) => {
  const step = () => {
    if (box.scrollTop + box.clientHeight >= box.scrollHeight - 2) return requestAnimationFrame(() => requestAnimationFrame(done));
    box.scrollTop += box.clientHeight / 2;
    requestAnimationFrame(() => requestAnimationFrame(step));
  };
  box.scrollTop = 0;
  requestAnimationFrame(() => requestAnimationFrame(step));
})"""


@pytest.fixture(scope="module")
def trace() -> Trace:
    made = make_trace(20, [TOKENS] * 20, sharpness=1.2)
    tokens = made.table["tokens"].to_list()
    tokens[HOSTILE][-3:] = [EVIL, "x" * 10_000, "\u202eשלום"]
    return replace(made, table=made.table.with_columns(pl.Series("tokens", tokens)))


@pytest.fixture(scope="module")
def page_of_long(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instances, "RANDOM", 20)
        return write_report(
            write_run(tmp_path_factory.mktemp("long"), trace, experiments=["prediction"])
        )


@pytest.fixture
def page(context: BrowserContext, page_of_long: Path) -> Page:
    page = context.new_page()
    page.goto(page_of_long.as_uri())
    return page


def settled(page: Page) -> None:
    page.evaluate(
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))"
    )


@pytest.mark.slow
def test_the_page_is_painted_within_a_second_with_only_what_is_in_view(
    page: Page, page_of_long: Path
) -> None:
    def painted() -> float:
        page.goto("about:blank")
        page.goto(page_of_long.as_uri())
        return page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")

    assert min(painted(), painted()) < 1000
    boxes = page.locator("#heatmaps .whole .tokens")
    assert (page.locator("#heatmaps .heatmap").count(), boxes.count()) == (20, 60)
    assert page.locator("#heatmaps .whole .token").count() == 0, "none is in view yet"
    page.locator("#heatmaps .heatmap").first.scroll_into_view_if_needed()
    settled(page)
    blocks = page.locator("#heatmaps .whole .block")
    assert blocks.count() == 60 * TOKENS / 100
    assert 0 < blocks.evaluate_all(LAID_OUT) < 60


@pytest.mark.slow
def test_every_token_is_reached_searched_and_saved(
    page: Page, trace: Trace, tmp_path: Path
) -> None:
    article = page.locator("#heatmaps .heatmap").first
    instance = int((article.locator("h4 a").first.get_attribute("href") or "").rpartition("-")[2])
    boxes, words = article.locator(".whole .tokens"), trace.tokens(instance)
    assert (boxes.first.text_content() or "").split() == words, "plain text before it is shaded"
    article.scroll_into_view_if_needed()
    settled(page)
    top = boxes.first.evaluate("""box => [...box.querySelectorAll('.token')].filter(one => Number(one.style.getPropertyValue('--w')) > 0.99)
        .map(one => one.getBoundingClientRect().top - box.getBoundingClientRect().top)""")
    assert any(0 < y < 19 * 16 for y in top), "the largest weight is in view"
    boxes.first.evaluate(SEEN)
    tokens = boxes.first.locator(".token")
    assert tokens.all_text_contents() == words
    shades = np.array(tokens.evaluate_all("all => all.map(one => Number(one.title))"))
    assert np.abs(shades - trace.alpha[instance]).max() < 4e-3 * trace.alpha[instance].max()
    assert boxes.nth(1).evaluate("box => box.scrollTop") == boxes.first.evaluate(
        "box => box.scrollTop"
    )
    article.locator(".save summary").click()
    with page.expect_download() as saved:
        article.get_by_role("button", name="as CSV").click()
    saved.value.save_as(tmp_path / "weights.csv")
    assert (
        len((tmp_path / "weights.csv").read_text(encoding="utf-8").splitlines()) == 1 + 3 * TOKENS
    )


@pytest.mark.slow
def test_hostile_tokens_stay_text_in_and_out_of_view(page: Page) -> None:
    said: list[str] = []
    page.on("dialog", lambda dialog: said.append(dialog.message))
    article = page.locator("#heatmaps .heatmap").filter(
        has=page.locator(f'h4 a[href="#instance-{HOSTILE}"]')
    )
    box = article.locator(".whole .tokens").first
    assert EVIL in (box.text_content() or "")
    article.scroll_into_view_if_needed()
    box.evaluate(SEEN)
    assert box.locator(".token").all_text_contents()[-3:] == [
        visible(EVIL),
        visible("x" * 10_000),
        visible("\u202eשלום"),
    ]
    assert box.locator("img, script").count() == 0
    assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
    assert said == []


@pytest.mark.slow
def test_paper_shows_the_tokens_around_the_most_weight(page: Page) -> None:
    strips = page.locator("#heatmaps .heatmap").first.locator(".strips")
    for media, whole in (("screen", True), ("print", False), ("screen", True)):
        page.emulate_media(media=media)  # pyright: ignore[reportArgumentType]
        # Retried: on a busy machine a page may be drawn after the call returns.
        expect(strips.locator("visible=true")).to_have_count(1)
        assert ("whole" in (strips.locator("visible=true").get_attribute("class") or "")) == whole


@pytest.mark.slow
def test_a_notebook_has_every_token_and_lays_out_those_in_view(
    context: BrowserContext, trace: Trace
) -> None:
    page = context.new_page()
    shown = trace.heatmap(3)
    page.set_content(shown.html)
    assert page.locator(".aa-tokens").first.locator(
        ".aa-token"
    ).all_text_contents() == trace.tokens(3)
    assert 0 < page.locator(".aa-block").evaluate_all(LAID_OUT) < 60, (
        "those within some screens of it"
    )
    assert len(repr(shown)) < 30_000
