"""Summaries: means, shares and ratios over groups of rows, with 95 % intervals over texts."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core.tolerance import TOLERANCE
from attnaudit.results.groups import ALL, Group, numbers_of, pieces_of
from attnaudit.results.measures import Measure, ranges_of
from attnaudit.stats.bootstrap import Units, ratio_intervals
from attnaudit.stats.sums import UnitSums

SUMMARY_SCHEMA = {
    **dict.fromkeys(("experiment", "measure", "group"), pl.String),
    **dict.fromkeys(("value", "std", "low", "high"), pl.Float64),
    **dict.fromkeys(("n", "undefined"), pl.Int64),
    "reference": pl.Float64,
    "source": pl.String,
    "texts": pl.Int64,
}


def summary_row(
    experiment: str,
    measure: str,
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    *,
    n: int,
    group: str = ALL,
    **details: Any,
) -> dict[str, Any]:
    """Make one row of a summary.

    Args:
        experiment: Name of the experiment.
        measure: Name of the measure.
        value: Mean, or share, over ``n`` rows.
        low: Lower end of its 95 % interval.
        high: Upper end.
        n: Number of rows in which the measure is defined.
        group: Name of the group of rows.
        **details: Further columns of `SUMMARY_SCHEMA`: ``undefined``, the number of rows without a
            value; ``std`` over the rows; ``source``, the origin of a number that does not come from
            the rows; ``texts``, the number of texts if one may have several rows.
    """
    # NaN becomes null, because JSON, in which summaries are saved, has no NaN.
    numbers = {"value": value, "std": details.pop("std", None), "low": low, "high": high}
    known = {
        name: None if number is None or np.isnan(number) else float(number)
        for name, number in numbers.items()
    }
    names = {"experiment": experiment, "measure": measure, "group": group}
    return dict.fromkeys(SUMMARY_SCHEMA) | names | known | {"n": n, "undefined": 0} | details


def summarise_means(
    experiment: str, groups: Iterable[Group], seed: int, measures: Sequence[Measure] = ()
) -> pl.DataFrame:
    """Summarise every column of every group by its mean, standard deviation and 95 % interval.

    Null and NaN are undefined: they are excluded and counted. A boolean column gives a share.

    Args:
        experiment: Name of the experiment.
        groups: Measures of groups of rows (`by_group`). Rows of one text are resampled together.
        seed: Seed of the bootstrap.
        measures: Measures with their ranges; all other ranges are unknown.

    Returns:
        One row per measure and group. Means have intervals over texts by `ratio_intervals`, shares
        have Wilson's. A measure that is undefined in all rows has null figures.
    """
    rows = []
    for group in groups:
        schema = group.measures.collect_schema()
        names = schema.names()
        sums = _summed(group, group.measures)
        texts = np.array([sums.texts(k) for k in range(len(names))], np.int64)
        ranges = ranges_of(measures, names)
        ends = np.array(ratio_intervals(sums.total, sums.count, seed, ranges, texts))
        for k, name in enumerate(names):
            if schema[name] == pl.Boolean:
                ends[:, k] = sums.share_interval(k)
            figures = (sums.mean(k), *ends[:, k]) if sums.n(k) else (None,)
            counts = _counts(group, sums, k) | {"std": sums.std(k) if sums.n(k) else None}
            rows.append(summary_row(experiment, name, *figures, group=group.name, **counts))
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def summarise_ratio(
    experiment: str, measure: str, groups: Iterable[Group], seed: int
) -> pl.DataFrame:
    """Summarise the ratio of two means.

    Args:
        experiment: Name of the experiment.
        measure: Name of the ratio.
        groups: Groups of rows with the columns ``top`` and ``bottom``.
        seed: Seed of the bootstrap.

    Returns:
        One row per group, over the rows that have both columns. The figures are null if the mean
        of ``bottom`` is 0.
    """
    rows, top, bottom = [], pl.col("top"), pl.col("bottom")
    for group in groups:
        # Adding 0 times the other makes both undefined if one is, so both sums are over the same
        # rows.
        sums = _summed(group, group.measures.select(top + 0.0 * bottom, bottom + 0.0 * top))
        numerator, denominator = sums.total.sum(axis=1).tolist()
        figures: tuple[float | None, ...] = (None,)
        # A mean of 0 differs from it by rounding, and a ratio by it would be noise.
        if abs(denominator) > TOLERANCE.rounding * sums.n(0):
            (start,), (end,) = ratio_intervals(sums.total[:1], sums.total[1:], seed)
            figures = numerator / denominator, start, end
        counts = _counts(group, sums, 0)
        rows.append(summary_row(experiment, measure, *figures, group=group.name, **counts))
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def _summed(group: Group, measures: pl.LazyFrame) -> UnitSums:
    """Sum columns over the resampling units of a group."""
    text = group.text
    if text is None:
        text = measures.select(pl.int_range(pl.len()))
    units = Units.of_texts(text.collect().to_series().to_numpy())
    sums = UnitSums(units, len(measures.collect_schema()))
    for piece in pieces_of(measures):
        sums.add(numbers_of(piece))
    return sums


def _counts(group: Group, sums: UnitSums, k: int) -> dict[str, Any]:
    texts = sums.texts(k) if group.several else None
    return {"n": sums.n(k), "undefined": sums.rows - sums.n(k), "texts": texts}
