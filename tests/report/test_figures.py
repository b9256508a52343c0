"""Figures: small tables whatever the size of the run, one SVG each, and a note where there is nothing to draw."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest

from attnaudit.experiments import audit
from attnaudit.report.charts.instances import draw_figures
from attnaudit.report.charts.marks import cell_chart
from attnaudit.report.charts.palette import OTHER, Palette, group_rows, legend
from tests.traces import make_trace

COLUMNS = ("tau_gradient", "tau_loo", "tau_gradient_loo", "median_delta_y", "max_alpha", "emax_jsd", "emax_jsd_upper")  # fmt: skip
SVG = "{http://www.w3.org/2000/svg}"


def _rows(n, classes=2):
    rng = np.random.default_rng(0)
    columns = {name: rng.random(n) * (0.69 if name.startswith("emax") else 1.0) for name in COLUMNS}
    predicted = [f"class {k % classes}" for k in range(n)]
    return pl.DataFrame({"instance": np.arange(n), "predicted": predicted, **columns})


def _svgs(figures):
    return [ET.fromstring(panel.svg) for figure in figures for panel in figure.panels if panel.svg]


def _words(drawing):
    return [element.text for element in drawing.iter(f"{SVG}text") if element.text]


def _table(numbers):
    lines = re.findall(r"<tr>(.*?)</tr>", numbers.partition("</table>")[0])
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in lines]


def test_every_figure_is_one_labelled_svg_without_ids_in_common():
    figures, entries = draw_figures(_rows(300), ("class 1", "class 0"))
    assert [figure.name for figure in figures] == ["tau", "permutation", "emax"]
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


@pytest.mark.parametrize("name", ["maximal_change", "ranges", "identifiability", "erasure"])
def test_an_experiment_by_itself_has_its_figures(name):
    """Columns that the tables of other experiments have are missing."""
    trace = make_trace(40, (2, 8), 1 if name == "ranges" else 3, seed=1)
    assert draw_figures(audit(trace, [name])[name].table)[0]


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
def test_few_many_and_constant_values_are_drawn(rows):
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
    assert "27 texts of 30" in loo.note


def test_missing_experiments_have_no_figure():
    assert draw_figures(pl.DataFrame({"instance": [], "predicted": []})) == ([], ())
    figures, _ = draw_figures(_rows(20).select("predicted", "median_delta_y", "max_alpha"))
    assert [figure.name for figure in figures] == ["permutation"]


def test_more_classes_than_colours_go_together_and_lose_nobody():
    rows, palette = group_rows(_rows(200, classes=9), [])
    assert len(palette.groups) == len(Palette.COLOURS)
    assert palette.groups[-1] == OTHER
    assert sum(int(entry.size.split()[0]) for entry in legend(rows, palette)) == 200


def test_the_table_of_a_histogram_has_the_counts_of_every_class_and_bin():
    rows = _rows(301)
    (first, *_), _ = draw_figures(rows)
    head, *bins = _table(first.panels[0].numbers)
    assert head == ["group", "Kendall τ", "to", "share of the class", "number"]
    for name, n in (("class 0", 151), ("class 1", 150)):
        *own, end = (one[1:] for one in bins if one[0] == name)
        assert len(own) == 40
        assert sum(int(one[3]) for one in own) == n
        assert sum(float(one[2]) for one in own) == pytest.approx(1, abs=0.005)
        assert end[3] == "–"
        low, high = (float(edge.replace("−", "-")) for edge in own[-3][:2])
        inside = pl.col("tau_gradient").is_between(low, high, closed="left")
        assert int(own[-3][3]) == rows.filter(inside, predicted=name).height


@pytest.mark.parametrize("classes", [3, 6])
def test_more_than_two_classes_have_a_box_and_a_count_each(classes):
    rows = _rows(300, classes)
    (first, *_), _ = draw_figures(rows)
    words = _words(ET.fromstring(first.panels[0].svg))
    assert [word for word in words if word in set(rows["predicted"])] == [
        f"class {k}" for k in range(classes)
    ]
    assert words.count(f"n = {300 // classes}") == classes
    head, *boxes = _table(first.panels[0].numbers)
    median = rows.group_by("predicted").agg(pl.col("tau_gradient").median())
    shown = {box[0]: float(box[head.index("median")].replace("−", "-")) for box in boxes}
    assert shown == pytest.approx(dict(median.iter_rows()), abs=1e-3)


def test_the_removal_figure_is_over_all_instances_of_more_than_one_token():
    result = audit(make_trace(200, (1, 12), seed=3), ["erasure"])["erasure"]
    several = result.table["minimum_proven"].count()
    (figure, *_), _ = draw_figures(result.table.drop("minimum"))
    assert f"{several} texts of 200" in figure.panels[0].note
    words = _words(ET.fromstring(figure.panels[0].svg))
    assert {"attention", "gradient × attention", "smallest set"} <= set(words)
    # The first two colours are those of classes.
    assert not any(colour in figure.panels[0].svg for colour in Palette.COLOURS[:2])
    (only,), _ = draw_figures(result.table.drop("by_order", "minimum"))
    assert only.name == "erasure", "without its columns there are no curves"


def test_a_matrix_without_its_diagonal_has_one_order():
    cells = pl.DataFrame({"x": ["a", "b"], "y": ["b", "a"], "value": [0.5, 0.5]})
    axes = cell_chart(cells, (-1, 0, 1)).to_dict()["layer"][0]["encoding"]
    assert axes["x"]["scale"]["domain"] == axes["y"]["scale"]["domain"] == ["a", "b"]
