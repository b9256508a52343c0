"""The card of a head in a real browser: by mouse, keyboard and address, without scripts, on paper."""

import pytest
from playwright.sync_api import expect

from attnaudit.report.card import head_cards
from attnaudit.report.run_page import write_report
from attnaudit.results import read_record
from tests.report.heads import write_heads
from tests.report.test_browser import OPEN, OVERLAPS


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return write_report(write_heads(tmp_path_factory.mktemp("heads")))


def _link(page, layer, head):
    return page.locator(f'#heads .map a[href="#head-{layer}-{head}"]').first


def _shows(page, report, layer, head):
    """The title, the figures and the sentences of the card are those of the head, and it is marked on every map."""
    record = read_record(report.parent)
    card = head_cards(record.summary, record.about)[layer, head]
    expect(page.locator("#head-title")).to_have_text(f"Head {head} of layer {layer}")
    shown = page.locator("#head-rows .card-row:visible")
    assert shown.locator(".value b").all_inner_texts() == [row.figure for row in card.rows]
    assert shown.locator(".interval").all_inner_texts() == [row.interval for row in card.rows]
    assert shown.locator(".sentence").all_inner_texts() == [row.sentence for row in card.rows]
    assert page.locator("#head-form select").input_value() == f"head-{layer}-{head}"
    marked = page.locator('#heads .map a[aria-current="true"]')
    assert set(marked.evaluate_all("links => links.map(link => link.getAttribute('href'))")) == {
        f"#head-{layer}-{head}"
    }
    assert marked.count() == page.locator("#heads .map").count()


def test_a_press_on_a_cell_shows_the_card_and_texts_of_the_head(page, report):
    _link(page, 0, 1).click()
    _shows(page, report, 0, 1)
    expect(page.locator("#head-title")).to_be_in_viewport()
    texts = page.locator("#head-texts .heatmap")
    assert 1 <= texts.count() <= 3
    assert texts.first.locator("h4").inner_text().startswith("Text ")
    assert texts.first.locator(".strip").count() == 4


@pytest.mark.slow
def test_heads_are_chosen_by_keyboard_and_by_the_address(page, report):
    _link(page, 1, 0).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#head-title")).to_be_focused()
    _shows(page, report, 1, 0)
    assert page.evaluate("location.hash") == "#head-1-0"
    page.locator("#head-form select").focus()
    page.keyboard.press("ArrowDown")
    _shows(page, report, 1, 1)
    page.go_back()
    assert page.evaluate("location.hash") == ""
    page.goto("about:blank")
    page.goto(f"{report.as_uri()}#head-0-0")
    expect(page.locator("#head-title")).to_be_focused()
    _shows(page, report, 0, 0)
    page.evaluate("location.hash = 'head-1-1'")
    _shows(page, report, 1, 1)


@pytest.mark.slow
def test_special_tokens_are_slanted_wherever_a_text_is_shown(page):
    page.evaluate(OPEN)
    page.locator(".open").first.click()
    style = "token => getComputedStyle(token).fontStyle"
    assert (
        page.locator("#heatmaps .token:not(.special):not(.known)").first.evaluate(style) == "normal"
    )
    for place in ("#heatmaps", "#head-texts", "tr.detail"):
        special = page.locator(f"{place} .heatmap .tokens.alpha .special")
        assert set(special.all_inner_texts()) == {"[CLS]", "[SEP]"}
        assert (special.first.get_attribute("title") or "").startswith("special token: ")
        assert special.first.evaluate(style) == "italic"
        assert not any(
            word.startswith("##") for word in page.locator(f"{place} .token").all_inner_texts()
        )
    assert page.locator("#instances td.text").first.inner_text().find("[CLS]") == -1


@pytest.mark.slow
def test_without_scripts_a_cell_leads_to_the_row_of_its_head(without_scripts):
    _link(without_scripts, 0, 1).click()
    assert without_scripts.locator("tr:target").locator("th").all_inner_texts() == ["0", "1"]


@pytest.mark.slow
def test_the_chosen_head_is_printed_and_fits(page):
    _link(page, 0, 1).click()
    page.set_viewport_size({"width": 390, "height": 844})  # a phone
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 688, "height": 900})
    page.emulate_media(media="print")
    assert page.locator("#head-texts .heatmap").first.is_visible()
    assert page.locator("#head-form").is_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 688
    wide = "tables => tables.filter(table => table.scrollWidth > table.parentElement.clientWidth + 1).length"
    assert page.locator("#heads table.every, #gate table").evaluate_all(wide) == 0
    assert page.evaluate(OVERLAPS) == []
