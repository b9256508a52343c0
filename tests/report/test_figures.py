"""Figures: small tables whatever the size of the run, one SVG each, and a note where there is nothing to draw."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest

from attnaudit.experiments import audit
from attnaudit.report.cards import card
from attnaudit.report.charts.instances import (
    FEW,
    crosstab,
    crosstab_chart,
    draw_figures,
    histogram,
    kernel_density,
    outline,
    singles,
    violins,
)
from attnaudit.report.charts.palette import OTHER, Palette, group_rows, legend
from attnaudit.report.charts.specs import Crosstab
from attnaudit.report.charts.svg import Figure
from tests.traces import make_trace

COLUMNS = (
    "tau_gradient",
    "tau_loo",
    "tau_gradient_loo",
    "median_delta_y",
    "max_alpha",
    "emax_jsd",
    "emax_jsd_upper",
)


def _rows(n: int, classes: int = 2, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    columns = {name: rng.random(n) * (0.69 if name.startswith("emax") else 1.0) for name in COLUMNS}
    return pl.DataFrame(
        {
            "instance": np.arange(n),
            "predicted": [f"class {k % classes}" for k in range(n)],
            **columns,
        }
    )


def _svgs(figures: list[Figure]) -> list[ET.Element]:
    return [ET.fromstring(panel.svg) for figure in figures for panel in figure.panels if panel.svg]


def test_every_figure_is_one_labelled_svg_without_ids_in_common():
    figures, entries = draw_figures(_rows(300), ("class 1", "class 0"))
    assert [figure.name for figure in figures] == ["tau", "permutation", "emax", "emax-by-weight"]
    assert [entry.name for entry in entries] == ["class 1", "class 0"]
    drawings = _svgs(figures)
    assert len(drawings) == 6
    ids = [
        element.get("id") for drawing in drawings for element in drawing.iter() if element.get("id")
    ]
    assert len(ids) == len(set(ids))
    for drawing in drawings:
        assert drawing.get("role") == "img"
        title = drawing.find("{http://www.w3.org/2000/svg}title")
        assert title is not None
        assert title.text
        assert title.get("id") == drawing.get("aria-labelledby")


@pytest.mark.parametrize(
    "name", ["permutation", "maximal_change", "adversary", "ranges", "identifiability", "erasure"]
)
def test_an_experiment_by_itself_has_its_figures(name: str):
    """Columns that the tables of other experiments have are missing."""
    figures, _ = draw_figures(
        audit(make_trace(40, (2, 8), 3, seed=1), [name], {"ranges": {"share": 0.5}})[name].table
    )
    assert figures
    assert all(figure.caption.strip() for figure in figures)


def test_a_drawing_does_not_grow_with_the_number_of_instances():
    small, large = (
        sum(len(panel.svg) for figure in draw_figures(_rows(n))[0] for panel in figure.panels)
        for n in (500, 30_000)
    )
    assert large < 1.2 * small
    assert large < 400_000


@pytest.mark.parametrize("n", [1, 2, FEW - 1, FEW])
@pytest.mark.parametrize("classes", [1, 2])
def test_few_instances_and_one_class_are_drawn(n: int, classes: int):
    figures, _ = draw_figures(_rows(n, classes))
    assert len(_svgs(figures)) == 6


def test_constant_values_and_values_at_both_ends_are_drawn():
    rows = _rows(40).with_columns(
        median_delta_y=pl.lit(0.0),
        emax_jsd=pl.lit(float(np.log(2))),
        max_alpha=pl.lit(1.0),
        tau_loo=pl.lit(-1.0),
    )
    assert len(_svgs(draw_figures(rows)[0])) == 6


def test_what_is_undefined_is_told_and_not_drawn():
    rows = _rows(30).with_columns(
        tau_gradient=pl.lit(None, pl.Float64),
        tau_loo=pl.when(pl.int_range(pl.len()) < 3).then(None).otherwise(0.5),
        emax_jsd=pl.lit(float("nan")),
    )
    figures, _ = draw_figures(rows)
    gradient, loo, _ = figures[0].panels
    assert (gradient.svg, gradient.note) == ("", "Undefined for every instance: nothing to draw.")
    assert loo.svg
    assert loo.note == "Drawn: 27 instances of 30; the others have no value."
    assert figures[2].panels[0].svg == ""


def test_missing_experiments_have_no_figure():
    assert draw_figures(pl.DataFrame({"instance": [], "predicted": []})) == ([], ())
    figures, _ = draw_figures(
        _rows(20).drop("emax_jsd", "emax_jsd_upper", "tau_gradient", "tau_loo", "tau_gradient_loo")
    )
    assert [figure.name for figure in figures] == ["permutation"]


def test_captions_are_short_and_repeat_no_figure():
    every = audit(
        make_trace(40, (1, 12), seed=4), ["erasure", "maximal_change", "ranges", "identifiability"]
    )
    tables = [
        every[name].table.drop("minimum", "necessary", "possible", strict=False) for name in every
    ]
    joined = pl.concat(
        [
            _rows(40),
            *(table.select(name for name in table.columns if "_" in name) for table in tables),
        ],
        how="horizontal",
    )
    figures, _ = draw_figures(joined)
    assert len(figures) >= 8
    for figure in figures:
        assert not re.search(r"\d\.\d", figure.caption), figure.caption
        assert len(figure.caption) < 420, figure.caption


def test_more_classes_than_colours_go_together_and_lose_nobody():
    rows, palette = group_rows(_rows(200, classes=9), [])
    assert len(palette.groups) == len(Palette.COLOURS)
    assert palette.groups[-1] == OTHER
    assert sum(int(entry.size.split()[0]) for entry in legend(rows, palette)) == 200
    assert len(_svgs(draw_figures(_rows(200, classes=9))[0])) == 6


def test_shares_of_a_histogram_sum_to_one_for_each_class_whatever_its_size():
    rows = _rows(101).with_columns(group="predicted")
    bars = histogram(rows, "tau_loo", -1.0, 1.0, 40)
    assert bars.group_by("group").agg(pl.col("share").sum())["share"].to_list() == pytest.approx(
        [1.0, 1.0]
    )
    assert bars["count"].sum() == 101
    steps = outline(bars).filter(pl.col("group") == "class 0")
    assert (steps["share"].first(), steps["share"].last()) == (0.0, 0.0)


def test_a_density_ends_where_the_values_end_and_peaks_where_they_are():
    rng = np.random.default_rng(0)
    values = np.clip(rng.normal(0.3, 0.05, 5000), 0, 1)
    x, density = kernel_density(values, 1.0)
    assert (x[0], x[-1]) == (values.min(), values.max())
    assert x[density.argmax()] == pytest.approx(0.3, abs=0.02)
    assert density.max() == 1.0


def test_small_groups_are_points_and_large_ones_curves():
    rows = pl.DataFrame(
        {
            "band": [0] * (FEW - 1) + [1] * FEW,
            "group": ["a"] * (2 * FEW - 1),
            "v": np.linspace(0, 1, 2 * FEW - 1),
        }
    )
    assert singles(rows, "v")["band"].unique().to_list() == [0]
    assert violins(rows, "v", 1.0)["band"].unique().to_list() == [1]


def _words(drawing: ET.Element) -> list[str]:
    return [
        element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text") if element.text
    ]


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_histograms_of_more_than_two_classes_have_a_row_and_a_count_each(classes: int):
    (first, *_), _ = draw_figures(_rows(300, classes))
    words = _words(ET.fromstring(first.panels[0].svg))
    assert ("share of the class" in words) == (classes == 2)
    assert (
        sum(word.startswith("class ") for word in words)
        == sum(word == f"n = {300 // classes}" for word in words)
        == classes * (classes > 2)
    )
    assert ("own highest bin" in first.caption) == (classes > 2)


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_the_table_of_a_histogram_has_the_counts_of_every_class_and_bin(classes: int):
    rows = _rows(300, classes)
    (first, *_), _ = draw_figures(rows)
    table = re.findall(r"<table>.*?</table>", first.panels[0].numbers)[0]
    head, *bins = [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line)
        for line in re.findall(r"<tr>(.*?)</tr>", table)
    ]
    assert head == ["Kendall τ", *(f"number of class {k}" for k in range(classes))]
    assert len(bins) == (40 if classes == 2 else 20)
    assert [sum(int(one[k]) for one in bins) for k in range(1, classes + 1)] == [
        300 // classes
    ] * classes
    low, high = (float(end.replace("−", "-")) for end in bins[-3][0].split(" to "))
    inside = rows.filter(pl.col("tau_gradient").is_between(low, high, closed="left"))
    assert [int(count) for count in bins[-3][1:]] == [
        inside.filter(predicted=f"class {k}").height for k in range(classes)
    ]


def test_a_class_of_few_instances_does_not_set_the_height_of_the_others():
    rows = _rows(303, 3).filter((pl.col("predicted") != "class 2") | (pl.col("instance") < 9))
    rare = rows.with_columns(
        tau_gradient=pl.when(pl.col("predicted") == "class 2").then(0.5).otherwise("tau_gradient")
    )
    spread, same = (draw_figures(one)[0][0].panels[0].svg for one in (rows, rare))
    paths = [
        re.findall(
            r'aria-roledescription="area mark" [^>]*d="([^"]+)"|<path[^>]* d="(M[^"]{200,})"', one
        )
        for one in (spread, same)
    ]
    assert paths[0]
    assert paths[0] == paths[1]
    assert "n = 3" in _words(ET.fromstring(same))


def test_the_removal_figure_is_over_all_instances_of_more_than_one_token():
    result = audit(make_trace(200, (1, 12), seed=3), ["erasure"])["erasure"]
    several = result.table.filter(pl.col("minimum_proven").is_not_null())
    (figure, *_), _ = draw_figures(result.table.drop("minimum"))
    assert f"over {several.height} instances of more than one token" in figure.caption
    words = _words(ET.fromstring(figure.panels[0].svg))
    assert {
        "attention",
        "gradient × attention",
        "smallest set",
        "share of predictions flipped",
    } <= set(words)
    assert not any(
        colour in figure.panels[0].svg for colour in Palette.COLOURS[:2]
    )  # those are of classes


def test_a_table_of_an_earlier_version_has_no_curves():
    table = audit(make_trace(60, (2, 12), seed=3), ["erasure"])["erasure"].table
    figures, _ = draw_figures(table.drop("observed_by_order", "minimum"))
    assert [one.name for one in figures] == ["erasure"]


def test_the_flip_table_has_the_largest_weight_down_and_the_other_across():
    """Of ten instances three flip without the largest weight alone, one without the other alone."""
    chart = next(
        one
        for figure in card("erasure").figures
        for one in figure.charts
        if isinstance(one, Crosstab)
    )
    rows = pl.DataFrame(
        {
            "flip_max": [True] * 5 + [False] * 5,
            "flip_random": [True] * 2 + [False] * 3 + [True] + [False] * 4,
        }
    )
    cells = {
        (cell["down"], cell["across"]): cell["text"] for cell in crosstab(rows, chart).to_dicts()
    }
    assert cells == {
        ("flips", "flips"): "20.0 %", ("flips", "does not"): "30.0 %", ("does not", "flips"): "10.0 %", ("does not", "does not"): "40.0 %",
    }  # fmt: skip
    for layer in crosstab_chart(rows, chart).to_dict()["layer"]:
        shown = {
            axis: (layer["encoding"][axis]["field"], layer["encoding"][axis]["title"])
            for axis in ("x", "y")
        }
        assert shown == {"x": ("across", "without the other"), "y": ("down", "without the largest")}
