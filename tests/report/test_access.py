"""Access: axe-core finds nothing serious on any kind of page, colours are switched and kept, charts have their numbers, lines are short."""

import re
from functools import cache

import numpy as np
import polars as pl
import pytest

from attnaudit.recipes.compare import compare_runs
from attnaudit.recipes.site import site_into
from attnaudit.report.charts.marks import Scale, interval_chart, point_chart
from attnaudit.report.charts.svg import MOST, drawn
from attnaudit.report.paper_page import write_paper
from attnaudit.report.run_page import write_report
from attnaudit.report.sections.differences import write_comparison
from attnaudit.studies.adversary import ModelAdversary
from attnaudit.studies.uniform import Uniform
from tests.calibration.test_scores import write_calibrated
from tests.report.access import barriers
from tests.report.heads import write_heads
from tests.report.runs import write_run
from tests.report.test_paper_page import _found
from tests.report.test_site import audited
from tests.studies.test_dynamics import STUDY
from tests.studies.test_dynamics import some as steps_of
from tests.studies.test_numbers import adversary_traces
from tests.studies.test_pages import named, write_page
from tests.traces import make_trace

SEEDS = ("base-s0", "uniform-s0", "base-s1", "uniform-s1")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The page of a kind, written when it is first asked for."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def runs():
        return [
            audited(folder / "one", make_trace(30, (3, 9))),
            audited(folder / "two", make_trace(30, (3, 9), sharpness=0.2)),
        ]

    def of_study(study, traces):
        return write_page(folder / study.name, study, traces)

    adversary = ModelAdversary(strengths=(0.001, 0.1), controls=1)
    kinds = {
        "run": lambda: write_report(
            write_run(folder / "run", make_trace(12, [300, *range(6, 17)], sharpness=1.2))
        ),
        "heads": lambda: write_report(write_heads(folder / "heads", texts=6)),
        "adversary": lambda: of_study(adversary, adversary_traces()),
        "dynamics": lambda: of_study(STUDY, steps_of(STUDY)),
        "reproduction": lambda: write_paper(_found(), folder / "reproduction"),
        "comparison": lambda: write_comparison(folder / "comparison.html", compare_runs(runs())),
        "uniform": lambda: of_study(Uniform(seeds=2), named(*SEEDS)),
        "calibration": lambda: write_calibrated(folder / "calibration"),
        "site": lambda: site_into(runs(), folder / "site"),
    }
    return cache(lambda kind: kinds[kind]())


@pytest.mark.parametrize(
    "kind",
    [
        "run",
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in (
                *("heads", "adversary", "uniform", "dynamics"),
                *("reproduction", "comparison", "calibration"),
            )
        ),
    ],
)
def test_a_page_has_no_serious_barrier(kind, browser, pages):
    assert barriers(browser, pages(kind).as_uri()) == []


@pytest.mark.parametrize(
    ("view", "ready"), [("view=runs", "#run-measure"), ("view=instances&open=3", ".opened .token")]
)
@pytest.mark.slow
def test_a_view_of_the_site_has_no_serious_barrier(view, ready, browser, pages):
    assert barriers(browser, f"{pages('site').as_uri()}#{view}", ready) == []


@pytest.mark.slow
def test_a_wide_chart_keeps_the_size_of_its_letters(context, pages):
    page = context.new_page()
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(pages("adversary").as_uri())
        scale = page.locator("#figure-adversary svg").first.evaluate(
            "svg => svg.clientWidth / svg.viewBox.baseVal.width"
        )
        assert scale >= 0.79, width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_barrier_would_be_found(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        '<html lang="en"><title>t</title><main><h1>t</h1><img src="data:,"><p style="color:#ccc">pale</p></main></html>'
    )
    found = " ".join(barriers(browser, page.as_uri()))
    assert "image-alt" in found
    assert "color-contrast" in found


@pytest.mark.slow
def test_colours_follow_the_system_until_switched_and_paper_is_white(context, pages):
    paper = "getComputedStyle(document.body).backgroundColor"
    page = context.new_page()
    page.emulate_media(color_scheme="dark")
    page.goto(pages("run").as_uri())
    dark = page.evaluate(paper)
    brighter = "getComputedStyle(document.querySelector('.chart svg')).filter"
    assert page.evaluate(brighter) != "none"
    page.emulate_media(media="print")
    assert page.evaluate(brighter) == "none", "colours for black are too pale on paper"
    page.emulate_media(media="screen")
    page.emulate_media(color_scheme="light")
    assert page.evaluate(paper) == "rgb(255, 255, 255)" != dark
    page.get_by_role("button", name="dark colours").click()
    assert page.evaluate(paper) == dark
    page.goto(pages("adversary").as_uri())
    assert page.evaluate(paper) == dark
    page.emulate_media(media="print")
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    page.emulate_media(media="screen")
    page.get_by_role("button", name="light colours").click()
    assert page.evaluate(paper) == "rgb(255, 255, 255)"


def test_the_numbers_behind_a_chart_are_those_that_it_draws():
    rows = pl.DataFrame(
        {"name": ["<b>", "two"], "value": [0.5, -0.25], "low": [0.4, -0.5], "high": [0.6, 0.0]}
    )
    table = drawn("", interval_chart(rows, "change of F1"), "chart", "label").numbers
    assert table.count("<tr>") == 3
    assert "<td>&lt;b&gt;</td>" in table
    assert "<td>0.5</td>" in table
    assert "<td>−0.25</td>" in table
    assert ">change of F1</th>" in table


def test_of_more_rows_than_can_be_read_some_are_shown_under_the_titles_of_their_axes():
    rng = np.random.default_rng(0)
    points = pl.DataFrame({"group": "a", "x": rng.random(450), "y": rng.normal(size=450)})
    table = drawn("", point_chart(points, Scale("weight"), Scale("JSD")), "points", "").numbers
    assert re.findall(r'<th scope="col">(.*?)</th>', table) == ["group", "weight", "JSD"]
    shown = re.findall(r"<tr><td>a</td><td>([\d.]+)", table)
    assert [float(x) for x in shown] == pytest.approx(points["x"][::5].to_list(), abs=1e-3)
    assert f"one of every {-(-450 // MOST)} rows" in table
