"""Charts of the copying study: curves of every seed, first steps, attention as a matrix."""

from __future__ import annotations

import altair as alt
import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.report.charts.palette import Palette, legend_of
from attnaudit.report.charts.svg import Drawing

DARKEST = 0.3  # weight from which a cell of a matrix has the deepest colour
# Each kind of mark has one colour, whichever outcomes there are.
_OUTCOMES = {
    "succeeded": (Palette.COLOURS[0], Palette.DASHES[0]),
    "failed": (Palette.COLOURS[5], Palette.DASHES[5]),
}
_FIRST = {"relevance": Palette.COLOURS[2], "attention": Palette.COLOURS[3]}


def seeds_chart(curves: pl.DataFrame) -> Drawing:
    """Draw a line for each seed of ``curves`` {seed, step, value, outcome}."""
    present = {name: look for name, look in _OUTCOMES.items() if name in curves["outcome"]}
    colours, dashes = zip(*present.values(), strict=True)
    palette = Palette(tuple(present), colours, dashes)
    legend = legend_of(symbolStrokeWidth=2, symbolSize=220)
    axis = alt.Axis(tickCount=5, grid=False)
    x = alt.X("step:Q", title="step", scale=alt.Scale(nice=False), axis=axis)
    ends, axis = alt.Scale(domain=[0, 1], nice=False), alt.Axis(tickCount=6)
    y = alt.Y("value:Q", title="share of positions", scale=ends, axis=axis)
    lines = alt.Chart(curves.rename({"outcome": "group"})).mark_line(strokeWidth=1.3, opacity=0.75)
    return lines.encode(
        x=x, y=y, color=palette.colour(legend), strokeDash=palette.dash(legend), detail="seed:N"
    ).properties(width=185, height=170)


def order_chart(steps: pl.DataFrame) -> Drawing:
    """Draw both steps of each seed of ``steps``, joined.

    Args:
        steps: {seed, relevance_step, attention_step, outcome}, when each was first above a half.
    """
    y = alt.Y("seed:O", title="seed", axis=alt.Axis(ticks=False, domain=False), sort=None)
    points = steps.rename({f"{name}_step": name for name in _FIRST}).unpivot(
        list(_FIRST), index="seed", variable_name="group", value_name="step"
    )
    title, axis = "first step, right more often than not", alt.Axis(tickCount=6)
    palette, legend = Palette(tuple(_FIRST), tuple(_FIRST.values())), legend_of(symbolSize=220)
    shapes = alt.Scale(domain=list(_FIRST), range=["circle", "diamond"])
    joined = alt.Chart(steps.drop_nulls(["relevance_step", "attention_step"])).mark_rule(
        strokeWidth=1.6, opacity=0.5, color="currentColor"
    )
    marks = alt.Chart(points.drop_nulls("step")).mark_point(filled=True, size=62, opacity=0.95)
    layers = [
        joined.encode(x=alt.X("relevance_step:Q", title=title), x2="attention_step", y=y),
        marks.encode(
            x=alt.X("step:Q", title=title, scale=alt.Scale(zero=True), axis=axis),
            y=y,
            color=palette.colour(legend),
            shape=alt.Shape("group:N", scale=shapes, legend=legend),
        ),
    ]
    return alt.layer(*layers).properties(width=270, height=max(15 * steps.height, 60))


def matrix_chart(alpha: Float[np.ndarray, "T S"]) -> Drawing:
    """Draw a cell for each weight, darker the larger."""
    targets, sources = (index.ravel() + 1 for index in np.indices(alpha.shape))
    cells = pl.DataFrame({"target": targets, "source": sources, "weight": alpha.ravel()})

    def places(size: int) -> tuple[alt.Scale, alt.Axis]:
        every = list(range(1, size + 1))
        ticks = every if size <= 10 else [1, *every[9::10]]
        scale = alt.Scale(domain=every, paddingInner=0, paddingOuter=0)
        return scale, alt.Axis(values=ticks, labelAngle=0, grid=False)

    (rows, left), (columns, below) = map(places, alpha.shape)
    shade = alt.Scale(domain=[0, DARKEST], range=[0, 1], clamp=True)
    return (
        alt.Chart(cells.filter(pl.col("weight") > 0.002))
        .mark_rect(color=Palette.COLOURS[0])
        .encode(
            x=alt.X("source:O", title="position in the source", scale=columns, axis=below),
            y=alt.Y("target:O", title="position written", scale=rows, axis=left),
            opacity=alt.Opacity("weight:Q", scale=shade, legend=None),
        )
        .properties(width=280, height=280)
    )
