"""The playground in a browser: by mouse, keyboard and buttons, its links, hostile tokens, the fragment of a notebook."""

import re

import numpy as np
import pytest
from PIL import Image

from attnaudit.core import InputError
from attnaudit.experiments import audit
from attnaudit.report.fragment import playground
from attnaudit.report.run_page import write_report
from attnaudit.trace import Trace
from docs import screenshot
from tests.report.runs import write_run
from tests.tails import opaque
from tests.traces import make_trace

TRACE = make_trace(14, (6, 18), sharpness=1.2, seed=2)
EXPERIMENTS = ["adversary", "erasure"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return write_report(write_run(tmp_path_factory.mktemp("run"), TRACE, experiments=EXPERIMENTS))


def shown(page):
    return {name: page.locator(f"#play-{name}").inner_text() for name in ("tvd", "jsd", "decision")}


def assert_as_readout(page):
    """The page's output is the Python readout of the weights that it has now."""
    name, weights, p = page.evaluate(
        "[playground.state.entry.id, playground.now(), playground.measured(playground.now()).p]"
        ".map((one) => (typeof one === 'string' ? one : Array.from(one)))"
    )
    one = TRACE.take(np.flatnonzero(TRACE.instance == int(name)))
    assert sum(weights) == pytest.approx(1)
    expected = one.readout(one.alpha.with_values(np.array(weights, float)))[0]
    np.testing.assert_allclose(p, expected, atol=1e-6)


def press(page, name):
    page.locator("#play-form").get_by_role("button", name=name).click()


@pytest.mark.slow
def test_bars_are_dragged_and_keyed_and_the_output_is_the_readout(page):
    assert shown(page) == {"tvd": "0.000", "jsd": "0.000", "decision": "the same"}
    bars = page.locator(".play-bar")
    bars.nth(2).scroll_into_view_if_needed()
    box = bars.nth(2).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 5, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 5, box["y"] + 10, steps=3)
    page.mouse.up()
    assert float(bars.nth(2).get_attribute("aria-valuenow") or 0) > 0.05
    for key in ("ArrowUp", "PageUp", "ArrowRight", "End", "ArrowDown", "Enter"):
        page.keyboard.press(key)
        assert_as_readout(page)
    assert page.evaluate("document.activeElement.id") == "play-weight"
    page.keyboard.type("0.25")
    page.keyboard.press("Enter")
    assert (bars.nth(3).get_attribute("aria-valuetext") or "").startswith("0.250")
    before = shown(page)
    bars.nth(3).press("PageUp")
    assert shown(page) != before
    bars.nth(3).press("Control+z")
    assert shown(page) == before
    own = bars.nth(1).get_attribute("aria-valuenow")
    for expected in (
        "0.0000",
        f"{TRACE.alpha[int(page.evaluate('playground.state.entry.id'))][1]:.4f}",
    ):
        bars.nth(1).press("Delete")
        assert bars.nth(1).get_attribute("aria-valuenow") == expected
    assert own != expected


@pytest.mark.slow
def test_buttons_set_the_attention(page):
    flip, flipped = page.locator("button[name=flip]"), 0
    for index in range(6):
        page.locator("#play-form select").select_option(index=index)
        press(page, "Most different")
        assert float(shown(page)["tvd"]) <= 0.0101
        limit = f"JSD {shown(page)['jsd']}, the proven maximum"
        assert limit in page.locator("#play-most").inner_text()
        if flip.is_enabled():
            flip.click()
            assert shown(page)["decision"] == "flipped"
            flipped += 1
        press(page, "The model's own")
        assert shown(page)["jsd"] == "0.000"
        removed = [page.evaluate("playground.now().filter((weight) => weight === 0).length")]
        for name in ("Permute", "Uniform", "Remove the largest", "Remove the largest"):
            press(page, name)
            removed.append(
                page.evaluate("playground.now().filter((weight) => weight === 0).length")
            )
            assert_as_readout(page)
        assert np.diff(removed).tolist() == [0, 0, 1, 1]
    assert flipped > 0
    assert page.locator("#play-plane circle").count() > 6


@pytest.mark.slow
def test_a_link_names_the_instance_and_a_damaged_one_does_nothing(page, report):
    page.evaluate(
        "document.querySelectorAll('#heatmaps details').forEach((one) => one.open = true)"
    )
    page.locator("#heatmaps .play-link").nth(2).click()
    page.wait_for_function("location.hash === `#play-${playground.state.entry.id}`")
    chosen = page.evaluate("playground.state.entry.id")
    for address, shown_first in (
        (page.url.partition("#")[2], True),
        ("play-999", False),
        ("play-%3Cb%3E", False),
    ):
        page.goto("about:blank")
        page.goto(f"{report.as_uri()}#{address}")
        assert (page.evaluate("playground.state.entry.id") == chosen) == shown_first


@pytest.mark.slow
def test_figures_and_heatmaps_are_saved_in_the_colours_of_the_page(page, tmp_path):
    figure, heatmap = page.locator("#figure-emax"), page.locator("#heatmaps .heatmap").first
    for place, kind, start in (
        (figure, "CSV", '"'),
        (figure, "SVG", "<svg"),
        (heatmap, "SVG", "<svg"),
    ):
        if not place.get_by_role("button", name=f"as {kind}").is_visible():
            place.locator("details.save > summary").click()
        with page.expect_download() as saved:
            place.get_by_role("button", name=re.compile(f"as {kind}")).click()
        saved.value.save_as(tmp_path / kind)
        drawn = (tmp_path / kind).read_text()
        assert drawn.startswith(start)
        assert "light-dark" not in drawn
        assert "var(" not in drawn
    assert drawn.count("<text") > heatmap.locator(".token").count()


@pytest.mark.slow
def test_the_script_of_the_stills_takes_them(browser, report, tmp_path):
    screenshot.shoot(browser, report, tmp_path)
    for name, page in (("report", "card.md"), ("playground", "runs.md")):
        with Image.open(tmp_path / f"{name}.png") as still:
            assert min(still.size) > 600
        assert f"](images/{name}.png)" in (screenshot.IMAGES.parent / page).read_text()


def test_the_fragment_stands_alone(opened, tmp_path):
    place = tmp_path / "notebook.html"
    audited = playground(TRACE, 4, audit(TRACE, ["adversary"]))
    place.write_text(f"<!doctype html><h1>Notebook</h1>{playground(TRACE, 3)}{audited}")
    page = opened(place)
    for number in (0, 1):
        frame = page.frame_locator("iframe").nth(number)
        frame.get_by_role("button", name="Most different").click()
        assert float(frame.locator("#play-jsd").inner_text()) > 0


def test_the_fragment_refuses_what_is_not_there_and_says_what_cannot_be_computed():
    with pytest.raises(InputError, match="results of this trace"):
        playground(TRACE, 3, audit(TRACE.take(np.arange(5)), ["adversary"]))
    hidden = opaque(make_trace(3, (2, 6), 3, hidden=4))
    for tail in ("onnx", "replay"):
        deep = Trace(hidden.table, {**hidden.metadata, "tail": tail}, hidden.tail)
        assert "a page cannot compute" in playground(deep, 1)
