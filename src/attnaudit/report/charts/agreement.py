"""Numbers of a reproduction against the published ones."""

from __future__ import annotations

import polars as pl

from attnaudit.report.charts.marks import Scale, point_chart
from attnaudit.report.charts.svg import Drawing

MEANS = ("mean", "share", "median")


def agreement_chart(numbers: pl.DataFrame) -> Drawing:
    """Draw numbers of ours, with intervals, against published ones; on the line both are the same.

    Args:
        numbers: Table of `papers.comparison.compare`; numbers of ours that are missing, or that go
            beyond [−1, 1], are left out.
    """
    chosen = pl.col("statistic").is_in(MEANS), pl.col("ours").is_between(-1, 1)
    points = numbers.filter(*chosen).select(
        pl.concat_str("corpus", "model", "measure", pl.col("group"), separator=", ").alias(
            "number"
        ),
        *("low", "high"),
        group=pl.lit("ours"),
        x=pl.mean_horizontal("paper", "rerun"),
        y="ours",
    )
    low = -1 if points.filter(pl.min_horizontal("x", "y") < 0).height else 0
    published, ours = (Scale(title, 1, low) for title in ("published", "ours"))
    return point_chart(points, published, ours, diagonal=True)
