"""Histograms of one measure, a class over the other."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from attnaudit.report.charts import densities
from attnaudit.report.charts.palette import Palette, marker_layers, measured_axis
from attnaudit.report.charts.svg import Drawing
from attnaudit.results.charts import Marker, Scale

_WIDTH, _HEIGHT = 330, 190


def histogram_chart(
    rows: pl.DataFrame, column: str, scale: Scale, palette: Palette, markers: Sequence[Marker] = (), bins: int = 40
) -> Drawing:
    """Share of each group's instances per bin as filled steps, and a short tick at each group's mean."""
    rows = rows.select("group", column)
    crowded = len(palette.groups) > 3  # many filled shapes over each other hide one another
    bars = densities.histogram(rows, column, scale.low, scale.high, bins // 2 if crowded else bins)
    room = 1.3 if markers else 1.06  # above the highest bar, for the markers' words
    top = room * max(bars["share"].to_list())
    steps = alt.Chart(densities.outline(bars))
    percents = alt.Axis(format=".0%", tickCount=4, labelExpr="datum.value > 1 ? '' : datum.label")
    y = alt.Y("share:Q", stack=None, title="share of the class", scale=alt.Scale(domain=[0, top], nice=False), axis=percents)
    colour = palette.colour()
    filled = steps.mark_area(opacity=0.06 if crowded else 0.28, interpolate="step-after").encode(
        x=measured_axis(scale, grid=False), y=y, color=colour
    )
    line = steps.mark_line(interpolate="step-after", strokeWidth=1.6)
    stepped = line.encode(x=alt.X("x:Q"), y=alt.Y("share:Q"), order=alt.Order("order:Q"), color=colour, strokeDash=palette.dash())
    averages = alt.Chart(densities.means(rows, column)).mark_tick(orient="vertical", thickness=3, height=13)
    mean = averages.encode(x=alt.X("mean:Q"), y=alt.YValue(_HEIGHT - 7), color=colour)
    return alt.layer(filled, stepped, mean, *marker_layers(markers)).properties(width=_WIDTH, height=_HEIGHT)
