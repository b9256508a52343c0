"""Charts of studies: models with intervals, distances, quartiles, curves over training steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import polars as pl

from attnaudit.report.charts.palette import (
    Palette,
    box_layers,
    box_table,
    legend_of,
    name_axis,
    name_width,
)
from attnaudit.report.charts.svg import Drawing
from attnaudit.report.words import figure

_WIDTH, _LINE = 285, 30
_NAMED_WIDTH = 320  # of a chart and of the names at its left: a third of a page
_CELL, _LABEL = (36, 27), 130  # pixels of a cell of a matrix, and of the longest label above it
_PARTS = (40, 8, 4, 2)  # of the last step: near these an axis has ticks
_SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down")
# A chart may stand at half its width.
_FEW_TICKS = alt.Axis(tickCount=4, labelFlush=False, labelOverlap=True, labelSeparation=8)


def _sized(chart: Drawing, names: Sequence[str]) -> Drawing:
    """Give a chart a line for each of the names at its left."""
    return chart.properties(width=_NAMED_WIDTH - name_width(names), height=_LINE * len(names))


def _named(names: Sequence[str]) -> alt.Y:
    return alt.Y("name:N", title=None, sort=names, axis=name_axis(names))


def interval_chart(rows: pl.DataFrame, title: str) -> Drawing:
    """Draw a dot with its interval for each of ``rows`` {name, value, low, high}, in order."""
    names = rows["name"].to_list()
    chart = alt.Chart(rows).encode(y=_named(names), color=alt.value(Palette.COLOURS[0]))
    line = chart.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title), x2="high")
    scale = alt.Scale(zero=False, padding=8)
    x = alt.X("value:Q", title=title, scale=scale, axis=_FEW_TICKS)
    return _sized(line + chart.mark_point(filled=True, size=60, opacity=1).encode(x=x), names)


def curve_chart(points: pl.DataFrame) -> Drawing:
    """Draw mean TVD and JSD of every model {group, strength, tvd, jsd}.

    Those of one group that have a strength are joined.
    """
    palette = Palette(tuple(points["group"].unique(maintain_order=True)))
    legend = legend_of(
        orient="right", labelLimit=240, symbolSize=70, rowPadding=6, symbolStrokeWidth=0
    )
    title, axis = "mean TVD of the predictions", alt.Axis(tickCount=6, labelFlush=False)
    x = alt.X("tvd:Q", title=title, scale=alt.Scale(zero=True, nice=True), axis=axis)
    ends, axis = alt.Scale(domain=[0, 0.7], nice=False), alt.Axis(tickCount=7)
    y = alt.Y("jsd:Q", title="mean JSD of attention", scale=ends, axis=axis)
    shapes = alt.Scale(domain=palette.groups, range=_SHAPES[: len(palette.groups)])
    chart = alt.Chart(points).encode(x=x, y=y, color=palette.colour(legend))
    curves = (
        chart.transform_filter("datum.strength != null")
        .mark_line(strokeWidth=1.6)
        .encode(strokeDash=palette.dash(), order="strength:Q")
    )
    marks = chart.mark_point(filled=True, size=70, opacity=1).encode(
        shape=alt.Shape("group:N", scale=shapes, legend=legend)
    )
    return (curves + marks).properties(width=400, height=280)


def quantile_chart(
    groups: Mapping[str, pl.Series], title: str, ends: tuple[float, float]
) -> Drawing:
    """Draw a line from 5 to 95 %, a bar of quartiles and the median for each group with a value.

    Args:
        groups: Values by the name of the group.
        title: Title of the axis.
        ends: Its ends.
    """
    rows = box_table((name, values) for name, values in groups.items() if values.len())
    names, scale = rows["name"].to_list(), alt.Scale(domain=ends, nice=False)
    x = alt.X("low:Q", title=title, scale=scale, axis=_FEW_TICKS)
    layers = box_layers(alt.Chart(rows), x, _named(names), alt.value(Palette.COLOURS[0]), 14)
    return _sized(alt.layer(*layers), names)


def step_chart(points: pl.DataFrame, axis: str, marked: pl.DataFrame) -> Drawing:
    """Draw a line with its band for each group of ``points`` {group, step, value, low, high}.

    Those of ``marked`` are dotted, in ink.
    """
    palette = Palette(tuple(points["group"].unique(maintain_order=True)))
    steps = points["step"].unique().sort().to_list()
    x = alt.X(
        "step:Q",
        title="optimizer steps",
        scale=alt.Scale(type="sqrt", domain=[0, steps[-1]], nice=False),
        axis=alt.Axis(values=step_ticks(steps), grid=False, labelOverlap=True),
    )
    y = alt.Y("value:Q", title=axis, scale=alt.Scale(zero=True, nice=True)).axis(tickCount=6)
    legend = legend_of(
        direction="vertical",
        labelLimit=_WIDTH,
        symbolSize=500,
        symbolStrokeWidth=2,
        symbolType="stroke",
    )
    chart = alt.Chart(points).encode(x=x, color=palette.colour(legend))
    layers = [
        chart.mark_area(opacity=0.16).encode(y=alt.Y("low:Q", title=axis), y2="high"),
        chart.mark_line(strokeWidth=2).encode(y=y, strokeDash=palette.dash(legend)),
    ]
    if not marked.is_empty():
        dotted = {"strokeDash": [1, 3], "color": "currentColor", "strokeWidth": 1.5}
        layers.append(alt.Chart(marked).mark_line(**dotted).encode(x=x, y=y, detail="group:N"))
    return alt.layer(*layers).properties(width=_WIDTH, height=230)


def step_ticks(steps: list[int]) -> list[int]:
    """Choose of the measured ``steps``, in ascending order, those that a root sets well apart."""
    expected = (steps[0], *(steps[-1] / part for part in _PARTS), steps[-1])
    return sorted({min(steps, key=lambda step, near=near: abs(step - near)) for near in expected})


def pair_matrix_chart(rows: pl.DataFrame) -> Drawing:
    """Draw a cell with its number for each of ``rows`` {measure, other, value}.

    It is darker the further from 0, and orange below 0.
    """
    names = rows["measure"].unique(maintain_order=True).to_list()
    size, text = pl.col("value").abs(), [figure(value) for value in rows["value"]]
    labels = alt.Axis(orient="top", labelAngle=-40, ticks=False, domain=False, labelLimit=_LABEL)
    chart = alt.Chart(rows.with_columns(size=size, text=pl.Series(text))).encode(
        x=alt.X("other:N", title=None, sort=names, axis=labels),
        y=alt.Y("measure:N", title=None, sort=names, axis=name_axis(names)),
    )
    shade = alt.Opacity("size:Q", scale=alt.Scale(domain=[0, 1], range=[0.04, 0.6]), legend=None)
    blue, orange = alt.value(Palette.COLOURS[0]), alt.value(Palette.COLOURS[5])
    cells = chart.mark_rect().encode(
        opacity=shade, color=alt.condition("datum.value < 0", orange, blue)
    )
    numbers = chart.mark_text(fontSize=11.5).encode(text=alt.Text("text:N", title="mean"))
    width, height = (pixels * len(names) for pixels in _CELL)
    return (cells + numbers).properties(width=width, height=height)
