"""The playground in a browser: by mouse and keyboard, its figures, link and files, hostile tokens, the fragment of a notebook."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, expect

from attnaudit.core.errors import InputError
from attnaudit.experiments import audit
from attnaudit.report.fragment import playground
from attnaudit.report.run_page import write_report
from attnaudit.stats.measures import jsd, tvd
from attnaudit.trace import Trace
from tests.report.runs import write_run
from tests.report.test_browser import open_page
from tests.report.test_page import EVIL, evil_trace
from tests.tails import layer_trace, opaque
from tests.traces import make_trace

TRACE = make_trace(14, (6, 18), sharpness=1.2, seed=2)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(
        write_run(
            tmp_path_factory.mktemp("run"), TRACE, experiments=["adversary", "erasure", "ranges"]
        )
    )


def shown(page: Page) -> dict[str, str]:
    return {name: page.locator(f"#play-{name}").inner_text() for name in ("tvd", "jsd", "decision")}


def in_python(trace: Trace, page: Page) -> np.ndarray:
    """The readout of the weights that the page has now."""
    name, weights = page.evaluate("[playground.state.entry.id, Array.from(playground.now())]")
    one = trace.take(np.flatnonzero(trace.instance == int(name)))
    return one.readout(one.alpha.with_values(np.array(weights, float)))[0]


def test_bars_are_dragged_and_keyed_and_the_output_is_the_readout(
    context: BrowserContext, report: Path
):
    page, asked, complaints = open_page(context, report)
    assert shown(page) == {"tvd": "0.000", "jsd": "0.000", "decision": "the same"}
    bar = page.locator(".play-bar").nth(2)
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 5, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 5, box["y"] + 10, steps=3)
    page.mouse.up()
    assert float(bar.get_attribute("aria-valuenow") or 0) > TRACE.alpha.values.min() + 0.05
    for key in ("ArrowUp", "PageUp", "ArrowRight", "End", "ArrowDown", "Enter"):
        page.keyboard.press(key)
        found, p = (
            in_python(TRACE, page),
            page.evaluate("Array.from(playground.measured(playground.now()).p)"),
        )
        np.testing.assert_allclose(p, found, atol=1e-6)
    assert page.evaluate("document.activeElement.name") == "weight"
    page.keyboard.type("0.25")
    page.keyboard.press("Enter")
    value = page.locator(".play-bar").nth(3).get_attribute("aria-valuetext", timeout=1000)
    assert str(value).startswith("0.250")
    page.locator(".play-bar").nth(3).press("PageUp")
    changed = shown(page)
    assert page.evaluate("model.sum(playground.now())") == pytest.approx(1)
    page.keyboard.press("Tab")
    page.locator(".play-bar").nth(3).press("Control+z")
    assert shown(page) != changed
    page.locator("[name=redo]").click()
    assert shown(page) == changed
    assert [url for url in asked if url not in (report.as_uri(), "data:,")] == []
    assert complaints == []


def test_buttons_plane_and_the_best_of_the_reader(context: BrowserContext, report: Path):
    page, _, complaints = open_page(context, report)
    best = page.locator("#play-best")
    assert "No move of yours" in best.inner_text()
    page.get_by_role("button", name="Adversary").click()
    optimum = float(shown(page)["jsd"])
    assert float(shown(page)["tvd"]) <= 0.0101
    assert f"JSD {optimum:.3f}, the proven maximum" in best.inner_text(), (
        "what the program found is not the reader's"
    )
    page.get_by_role("button", name="The model's own").click()
    page.locator(".play-bar").first.press("ArrowUp")
    page.locator(".play-bar").first.press("ArrowDown")
    for _ in range(3):
        page.get_by_role("button", name="Shuffle", exact=True).click()
    page.get_by_role("button", name="Uniform").click()
    reached = re.search(r"JSD ([\d.]+) at TVD", best.inner_text())
    assert reached is None or float(reached[1]) <= optimum
    assert page.locator("#play-plane circle").count() >= 6
    for index in range(page.locator("#play-form option").count()):
        page.locator("#play-form select").select_option(index=index)
        order, button = page.locator("select[name=order]"), page.locator("button[name=flip]")
        if order.locator("option[value=minimum]").is_enabled():
            order.select_option("minimum")
            if button.is_enabled():
                button.click()
                assert shown(page)["decision"] == "flipped"
        assert " to " in page.locator("#play-own").inner_text()
    page.locator("input[name=removed]").press("ArrowRight")
    assert page.evaluate("Math.min(...playground.now())") == 0
    assert complaints == []


def test_an_instance_without_a_heatmap_is_opened_from_the_list(
    context: BrowserContext, report: Path
):
    page, _, complaints = open_page(context, report)
    pictured = {
        link.removeprefix("#")
        for link in page.locator("#heatmaps h4 a").evaluate_all(
            "all => all.map(a => a.getAttribute('href'))"
        )
    }
    (anchor, *_) = [
        row
        for row in page.locator("#instance-table tbody tr").evaluate_all(
            "all => all.map(row => row.id)"
        )
        if row not in pictured
    ]
    page.locator(f"#{anchor} .open").click()
    link = page.locator("tr.detail .play-link")
    link.click()
    assert page.evaluate("playground.state.entry.id") == anchor.removeprefix("instance-")
    page.locator(".play-bar").first.press("PageUp")
    np.testing.assert_allclose(
        page.evaluate("Array.from(playground.measured(playground.now()).p)"),
        in_python(TRACE, page),
        atol=1e-6,
    )
    link.click()  # the address is the same already
    assert page.evaluate("playground.state.at") == 0
    assert page.locator("#play-plane .line").count() == 0, (
        "only those with a heatmap have a frontier"
    )
    assert complaints == []


def test_a_link_names_the_attention_and_a_damaged_one_does_nothing(
    context: BrowserContext, report: Path
):
    page, _, complaints = open_page(context, report)
    page.locator("#heatmaps .play-link").nth(2).click()
    chosen = page.evaluate("playground.state.entry.id")
    assert page.url.endswith(f"#play-{chosen}")
    page.locator(".play-bar").nth(1).press("PageUp")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#play-shared")).not_to_be_empty()
    named, weights = page.url, page.evaluate("Array.from(playground.now())")
    page.goto("about:blank")
    page.goto(named)
    np.testing.assert_allclose(page.evaluate("Array.from(playground.now())"), weights, atol=1e-6)
    for damaged in (
        "#play-999=AAAA",
        "#play-%3Cb%3E=x",
        f"#play-{page.evaluate('playground.state.entry.id')}=AAAA",
    ):
        page.goto(f"{report.as_uri()}{damaged}")
        assert shown(page)["decision"] == "the same"
    assert complaints == []


def test_pictures_and_weights_are_saved_in_the_colours_of_the_page(
    context: BrowserContext, report: Path, tmp_path: Path
):
    page, _, complaints = open_page(context, report)
    ink = "getComputedStyle(document.querySelector('#play-plane text')).fill"
    light = page.evaluate(ink)
    page.locator("#scheme").click()
    assert page.evaluate(ink) != light
    page.locator("#play-save summary").click()
    for ending, start in (("svg", b"<svg"), ("png", b"\x89PNG"), ("csv", b"token,own,weight")):
        with page.expect_download() as saved:
            page.locator("#play-save").get_by_role("button", name=f"as {ending.upper()}").click()
        path = tmp_path / f"saved.{ending}"
        saved.value.save_as(path)
        assert path.read_bytes().replace(b'"', b"").startswith(start)
        assert b"light-dark" not in path.read_bytes(), (
            "no colour to a program that opens the picture"
        )
    assert complaints == []


def test_figures_and_heatmaps_are_saved(context: BrowserContext, report: Path, tmp_path: Path):
    page, _, complaints = open_page(context, report)
    page.locator("#figure-emax details.save > summary").click()
    page.locator("#heatmaps details.save > summary").first.click()
    for name, start in (
        ("Save figure-emax as SVG", b"<svg"),
        ("Save figure-emax as PNG", b"\x89PNG"),
    ):
        with page.expect_download() as saved:
            page.get_by_role("button", name=name, exact=True).click()
        saved.value.save_as(tmp_path / "figure")
        assert (tmp_path / "figure").read_bytes().startswith(start)
    heatmap = page.locator("#heatmaps .heatmap").first
    for kind, start in (
        ("SVG", b"<svg"),
        ("PNG", b"\x89PNG"),
        ("CSV", b'"weights","token","weight"'),
    ):
        with page.expect_download() as saved:
            heatmap.get_by_role("button", name=re.compile(f"as {kind}")).click()
        saved.value.save_as(tmp_path / f"heatmap.{kind}")
        assert (tmp_path / f"heatmap.{kind}").read_bytes().startswith(start)
    assert "light-dark" not in (tmp_path / "heatmap.SVG").read_text(encoding="utf-8")
    rows = (tmp_path / "heatmap.CSV").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + heatmap.locator(".token").count()
    assert complaints == []


def test_where_a_page_cannot_compute_computed_points_are_shown(
    context: BrowserContext, tmp_path: Path
):
    base = layer_trace(8, (3, 9), outputs=3, seed=5, width=4)
    trace = Trace(base.table, {**base.metadata, "tail": "onnx"}, base.tail)
    page, asked, complaints = open_page(
        context,
        write_report(
            write_run(tmp_path, trace, experiments=["permutation"], with_trace=False), trace
        ),
    )
    number, width = (
        int(page.evaluate("playground.state.entry.id")),
        page.locator(".play-bar").count(),
    )
    one = trace.take(np.array([number]))
    shown_first = page.evaluate("playground.state.selected")
    page.locator(".play-bar").nth(shown_first).press("Home")
    page.get_by_label("Share given").press("ArrowLeft")
    page.get_by_label("Share given").press("ArrowLeft")
    for t in range(width):
        weights = 0.5 * one.alpha.values + 0.5 * (np.arange(width) == t)
        output = one.readout(one.alpha.with_values(weights))
        assert float(shown(page)["tvd"]) == pytest.approx(
            float(tvd(output, one.readout(one.alpha))[0]), abs=6e-4
        )
        assert float(shown(page)["jsd"]) == pytest.approx(
            float(jsd(weights[None], one.alpha.values[None])[0]), abs=6e-4
        )
        table = page.locator("#play-points tr[aria-current] > *").all_inner_texts()
        assert table[0] == page.locator(".play-bar span").nth(t).inner_text()
        assert float(table[1]) == pytest.approx(output[0, one.predicted[0]], abs=6e-4)
        page.locator(".play-bar").nth(t).press("ArrowRight")
    page.get_by_role("button", name="Copy link").click()
    assert page.url.endswith(f"#play-{number}={width - 1}.3")
    page.locator("#play-save summary").click()
    with page.expect_download() as saved:
        page.locator("#play-save").get_by_role("button", name="as CSV").click()
    saved.value.save_as(tmp_path / "points.csv")
    assert pl.read_csv(tmp_path / "points.csv").height == 6 * width
    page.goto(f"{page.url.partition('#')[0]}#play-{number}=999.9")
    page.locator("#heatmaps .play-link").last.click()
    assert page.url.endswith(f"#play-{page.evaluate('playground.state.entry.id')}")
    assert page.locator("#play-plane .trail").count() == 0, "points are not joined"
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert complaints == []


def test_hostile_tokens_stay_text(context: BrowserContext, tmp_path: Path):
    page, _, complaints = open_page(
        context, write_report(write_run(tmp_path, evil_trace(), corpus=EVIL))
    )
    page.locator(".play-bar").first.press("PageUp")
    page.locator("#play-save summary").click()
    with page.expect_download():
        page.locator("#play-save").get_by_role("button", name="as SVG").click()
    assert page.locator("#playground img, #playground script").count() == 0
    assert complaints == []


def test_the_script_of_the_stills_takes_them(browser: Browser, report: Path, tmp_path: Path):
    place = importlib.util.spec_from_file_location(
        "screenshot", Path(__file__).parents[2] / "docs" / "screenshot.py"
    )
    assert place is not None
    assert place.loader is not None
    script = importlib.util.module_from_spec(place)
    place.loader.exec_module(script)
    script.shoot(browser, report, tmp_path / "images")
    with (
        Image.open(tmp_path / "images" / "report.png") as report_still,
        Image.open(tmp_path / "images" / "playground.png") as played,
    ):
        assert report_still.size == (1280, 1000)
        assert min(played.size) > 600
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert all(f"docs/images/{name}.png" in readme for name in ("report", "playground"))


def test_a_phone_shows_all_of_it(browser: Browser, report: Path):
    context = browser.new_context(viewport={"width": 390, "height": 844}, offline=True)
    page, _, _ = open_page(context, report)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_the_fragment_stands_alone(context: BrowserContext, tmp_path: Path):
    place = tmp_path / "notebook.html"
    place.write_text(
        f"<!doctype html><h1>Notebook</h1>{playground(TRACE, 3)}{playground(TRACE, 4, audit(TRACE, ['adversary']))}"
    )
    page, _, complaints = open_page(context, place)
    for frame in (page.frame_locator("iframe").nth(0), page.frame_locator("iframe").nth(1)):
        frame.get_by_role("button", name="Adversary").click()
        assert float(frame.locator("#play-jsd").inner_text()) > 0
        assert frame.get_by_role("button", name="Copy link").count() == 0
    assert complaints == []


def test_the_fragment_refuses_what_is_not_there_and_says_what_cannot_be_computed():
    with pytest.raises(InputError, match="instance 99: no row of the trace"):
        playground(TRACE, 99)
    with pytest.raises(InputError, match="results of this trace"):
        playground(TRACE, 3, audit(TRACE.take(np.arange(5)), ["adversary"]))
    hidden = opaque(make_trace(3, (2, 6), 3, hidden=4))
    deep = Trace(hidden.table, {**hidden.metadata, "tail": "onnx"}, hidden.tail)
    assert "computed beforehand" in playground(deep, 1)
    unknown = Trace(hidden.table, {**hidden.metadata, "tail": "replay"}, hidden.tail)
    assert "without the model" in playground(unknown, 1)
