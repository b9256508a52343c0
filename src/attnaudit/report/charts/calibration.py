"""Charts of the calibration: measures by constructions."""

from __future__ import annotations

import polars as pl

from attnaudit.report.charts.marks import cell_chart
from attnaudit.report.charts.svg import Drawing

TRUTHS = ("faithful", "unfaithful", "between", "none")


def matrix_chart(rows: pl.DataFrame, measures: list[str]) -> Drawing:
    """Draw a cell for each of ``rows`` {measure, construction, truth, rank}, by truth."""
    truth, measure = pl.col("truth").cast(pl.Enum(TRUTHS)), pl.col("measure")
    ordered = rows.sort(truth, measure.cast(pl.Enum(measures)), maintain_order=True)
    label = pl.format("{} ({})", "construction", "truth")
    return cell_chart(ordered.select(x=label, y="measure", value="rank"), (0, 0.5, 1))
