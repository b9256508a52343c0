"""Charts of studies: models with intervals, distances, quartiles, curves over training steps."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from attnaudit.report.charts.copying import matrix_chart, order_chart, seeds_chart
from attnaudit.report.charts.palette import Palette, box_layers, box_table, name_axis, name_width
from attnaudit.report.charts.specs import (
    Distances,
    FirstSteps,
    Intervals,
    Matrix,
    PairMatrix,
    Quartiles,
    SeedLines,
    StepLines,
    StudyChart,
    StudyFigure,
)
from attnaudit.report.charts.svg import Drawing, Figure, Panel, drawn
from attnaudit.report.words import figure

_WIDTH, _LINE = 285, 30
_NAMED_WIDTH = 320  # of a chart and of the names at its left: a third of a page
_STEPS_HEIGHT = 230
_CELL, _LABEL = (36, 27), 130  # pixels of a cell of a matrix, and of the longest label above it
_PARTS = (40, 8, 4, 2)  # of the last step: near these an axis has ticks
_SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down")
_FEW_TICKS = alt.Axis(
    tickCount=4, labelFlush=False, labelOverlap=True, labelSeparation=8
)  # a chart may stand at half its width


def interval_chart(rows: pl.DataFrame, title: str) -> Drawing:
    """Draw a dot with its interval for each of ``rows`` {name, value, low, high}, in order."""
    y = alt.Y("name:N", title=None, sort=rows["name"].to_list(), axis=name_axis(rows["name"]))
    chart, colour = alt.Chart(rows), alt.value(Palette.COLOURS[0])
    x = alt.X("value:Q", title=title, scale=alt.Scale(zero=False, padding=8), axis=_FEW_TICKS)
    line = chart.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=title), x2=alt.X2("high"), y=y, color=colour
    )
    return alt.layer(
        line, chart.mark_point(filled=True, size=60, opacity=1).encode(x=x, y=y, color=colour)
    ).properties(width=_NAMED_WIDTH - name_width(rows["name"]), height=_LINE * rows.height)


def curve_chart(points: pl.DataFrame) -> Drawing:
    """Draw mean TVD and JSD of every model {group, strength, tvd, jsd}.

    Those of one group that have a strength are joined.
    """
    palette = Palette(tuple(points["group"].unique(maintain_order=True).to_list()))
    flush = alt.Axis(tickCount=6, labelFlush=False)
    x = alt.X(
        "tvd:Q",
        title="mean TVD of the predictions",
        scale=alt.Scale(zero=True, nice=True),
        axis=flush,
    )
    y = alt.Y(
        "jsd:Q",
        title="mean JSD of attention",
        scale=alt.Scale(domain=[0, 0.7], nice=False),
        axis=alt.Axis(tickCount=7),
    )
    colour = palette.colour()
    colour["legend"] = alt.Legend(
        title=None,
        orient="right",
        labelColor="currentColor",
        labelLimit=240,
        labelFontSize=12,
        symbolSize=70,
        rowPadding=6,
        symbolOpacity=1,
        symbolStrokeWidth=0,
    )
    shape = alt.Shape(
        "group:N",
        scale=alt.Scale(domain=list(palette.groups), range=_SHAPES[: len(palette.groups)]),
        legend=colour["legend"],
    )
    joined = alt.Chart(points.filter(pl.col("strength").is_not_null())).mark_line(strokeWidth=1.6)
    marks = alt.Chart(points).mark_point(filled=True, size=70, opacity=1)
    layers = [
        joined.encode(
            x=x, y=y, color=colour, strokeDash=palette.dash(), order=alt.Order("strength:Q")
        ),
        marks.encode(x=x, y=y, color=colour, shape=shape),
    ]
    return alt.layer(*layers).properties(width=400, height=280)


def quantile_chart(rows: pl.DataFrame, title: str, ends: Sequence[float]) -> Drawing:
    """Draw a line, a bar and a tick for each of ``rows`` {name, low, q25, q50, q75, high}."""
    y = alt.Y("name:N", title=None, sort=rows["name"].to_list(), axis=name_axis(rows["name"]))
    x = alt.X("low:Q", title=title, scale=alt.Scale(domain=list(ends), nice=False), axis=_FEW_TICKS)
    layers = box_layers(alt.Chart(rows), x, y, alt.value(Palette.COLOURS[0]), 14)
    return alt.layer(*layers).properties(
        width=_NAMED_WIDTH - name_width(rows["name"]), height=_LINE * rows.height
    )


def step_chart(points: pl.DataFrame, axis: str, marked: pl.DataFrame) -> Drawing:
    """Draw a line with its band for each group of ``points`` {group, step, value, low, high}.

    Those of ``marked`` are dotted, in ink.
    """
    palette, steps = (
        Palette(tuple(points["group"].unique(maintain_order=True).to_list())),
        points["step"].unique().sort().to_list(),
    )
    scale = alt.Scale(type="sqrt", domain=[0, steps[-1]], nice=False)
    x = alt.X(
        "step:Q",
        title="optimizer steps",
        scale=scale,
        axis=alt.Axis(values=step_ticks(steps), grid=False, labelOverlap=True),
    )
    y = alt.Y(
        "value:Q", title=axis, scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(tickCount=6)
    )
    colour, dash = palette.colour(), palette.dash()
    colour["legend"] = dash["legend"] = alt.Legend(
        title=None,
        orient="bottom",
        direction="vertical",
        labelColor="currentColor",
        labelLimit=_WIDTH,
        labelFontSize=12,
        symbolSize=500,
        symbolStrokeWidth=2,
        symbolType="stroke",
        symbolOpacity=1,
    )
    chart = alt.Chart(points)
    layers = [
        chart.mark_area(opacity=0.16).encode(
            x=x, y=alt.Y("low:Q", title=axis), y2=alt.Y2("high"), color=colour
        ),
        chart.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash),
    ]
    if not marked.is_empty():
        layers.append(
            alt.Chart(marked)
            .mark_line(strokeDash=[1, 3], color="currentColor", strokeWidth=1.5)
            .encode(x=x, y=y, detail="group:N")
        )
    return alt.layer(*layers).properties(width=_WIDTH, height=_STEPS_HEIGHT)


def step_ticks(steps: list[int]) -> list[int]:
    """Choose of the measured ``steps``, in ascending order, those that a root sets well apart."""
    expected = (steps[0], *(steps[-1] / part for part in _PARTS), steps[-1])
    return sorted({min(steps, key=lambda step, near=near: abs(step - near)) for near in expected})


def pair_matrix_chart(rows: pl.DataFrame) -> Drawing:
    """Draw a cell with its number for each of ``rows`` {measure, other, value}.

    It is darker the further from 0, and orange below 0.
    """
    names = rows["measure"].unique(maintain_order=True).to_list()
    cells = rows.with_columns(
        size=pl.col("value").abs(), text=rows["value"].map_elements(figure, return_dtype=pl.String)
    )
    x = alt.X(
        "other:N",
        title=None,
        sort=names,
        axis=alt.Axis(orient="top", labelAngle=-40, ticks=False, domain=False, labelLimit=_LABEL),
    )
    y = alt.Y("measure:N", title=None, sort=names, axis=name_axis(names))
    shade = alt.Opacity("size:Q", scale=alt.Scale(domain=[0, 1], range=[0.04, 0.6]), legend=None)
    hue = alt.condition(
        "datum.value < 0", alt.value(Palette.COLOURS[5]), alt.value(Palette.COLOURS[0])
    )
    chart = alt.Chart(cells)
    numbers = chart.mark_text(fontSize=11.5).encode(x=x, y=y, text=alt.Text("text:N", title="mean"))
    size = {"width": _CELL[0] * len(names), "height": _CELL[1] * len(names)}
    return alt.layer(
        chart.mark_rect().encode(x=x, y=y, opacity=shade, color=hue), numbers
    ).properties(**size)


def draw_study(figure: StudyFigure) -> Figure:
    """Draw the charts of a study's figure."""
    panels = tuple(
        Panel(one.title, note=one.chart)
        if isinstance(one.chart, str)
        else drawn(one.title, _chart(one.chart), one.name, one.label)
        for one in figure.panels
    )
    return Figure(figure.name, figure.title, figure.caption, panels)


def _chart(chart: StudyChart) -> Drawing:
    match chart:
        case Intervals():
            return interval_chart(chart.rows, chart.axis)
        case Quartiles():
            return quantile_chart(
                box_table(group for group in chart.groups if group[1].len()), chart.axis, chart.ends
            )
        case Distances():
            return curve_chart(chart.rows)
        case StepLines():
            return step_chart(chart.rows, chart.axis, chart.marked)
        case SeedLines():
            return seeds_chart(chart.rows)
        case FirstSteps():
            return order_chart(chart.rows)
        case Matrix():
            return matrix_chart(chart.weights, chart.full)
        case PairMatrix():
            return pair_matrix_chart(chart.rows)
