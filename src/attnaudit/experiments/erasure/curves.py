"""Share of predictions that a ranking flips, by the fraction of tokens removed, and its area.

A prediction that never flips is censored, not excluded: it counts as not flipped up to 1, or up to
the fraction at which no weight is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Float

from attnaudit.experiments.erasure.removal import RANKINGS
from attnaudit.results.groups import pieces_of, text_number
from attnaudit.stats.survival import EventSteps, event_curve

MINIMUM, RANDOM = "minimum", "random"
LISTS = ("observed_by_order", "flipped_by_order")
# Columns with the time of the first flip of each ranking, and with whether it flips. The smallest
# set is null both if it is unknown and if none flips, so ``minimum_proven`` tells which.
READ = {name: (f"observed_{name}", f"removed_{name}") for name in RANKINGS if name != RANDOM} | {
    RANDOM: LISTS,
    MINIMUM: ("removed_minimum", "minimum_proven"),
}
COLUMNS = tuple(dict.fromkeys(name for pair in READ.values() for name in pair))
CURVE = {"name": pl.String, **dict.fromkeys(("x", "value", "low", "high"), pl.Float64)}
# Intervals between the fractions at which a curve is drawn.
STEPS = 50


class Walks(NamedTuple):
    """Removals of every row in k orders.

    Attributes:
        time: Fraction of the tokens removed at the first flip or, without one, at the end.
        flips: Whether the decision flips.
    """

    time: Float[np.ndarray, "n k"]
    flips: Bool[np.ndarray, "n k"]

    @property
    def known(self) -> Bool[np.ndarray, " n"]:
        """Mask of the rows whose removals are known."""
        return ~np.isnan(self.time.sum(axis=1))


def walks(rows: pl.DataFrame, ranking: str) -> Walks:
    """Read when the removals of a ranking flip each row.

    Args:
        rows: The columns `COLUMNS` of the table.
        ranking: Name of the ranking. All random orders are read, one order of any other.

    Returns:
        The removals; unknown times are NaN.
    """
    first, second = (rows[name] for name in READ[ranking])
    if ranking == RANDOM:
        time, flips = _numbers(first.explode()), second.explode().to_numpy().astype(bool)
        shape = len(first), max(len(time) // max(len(first), 1), 1)
        return Walks(time.reshape(shape), flips.reshape(shape))
    if ranking == MINIMUM:
        time = np.where(second.is_null(), np.nan, _numbers(first.fill_null(1.0)))
        return Walks(time[:, None], first.is_not_null().to_numpy()[:, None])
    return Walks(_numbers(first)[:, None], second.is_not_null().to_numpy()[:, None])


def area(table: pl.LazyFrame, ranking: str) -> pl.Expr:
    """Return each row's contribution to the area under the curve of a ranking over all rows.

    Random orders are averaged. A row whose removals are unknown is null.
    """
    # Times are fractions of few tokens, so even many rows have only a few thousand distinct ones.
    # Counting them keeps large tables out of memory.
    events = pl.DataFrame(schema={"time": pl.Float64, "event": pl.Boolean, "count": pl.Float64})
    for piece in pieces_of(table.select(READ[ranking])):
        walked = walks(piece, ranking)
        time, flips = walked.time[walked.known].ravel(), walked.flips[walked.known].ravel()
        more = pl.DataFrame({"time": time, "event": flips}).with_columns(count=1.0)
        events = pl.concat([events, more]).group_by("time", "event").agg(pl.col("count").sum())
    distinct = events.sort("time", "event").get_columns()
    steps = EventSteps.of_rows(*(column.to_numpy() for column in distinct))

    def contributions(walked: Walks) -> Float[np.ndarray, " n"]:
        each = np.full(walked.time.shape, np.nan)
        time, flips = walked.time[walked.known], walked.flips[walked.known]
        each[walked.known] = steps.area_contributions(time.ravel(), flips.ravel()).reshape(
            time.shape
        )
        return each.mean(axis=1)

    return _of_walks(ranking, contributions, pl.Float64).alias(f"area_{ranking}")


def never(ranking: str) -> pl.Expr:
    """Return whether no removal of a ranking flips a row; for random orders the share of orders.

    A row whose removals are unknown is null.
    """

    def shares(walked: Walks) -> Float[np.ndarray, " n"]:
        return np.where(walked.known, (~walked.flips).mean(axis=1), np.nan)

    kind = pl.Float64 if ranking == RANDOM else pl.Boolean
    return _of_walks(ranking, shares, kind).alias(f"never_{ranking}")


def _of_walks(
    ranking: str, values: Callable[[Walks], Float[np.ndarray, " n"]], dtype: Any
) -> pl.Expr:
    def measure(read: pl.Series) -> pl.Series:
        measured = values(walks(read.struct.unnest(), ranking))
        return pl.Series(measured, nan_to_null=True).cast(dtype)

    rows = pl.struct(READ[ranking])
    return rows.map_batches(measure, return_dtype=dtype, is_elementwise=True)


def flip_curves(rows: pl.DataFrame, names: dict[str, str]) -> pl.DataFrame:
    """Compute the curve of each ranking that is known, with its 95 % band over texts.

    Args:
        rows: Table of the experiment.
        names: Names of the curves, by ranking.

    Returns:
        The columns of `CURVE`.
    """
    text = rows.select(text_number(rows.columns)).to_series().to_numpy()
    until, frames = np.arange(STEPS + 1) / STEPS, [pl.DataFrame(schema=CURVE)]
    for ranking, name in names.items():
        walked = walks(rows, ranking)
        time, flips = walked.time[walked.known], walked.flips[walked.known]
        if len(time):
            texts = np.unique(text[walked.known], return_inverse=True)[1]
            cluster = np.repeat(texts, time.shape[1])
            curve = event_curve(time.ravel(), flips.ravel(), cluster, until)
            columns = zip(CURVE, ([name] * len(until), until, *curve), strict=True)
            frames.append(pl.DataFrame(dict(columns), schema=CURVE))
    return pl.concat(frames)


def _numbers(values: pl.Series) -> np.ndarray:
    return values.cast(pl.Float64).fill_null(float("nan")).to_numpy()
