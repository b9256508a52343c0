"""The page in a real browser: it opens offline, its charts show something, and its list works by keyboard."""

import io

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from attnaudit.report.run_page import write_report
from attnaudit.report.sections.numbers import MOST_OPEN
from attnaudit.studies.adversary import ModelAdversary
from attnaudit.studies.deceive import Deceive
from attnaudit.studies.guide import Guide
from attnaudit.studies.seeds import Seeds
from attnaudit.studies.uniform import Uniform
from tests.report.conftest import OWN_SCALE
from tests.report.runs import write_run
from tests.report.test_page import EVIL, evil_trace
from tests.studies.test_dynamics import STUDY
from tests.studies.test_dynamics import some as steps_of
from tests.studies.test_numbers import adversary_traces
from tests.studies.test_pages import named, write_page
from tests.traces import make_trace

DATA = "JSON.parse(document.getElementById('instance-data').textContent)"
OPEN = "document.querySelectorAll('details.part').forEach((one) => { one.open = true; })"
WEIGHTS = "all => all.map(row => Number(row.dataset.max))"


@pytest.fixture(scope="module")
def dynamics(tmp_path_factory):
    """The page of a study of dynamics."""
    return write_page(tmp_path_factory.mktemp("study"), STUDY, steps_of(STUDY))


def test_the_page_opens_offline_without_a_request_or_an_error(page):
    page.locator(".open").first.click()
    assert page.title().startswith("bilstm + additive on SST")


def test_closed_parts_open_by_keyboard(page):
    verdict, parts = page.locator("#verdict"), page.locator("#numbers details")
    verdict.locator("details.part > summary").press("Enter")
    lines = verdict.get_by_role("list").first.get_by_role("listitem")
    assert lines.count() == 5
    assert lines.locator(".sign").count() == 4, "how well the model predicts has none"
    assert parts.count() == page.locator("#numbers table").count() > MOST_OPEN
    hidden = (verdict.locator("details.further .card-row").first, parts.nth(1).locator("table"))
    summaries = (verdict.locator("details.further summary"), parts.nth(1).locator("summary"))
    for part, summary in zip(hidden, summaries, strict=True):
        expect(part).to_be_hidden()
        summary.focus()
        page.keyboard.press("Enter")
        expect(part).to_be_visible()
    expect(page.locator("#numbers table:visible")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_every_chart_shows_something(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.evaluate(OPEN)
    charts = page.locator(".chart")
    assert charts.count() == 14
    for k in range(13):
        drawn = Image.open(io.BytesIO(charts.nth(k).screenshot())).convert("RGB")
        picture = np.asarray(drawn, dtype=float)
        background = np.median(picture.reshape(-1, 3), axis=0)
        inked = (np.abs(picture - background).max(axis=2) > 40).mean()
        assert inked > 0.01, f"chart {k} is nearly empty"
        colours = picture.max(axis=2) - picture.min(axis=2)
        assert (colours > 40).mean() > 0.004, f"chart {k} has axes and no data"


@pytest.mark.parametrize("kind", ["report", pytest.param("dynamics", marks=pytest.mark.slow)])
def test_a_page_fits_a_phone(browser, kind, request):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(request.getfixturevalue(kind).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for finished in page.get_by_role("region", name="Finished models, and the timing").all():
        assert finished.evaluate("box => box.scrollWidth - box.clientWidth") == 0
    page.close()


@pytest.mark.slow
def test_the_list_is_filtered_by_text_class_correctness_and_weight(page):
    rows, shown = page.locator("#instance-table tbody tr:visible"), page.locator("#shown")
    filters, clear = page.locator("#filters"), page.get_by_role("button", name="Clear")
    assert rows.count() == 10
    assert shown.inner_text() == "1 to 10 of 150 texts"
    filters.get_by_label("Text").fill("superb")
    texts = page.evaluate(f"{DATA}.map(one => one.tokens.includes('superb'))")
    assert 0 < rows.count() == min(sum(texts), 10)
    assert shown.inner_text().endswith(f"{sum(texts)} texts, of 150 listed")
    clear.click()
    expect(shown).to_have_text("1 to 10 of 150 texts")
    filters.get_by_label("Predicted").select_option("negative")
    page.locator("select[name=correct]").select_option("wrong")
    found = rows.evaluate_all("all => all.map(row => row.dataset.predicted + row.dataset.correct)")
    assert set(found) == {"negativewrong"}
    clear.click()
    for name, end, bound in (("from", "0.5", min), ("to", "0.6", max)):
        filters.get_by_label(name).fill(end)
        weights = rows.evaluate_all(WEIGHTS)
        assert (bound(weights) - float(end)) * (1 if bound is min else -1) > -1e-5
    every = page.locator("#instance-table tbody tr").evaluate_all(WEIGHTS)
    inside = sum(0.5 - 1e-6 <= weight <= 0.6 + 1e-6 for weight in every)
    assert shown.inner_text().endswith(f"{inside} texts, of 150 listed")


@pytest.mark.slow
def test_the_list_is_turned_page_by_page_by_keyboard(page):
    rows, following = (
        page.locator("#instance-table tbody tr:visible"),
        page.get_by_role("button", name="next"),
    )
    names = "rows => rows.map(row => row.cells[0].textContent)"
    seen = rows.evaluate_all(names)
    assert page.get_by_role("button", name="previous").is_disabled()
    for _ in range(14):
        following.focus()
        page.keyboard.press("Enter")
        seen += rows.evaluate_all(names)
    assert seen == [str(k) for k in range(150)]
    assert following.is_disabled()
    assert page.evaluate("document.activeElement.textContent") == "← previous"
    assert page.locator("#instances .pages span").inner_text() == "page 15 of 15"
    page.get_by_role("button", name="ε-max JSD").click()
    assert page.locator("#instances .pages span").inner_text() == "page 1 of 15"


@pytest.mark.slow
def test_the_instance_that_the_address_names_is_shown(page, report):
    page.evaluate(OPEN)
    page.locator("#filters").get_by_label("Text").fill("no such word")
    link = page.locator('.heatmap h4 a[href^="#instance-"]').last
    row = page.locator(f"#instances {link.get_attribute('href')}")
    assert row.is_hidden()
    link.click()
    expect(row.locator(".open")).to_be_focused()
    assert row.locator(".open").get_attribute("aria-expanded") == "true"
    page.goto("about:blank")
    page.goto(f"{report.as_uri()}#instance-149")
    assert page.locator("#instance-149").is_visible()
    assert page.locator("#instances .pages span").inner_text() == "page 15 of 15"
    assert page.locator("tr.detail").count() == 1


def test_all_instances_are_listed_without_scripts(without_scripts):
    assert without_scripts.locator("#instance-table tbody tr:visible").count() == 150
    assert without_scripts.locator(".pages").count() == 0


OVERLAPS = """() => Array.from(document.querySelectorAll('.chart svg')).flatMap((chart) => {
  const words = Array.from(chart.querySelectorAll('text')).filter((word) => word.textContent.trim());
  const boxes = words.map((word) => [word.textContent, word.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], k) => boxes.slice(k + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1)
    .filter(([, b]) => Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)
    .map(([other]) => [one, other]));
})"""
CLIPPED = """() => Array.from(document.querySelectorAll('.chart text')).filter((word) => {
  const [a, b] = [word.getBoundingClientRect(), word.closest('.panel').getBoundingClientRect()];
  return word.textContent.trim() && (a.left < b.left - 1 || a.right > b.right + 4);
}).map((word) => word.textContent)"""
COVERED = """() => Array.from(document.querySelectorAll('.chart svg')).flatMap((chart) => {
  const boxes = (marks) => Array.from(chart.querySelectorAll(marks), (mark) => mark.getBoundingClientRect());
  const points = boxes('.mark-symbol.role-mark path');
  return boxes('.role-axis-label text, .role-axis-title text').filter((a) => a.width && points.some((b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4));
})"""
UNEVEN = """() => Array.from(document.querySelectorAll('.panels')).filter((panels) => {
  const tops = new Set(Array.from(panels.querySelectorAll('.panel > .chart'), (chart) => Math.round(chart.getBoundingClientRect().top)));
  return tops.size > 1;
}).length"""
SCALES = "() => Array.from(document.querySelectorAll('.chart svg')).map((svg) => svg.clientWidth / svg.viewBox.baseVal.width)"


def assert_well_drawn(page):
    """Words of charts are apart, inside their panel and of one size; nothing is wider than its box, on a screen and on A4."""
    page.evaluate(OPEN)
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate(COVERED) == []
    assert page.evaluate(UNEVEN) == 0
    scales = page.evaluate(SCALES)
    assert scales
    assert 0.9 < min(scales) <= max(scales) < 1.01  # of widths in whole pixels
    wide = "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth + 1).length"
    assert page.locator(".scroll").evaluate_all(wide) == 0
    page.set_viewport_size({"width": 688, "height": 900})  # what is left of A4 between the margins
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 688


@pytest.mark.slow
def test_the_charts_of_a_run_are_well_drawn(opened, report, dynamics, tmp_path):
    names = ("abbreviation", "description", "entity", "human", "location", "number")
    trace = make_trace(150, (6, 16), outputs=6, class_names=names)
    for path in (report, dynamics, write_report(write_run(tmp_path / "run", trace))):
        assert_well_drawn(opened(path))


UNIFORM = "base-s0", "uniform-s0", "base-s1", "uniform-s1"
DECEIVE = "deceive-bilstm-0-s0", "deceive-bilstm-1-s0", "removed-bilstm-s0"
STUDIES_WITH_CHARTS = [
    (Uniform(seeds=2), named(*UNIFORM)),
    (Seeds(seeds=2), named("base-s0", "base-s1", "base-s2", "uniform-s0")),
    (Guide(seeds=1), named("guide-uniform-s0", "guide-base-s0", "guide-learned-s0")),
    (Deceive(models=("bilstm",), strengths=(0.0, 1.0), seeds=1), named(*DECEIVE)),
    (ModelAdversary(strengths=(0.001, 0.1), controls=1), adversary_traces()),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "traces"), STUDIES_WITH_CHARTS, ids=lambda value: getattr(value, "name", "")
)
def test_the_charts_of_a_study_are_well_drawn(opened, study, traces, tmp_path):
    assert_well_drawn(opened(write_page(tmp_path, study, traces)))


def test_the_list_is_sorted_both_ways_with_undefined_values_last(page):
    head = page.locator("th", has=page.get_by_role("button", name="ε-max JSD"))
    values = "rows => rows.map(row => row.cells[9].dataset.value).filter(text => text !== '').map(Number)"
    rows = page.locator("#instance-table tbody tr")
    for direction, reverse in (("ascending", False), ("descending", True)):
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == direction
        numbers = rows.evaluate_all(values)
        assert numbers == sorted(numbers, reverse=reverse)


def test_a_row_opens_its_heatmap_by_keyboard(page):
    first = page.locator(".open").first
    first.focus()
    page.keyboard.press("Enter")
    assert first.get_attribute("aria-expanded") == "true"
    detail = page.locator("tr.detail")
    assert detail.locator(".strip").count() == 5
    assert detail.locator(OWN_SCALE).count() == 4
    words = detail.locator(".strip").first.locator(".token").all_inner_texts()
    assert words == page.evaluate(f"{DATA}[0].tokens")
    shades = detail.locator(".tokens.alpha .token").evaluate_all(
        "spans => spans.map(span => Number(span.style.getPropertyValue('--w')))"
    )
    strips = page.evaluate(f"{DATA}[0].strips")
    assert [round(1000 * shade) for shade in shades] == strips[0][5]
    ends = "spans => spans.map(span => ['--low', '--high', '--own'].map(name => Math.round(1000 * span.style.getPropertyValue(name))))"
    bars = detail.locator(".tokens.ranges .token").evaluate_all(ends)
    assert bars == [[*span, own] for span, own in zip(strips[4][6], strips[4][5], strict=True)]
    page.keyboard.press("Space")
    assert page.locator("tr.detail").count() == 0


@pytest.mark.slow
def test_the_whole_page_is_reached_by_keyboard_from_the_skip_link(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.evaluate(
        "window.reached = []; addEventListener('focusin', ({target}) => reached.push(target.name || target.className))"
    )
    page.evaluate(OPEN)
    for _ in range(250):
        page.keyboard.press("Tab")
    assert {"text", "predicted", "correct", "from", "to", "open"} <= set(
        page.evaluate("reached.map(String)")
    )


@pytest.mark.slow
def test_hostile_tokens_stay_text(opened, tmp_path):
    page = opened(write_report(write_run(tmp_path, evil_trace(), corpus=EVIL)))
    page.locator(".open").first.click()
    assert page.locator("tr.detail .token").first.inner_text() == EVIL
    page.locator("#filters").get_by_label("Text").fill("<script>")
    page.locator(".play-bar").first.press("PageUp")
    assert page.locator(".play-bar span").first.inner_text() == EVIL
    assert page.locator("#playground img, #playground script").count() == 0


def test_print_leaves_out_the_controls_and_keeps_the_heatmaps(page):
    page.emulate_media(media="print")
    assert page.locator("#instances").is_hidden()
    assert page.locator("nav").is_hidden()
    assert page.locator(".heatmap").first.is_visible()
    assert page.locator("#numbers table").last.is_visible()
    assert page.locator(".further .card-row").last.is_visible()
