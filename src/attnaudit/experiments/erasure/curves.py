"""The share of predictions that a ranking flips by every fraction of the tokens removed, from an erasure table, and the area below.

What never flips is censored, not excluded: it stays in the curve as not flipped, at 1, or at the fraction at which no weight is left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Float

from attnaudit.experiments.erasure.removal import RANKINGS
from attnaudit.results.groups import Together, text_of
from attnaudit.stats.survival import area_contributions, event_curve

MINIMUM, RANDOM = "minimum", "random"
LISTS = ("observed_by_order", "flipped_by_order")
READ = {name: (f"observed_{name}", f"removed_{name}") for name in RANKINGS if name != RANDOM} | {
    RANDOM: LISTS,
    MINIMUM: ("removed_minimum", "kept_random"),
}
"""The columns that say when each ranking flips."""
COLUMNS = tuple(dict.fromkeys(name for pair in READ.values() for name in pair))
CURVE = {
    "name": pl.String,
    "x": pl.Float64,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}
_GRID = 1 << 12
STEPS = 50  # fractions at which a curve is drawn


class Walks(NamedTuple):
    """For every row and order of removal the fraction removed at the first flip, or where there is none when last seen; ``(n, k)`` each."""

    time: Float[np.ndarray, "n k"]
    flips: Bool[np.ndarray, "n k"]

    @property
    def known(self) -> Bool[np.ndarray, " n"]:
        return ~np.isnan(self.time.sum(axis=1))


def is_recorded(columns: Collection[str]) -> bool:
    """Whether a table says how long each ranking was observed; those of earlier versions do not."""
    return set(COLUMNS) <= set(columns)


def walks(rows: pl.DataFrame, ranking: str) -> Walks:
    """When the removals of a ranking flip the rows; the one order of a ranking, or all random orders. NaN is unknown."""
    first, second = (rows[name] for name in READ[ranking])
    if ranking == RANDOM:
        time, flips = _numbers(first.explode()), second.explode().to_numpy().astype(bool)
        shape = len(first), max(len(time) // max(len(first), 1), 1)
        return Walks(time.reshape(shape), flips.reshape(shape))
    if ranking == MINIMUM:
        time = np.where(second.is_null(), np.nan, _numbers(first.fill_null(1.0)))
        return Walks(time[:, None], first.is_not_null().to_numpy()[:, None])
    return Walks(_numbers(first)[:, None], second.is_not_null().to_numpy()[:, None])


def area(ranking: str) -> pl.Expr:
    """What every row contributes to the area under the curve of a ranking, random orders averaged; null where it is unknown."""

    def of(read: pl.Series) -> pl.Series:
        found = walks(read.struct.unnest(), ranking)
        out, known = np.full(len(read), np.nan), found.known
        time, flips = found.time[known], found.flips[known]
        out[known] = (
            area_contributions(time.ravel(), flips.ravel()).reshape(time.shape).mean(axis=1)
        )
        return pl.Series(out, nan_to_null=True)

    return (
        pl.struct(READ[ranking]).map_batches(of, return_dtype=pl.Float64).alias(f"area_{ranking}")
    )


def area_together(ranking: str) -> Together:
    """`area` of a large table, whose times are counted in steps of 1 / `_GRID`."""

    def numbers(rows: pl.DataFrame) -> Float[np.ndarray, "n k"]:
        found = walks(rows, ranking)
        return np.where(found.flips, found.time, -1.0 - found.time)

    def of(
        numbers: Float[np.ndarray, " c"], times: Float[np.ndarray, " c"]
    ) -> Float[np.ndarray, " c"]:
        flips = numbers >= 0.0
        time = np.round(
            np.where(flips, numbers, -1.0 - numbers), 12
        )  # a flip and a loss at the same time must be that to the last bit
        return area_contributions(time, flips, times)

    return Together(
        f"area_{ranking}",
        numbers,
        lambda numbers: np.rint((numbers + 2.0) * _GRID),
        3 * _GRID + 1,
        of,
    )


def never(ranking: str) -> pl.Expr:
    """Whether no removal of a ranking flips a row; of random orders the share of orders. Null where it is unknown."""
    return _of_walks(ranking, lambda found: ~found.flips).alias(f"never_{ranking}")


def exhausted(ranking: str) -> pl.Expr:
    """Whether a row does not flip until no weight is left, before all tokens are removed; of random orders the share of orders."""
    return _of_walks(ranking, lambda found: ~found.flips & (found.time < 1.0)).alias(
        f"exhausted_{ranking}"
    )


def _of_walks(ranking: str, says: Callable[[Walks], Bool[np.ndarray, "n k"]]) -> pl.Expr:
    def of(read: pl.Series) -> pl.Series:
        found = walks(read.struct.unnest(), ranking)
        share = pl.Series(np.where(found.known, says(found).mean(axis=1), np.nan), nan_to_null=True)
        return share if ranking == RANDOM else share.cast(pl.Boolean)

    return pl.struct(READ[ranking]).map_batches(
        of, return_dtype=pl.Float64 if ranking == RANDOM else pl.Boolean
    )


def flip_curves(rows: pl.DataFrame, names: dict[str, str]) -> pl.DataFrame:
    """A curve for each ranking of ``names`` that is known, with its 95 % band over the texts: {name, x, value, low, high}."""
    text = rows.select(text_of(rows.columns)).to_series().to_numpy()
    until, frames = np.arange(STEPS + 1) / STEPS, [pl.DataFrame(schema=CURVE)]
    for ranking, name in names.items():
        found = walks(rows, ranking)
        time, flips = found.time[found.known], found.flips[found.known]
        if len(time):
            of = np.repeat(np.unique(text[found.known], return_inverse=True)[1], time.shape[1])
            curve = event_curve(time.ravel(), flips.ravel(), of, until)
            frames.append(
                pl.DataFrame(
                    dict(zip(CURVE, ([name] * len(until), until, *curve), strict=True)),
                    schema=CURVE,
                )
            )
    return pl.concat(frames)


def _numbers(values: pl.Series) -> np.ndarray:
    return values.cast(pl.Float64).fill_null(float("nan")).to_numpy()
