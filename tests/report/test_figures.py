"""Figures: small tables whatever the size of the run, one SVG each, and a note where there is nothing to draw."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest

from attnaudit.experiments import audit
from attnaudit.report.cards import card
from attnaudit.report.charts.instances import crosstab, crosstab_chart, draw_figures, histogram
from attnaudit.report.charts.palette import OTHER, Palette, group_rows, legend
from attnaudit.report.charts.specs import Crosstab, Histogram, Scale
from attnaudit.report.charts.svg import Figure
from tests.traces import make_trace

COLUMNS = ("tau_gradient", "tau_loo", "tau_gradient_loo", "median_delta_y", "max_alpha", "emax_jsd", "emax_jsd_upper")  # fmt: skip
SVG = "{http://www.w3.org/2000/svg}"


def _rows(n: int, classes: int = 2) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    columns = {name: rng.random(n) * (0.69 if name.startswith("emax") else 1.0) for name in COLUMNS}
    predicted = [f"class {k % classes}" for k in range(n)]
    return pl.DataFrame({"instance": np.arange(n), "predicted": predicted, **columns})


def _svgs(figures: list[Figure]) -> list[ET.Element]:
    return [ET.fromstring(panel.svg) for figure in figures for panel in figure.panels if panel.svg]


def _words(drawing: ET.Element) -> list[str]:
    return [element.text for element in drawing.iter(f"{SVG}text") if element.text]


def _table(numbers: str) -> list[list[str]]:
    lines = re.findall(r"<tr>(.*?)</tr>", numbers.partition("</table>")[0])
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in lines]


def test_every_figure_is_one_labelled_svg_without_ids_in_common():
    figures, entries = draw_figures(_rows(300), ("class 1", "class 0"))
    assert [figure.name for figure in figures] == ["tau", "permutation", "emax", "emax-by-weight"]
    assert [entry.name for entry in entries] == ["class 1", "class 0"]
    drawings = _svgs(figures)
    assert len(drawings) == 6
    ids = [part.get("id") for drawing in drawings for part in drawing.iter() if part.get("id")]
    assert len(ids) == len(set(ids))
    for drawing in drawings:
        assert drawing.get("role") == "img"
        title = drawing.find(f"{SVG}title")
        assert title is not None
        assert title.text
        assert title.get("id") == drawing.get("aria-labelledby")


@pytest.mark.parametrize(
    "name", ["permutation", "maximal_change", "adversary", "ranges", "identifiability", "erasure"]
)
def test_an_experiment_by_itself_has_its_figures(name: str):
    """Columns that the tables of other experiments have are missing."""
    trace = make_trace(40, (2, 8), 3, seed=1)
    figures, _ = draw_figures(audit(trace, [name], {"ranges": {"share": 0.5}})[name].table)
    assert figures
    for figure in figures:
        assert 0 < len(figure.caption) < 420
        assert not re.search(r"\d\.\d", figure.caption), "captions repeat no figure"


def test_a_drawing_does_not_grow_with_the_number_of_instances():
    small, large = (
        sum(len(panel.svg) for figure in draw_figures(_rows(n))[0] for panel in figure.panels)
        for n in (500, 30_000)
    )
    assert large < min(1.2 * small, 400_000)


@pytest.mark.parametrize(
    "rows",
    [
        _rows(1, 1),
        _rows(2, 1),
        _rows(8),
        _rows(200, classes=9),
        _rows(40).with_columns(median_delta_y=0.0, emax_jsd=np.log(2), max_alpha=1.0, tau_loo=-1.0),
    ],
    ids=["one", "two", "few", "many classes", "constants at both ends"],
)
def test_few_many_and_constant_values_are_drawn(rows: pl.DataFrame):
    assert len(_svgs(draw_figures(rows)[0])) == 6


def test_what_is_undefined_is_told_and_not_drawn():
    rows = _rows(30).with_columns(
        tau_gradient=pl.lit(None, pl.Float64),
        tau_loo=pl.when(pl.int_range(pl.len()) < 3).then(None).otherwise(0.5),
        emax_jsd=pl.lit(float("nan")),
    )
    figures, _ = draw_figures(rows)
    gradient, loo, _ = figures[0].panels
    assert gradient.svg == figures[2].panels[0].svg == ""
    assert "Undefined" in gradient.note
    assert loo.svg
    assert "27 instances of 30" in loo.note


def test_missing_experiments_have_no_figure():
    assert draw_figures(pl.DataFrame({"instance": [], "predicted": []})) == ([], ())
    figures, _ = draw_figures(_rows(20).select("predicted", "median_delta_y", "max_alpha"))
    assert [figure.name for figure in figures] == ["permutation"]


def test_more_classes_than_colours_go_together_and_lose_nobody():
    rows, palette = group_rows(_rows(200, classes=9), [])
    assert len(palette.groups) == len(Palette.COLOURS)
    assert palette.groups[-1] == OTHER
    assert sum(int(entry.size.split()[0]) for entry in legend(rows, palette)) == 200


def test_shares_of_a_histogram_sum_to_one_for_each_class_whatever_its_size():
    rows = _rows(101).with_columns(group="predicted")
    steps = histogram(rows, Histogram("tau_loo", Scale("", low=-1.0), bins=40))
    assert steps["count"].sum() == 101
    for _, part in steps.group_by("group"):
        bars = part.drop_nulls("count")
        assert bars["share"].sum() == pytest.approx(1)
        assert (bars["right"] - bars["x"]).to_numpy() == pytest.approx(0.05)
        assert (part["share"].first(), part["share"].last()) == (0.0, 0.0)


def test_the_table_of_a_histogram_has_the_counts_of_every_class_and_bin():
    rows = _rows(300)
    (first, *_), _ = draw_figures(rows)
    head, *bins = _table(first.panels[0].numbers)
    assert head == ["Kendall τ", "number of class 0", "number of class 1"]
    assert len(bins) == 40
    low, high = (float(end.replace("−", "-")) for end in bins[-3][0].split(" to "))
    inside = rows.filter(pl.col("tau_gradient").is_between(low, high, closed="left"))
    for k in (0, 1):
        assert sum(int(one[k + 1]) for one in bins) == 150
        assert int(bins[-3][k + 1]) == inside.filter(predicted=f"class {k}").height


@pytest.mark.parametrize("classes", [3, 6])
def test_more_than_two_classes_have_a_box_and_a_count_each(classes: int):
    rows = _rows(300, classes)
    (first, *_), _ = draw_figures(rows)
    words = _words(ET.fromstring(first.panels[0].svg))
    names = [f"class {k}" for k in range(classes)]
    assert [word for word in words if word.startswith("class ")] == names
    assert words.count(f"n = {300 // classes}") == classes
    head, *boxes = _table(first.panels[0].numbers)
    assert head[2:5] == ["upper end", "lower quartile", "upper quartile"] or "median" in head
    median = rows.group_by("predicted").agg(pl.col("tau_gradient").median())
    shown = {box[0]: float(box[head.index("median")].replace("−", "-")) for box in boxes}
    assert shown == pytest.approx(dict(median.iter_rows()), abs=1e-3)


def test_the_removal_figure_is_over_all_instances_of_more_than_one_token():
    result = audit(make_trace(200, (1, 12), seed=3), ["erasure"])["erasure"]
    several = result.table.filter(pl.col("minimum_proven").is_not_null())
    (figure, *_), _ = draw_figures(result.table.drop("minimum"))
    assert f"over {several.height} instances of more than one token" in figure.caption
    words = _words(ET.fromstring(figure.panels[0].svg))
    assert {"attention", "gradient × attention", "smallest set"} <= set(words)
    # The first two colours are those of classes.
    assert not any(colour in figure.panels[0].svg for colour in Palette.COLOURS[:2])
    (only,), _ = draw_figures(result.table.drop("observed_by_order", "minimum"))
    assert only.name == "erasure", "a table of an earlier version has no curves"


def test_the_flip_table_has_the_largest_weight_down_and_the_other_across():
    """Of ten instances three flip without the largest weight alone, one without the other alone."""
    charts = [chart for figure in card("erasure").figures for chart in figure.charts]
    chart = next(one for one in charts if isinstance(one, Crosstab))
    flips = {"flip_max": [True] * 5 + [False] * 5, "flip_random": [True] * 2 + [False] * 3 + [True] + [False] * 4}  # fmt: skip
    rows = pl.DataFrame(flips)
    cells = {(cell["down"], cell["across"]): cell["text"] for cell in crosstab(rows, chart).to_dicts()}  # fmt: skip
    assert cells == {
        ("flips", "flips"): "20.0 %", ("flips", "does not"): "30.0 %", ("does not", "flips"): "10.0 %", ("does not", "does not"): "40.0 %",
    }  # fmt: skip
    for layer in crosstab_chart(rows, chart).to_dict()["layer"]:
        shown = [(layer["encoding"][axis]["field"], layer["encoding"][axis]["title"]) for axis in "xy"]  # fmt: skip
        assert shown == [("across", "without the other"), ("down", "without the largest")]
