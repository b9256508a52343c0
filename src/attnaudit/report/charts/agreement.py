"""Numbers of a reproduction against the published ones."""

from __future__ import annotations

import altair as alt
import polars as pl

from attnaudit.report.charts.palette import Palette
from attnaudit.report.charts.svg import Drawing

_SIZE = 420
_SHOWN = ("corpus", "model", "measure", "group", "published", "ours", "low", "high")
MEANS = ("mean", "share", "median")


def agreement_chart(numbers: pl.DataFrame) -> Drawing:
    """Draw numbers of ours, with intervals, against published ones; on the line both are the same.

    Args:
        numbers: Table of `papers.comparison.compare`; numbers of ours that are missing, or that go
            beyond [−1, 1], are left out.
    """
    published = pl.mean_horizontal("paper", "rerun")
    chosen = pl.col("statistic").is_in(MEANS), pl.col("ours").is_between(-1, 1)
    points = numbers.with_columns(published=published).filter(*chosen).select(_SHOWN)
    low = -1 if points.filter(pl.min_horizontal("published", "ours") < 0).height else 0
    scale, hue = alt.Scale(domain=[low, 1]), Palette.COLOURS[0]
    x = alt.X("published:Q", scale=scale, title="published", axis=alt.Axis(labelFlush=False))
    y = alt.Y("ours:Q", scale=scale, title="ours")
    same = alt.Chart(pl.DataFrame({"published": [low, 1], "ours": [low, 1]}))
    chart = alt.Chart(points)
    layers = [
        same.mark_line(color="currentColor", opacity=0.4, strokeWidth=1).encode(x=x, y=y),
        chart.mark_rule(color=hue, opacity=0.25, clip=True).encode(
            x=x, y=alt.Y("low:Q", scale=scale, title="ours"), y2="high"
        ),
        chart.mark_point(filled=True, color=hue, size=16, opacity=0.7).encode(x=x, y=y),
    ]
    return alt.layer(*layers).properties(width=_SIZE, height=_SIZE)
