"""Charts of the copying study: curves of every seed, first steps, attention as a matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.report.charts.palette import Palette
from attnaudit.report.charts.svg import Drawing

HUES: Mapping[str, int] = {
    "succeeded": 0,
    "failed": 5,
}  # of `Palette.COLOURS` and its dashes, whichever outcomes there are
_FIRST = {"relevance": 2, "attention": 3}


def seeds_chart(curves: pl.DataFrame) -> Drawing:
    """Draw a line for each seed of ``curves`` {seed, step, value, outcome}."""
    present = [name for name in HUES if name in curves["outcome"]]
    x = alt.X(
        "step:Q", title="step", scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=5, grid=False)
    )
    y = alt.Y(
        "value:Q",
        title="share of positions",
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    colour = alt.Color("outcome:N", scale=_scale(present, Palette.COLOURS), legend=_legend())
    dash = alt.StrokeDash(
        "outcome:N",
        scale=_scale(present, [list(dash) for dash in Palette.DASHES]),
        legend=_legend(),
    )
    lines = alt.Chart(curves).mark_line(strokeWidth=1.3, opacity=0.75)
    return lines.encode(x=x, y=y, color=colour, strokeDash=dash, detail="seed:N").properties(
        width=185, height=170
    )


def _scale(present: Sequence[str], values: Sequence[Any]) -> alt.Scale:
    return alt.Scale(domain=list(present), range=[values[HUES[name]] for name in present])


def _legend() -> alt.Legend:
    return alt.Legend(
        title=None,
        orient="bottom",
        labelColor="currentColor",
        labelFontSize=12,
        symbolStrokeWidth=2,
        symbolSize=220,
        symbolOpacity=1,
    )


def order_chart(steps: pl.DataFrame) -> Drawing:
    """Draw both steps of each seed of ``steps``, joined.

    Args:
        steps: {seed, relevance_step, attention_step, outcome}, when each was first above a half.
    """
    y = alt.Y(
        "row:O",
        title="seed",
        axis=alt.Axis(ticks=False, domain=False, labelExpr="split(datum.label, ' ')[1]"),
        sort=None,
    )
    named = steps.with_columns((pl.lit("s ") + pl.col("seed").cast(pl.String)).alias("row"))
    points = named.unpivot(
        ["relevance_step", "attention_step"], index=["row"], variable_name="what", value_name="step"
    ).drop_nulls("step")
    points = points.with_columns(pl.col("what").str.replace("_step", ""))
    title = "first step, right more often than not"
    x = alt.X("step:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=6))
    hues = alt.Scale(domain=list(_FIRST), range=[Palette.COLOURS[k] for k in _FIRST.values()])
    shapes = alt.Scale(domain=list(_FIRST), range=["circle", "diamond"])
    joined = alt.Chart(named.drop_nulls(["relevance_step", "attention_step"])).mark_rule(
        strokeWidth=1.6, opacity=0.5, color="currentColor"
    )
    marks = alt.Chart(points).mark_point(filled=True, size=62, opacity=0.95)
    colour, shape = (
        alt.Color("what:N", scale=hues, legend=_legend()),
        alt.Shape("what:N", scale=shapes, legend=_legend()),
    )
    layers = [
        joined.encode(x=alt.X("relevance_step:Q", title=title), x2=alt.X2("attention_step"), y=y),
        marks.encode(x=x, y=y, color=colour, shape=shape),
    ]
    return alt.layer(*layers).properties(width=270, height=max(15 * named.height, 60))


def matrix_chart(alpha: Float[np.ndarray, "T S"], full: float) -> Drawing:
    """Draw a cell for each weight, darker the larger, with the deepest colour from ``full`` on."""
    targets, sources = (index.ravel() + 1 for index in np.indices(alpha.shape))
    cells = pl.DataFrame(
        {"target": targets, "source": sources, "weight": alpha.ravel().astype(np.float64)}
    ).filter(pl.col("weight") > 0.002)
    ticks = (
        [1, *range(10, alpha.shape[1] + 1, 10)]
        if alpha.shape[1] > 10
        else list(range(1, alpha.shape[1] + 1))
    )
    axis = alt.Axis(values=ticks, labelAngle=0, grid=False)
    places = [list(range(1, size + 1)) for size in alpha.shape]
    x = alt.X(
        "source:O",
        title="position in the source",
        axis=axis,
        scale=alt.Scale(domain=places[1], paddingInner=0, paddingOuter=0),
    )
    y = alt.Y(
        "target:O",
        title="position written",
        axis=axis,
        scale=alt.Scale(domain=places[0], paddingInner=0, paddingOuter=0),
    )
    shade = alt.Opacity(
        "weight:Q", scale=alt.Scale(domain=[0, full], range=[0, 1], clamp=True), legend=None
    )
    return (
        alt.Chart(cells)
        .mark_rect(color=Palette.COLOURS[0])
        .encode(x=x, y=y, opacity=shade)
        .properties(width=280, height=280)
    )
