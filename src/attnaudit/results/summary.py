"""Summaries: rows of one schema, and means with bootstrap intervals over instances."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from attnaudit.stats.bootstrap import bootstrap_clusters, bootstrap_means

CLUSTER = "of instance"
TOGETHER = 16  # measures whose intervals are drawn at a time: as many numbers of every row are in memory
SUMMARY_SCHEMA = {
    "experiment": pl.String, "measure": pl.String, "group": pl.String, "value": pl.Float64, "std": pl.Float64, "low": pl.Float64,
    "high": pl.Float64, "n": pl.Int64, "undefined": pl.Int64, "reference": pl.Float64, "source": pl.String,
}  # fmt: skip


def summary_row(
    experiment: str, measure: str, value: float | None, low: float | None = None, high: float | None = None, *, n: int,
    undefined: int = 0, std: float | None = None, group: str = "all", source: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """One row of a summary: ``value`` with its interval and spread over ``n`` instances; a number that is NaN is null in the row."""
    numbers = {"value": value, "std": std, "low": low, "high": high}
    known = {name: None if number is None or np.isnan(number) else float(number) for name, number in numbers.items()}
    return {
        "experiment": experiment, "measure": measure, "group": group, **known, "n": n, "undefined": undefined, "reference": None,
        "source": source,
    }  # fmt: skip


def summarise_means(experiment: str, groups: Iterable[tuple[str, pl.LazyFrame]], seed: int) -> pl.DataFrame:
    """Mean, spread and bootstrap interval of every column of every group's frame, `TOGETHER` columns of one group in memory at a time.

    Null and NaN are undefined: excluded from the mean and counted. A boolean column gives a share. ``low`` and ``high`` are the
    95 % percentile interval over instances; where these have several rows each, a column `CLUSTER` names the instance of each row, and all
    rows of an instance are drawn together. A measure that is defined nowhere has null figures.
    """
    rows: list[dict[str, Any]] = []
    for group, frame in groups:
        columns = frame.collect_schema().names()
        several, measures = [name for name in columns if name == CLUSTER], [name for name in columns if name != CLUSTER]
        for names in (measures[start : start + TOGETHER] for start in range(0, len(measures), TOGETHER)):
            read = frame.select(pl.col(names).cast(pl.Float64).fill_null(float("nan")), pl.col(several)).collect()
            values = read.select(names).to_numpy()
            low, high = bootstrap_clusters(values, read[CLUSTER].to_numpy(), seed=seed) if several else bootstrap_means(values, seed=seed)
            rows += [_of_column(experiment, name, group, values[:, k], low[k], high[k]) for k, name in enumerate(names)]
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def _of_column(experiment: str, measure: str, group: str, column: np.ndarray, low: float, high: float) -> dict[str, Any]:
    """The row of one measure's values, NaN where undefined."""
    defined = column[~np.isnan(column)]
    n, undefined = len(defined), len(column) - len(defined)
    if n == 0:
        return summary_row(experiment, measure, None, n=n, undefined=undefined, group=group)
    return summary_row(experiment, measure, defined.mean(), low, high, n=n, undefined=undefined, std=defined.std(), group=group)
