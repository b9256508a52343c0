"""Does the decision hang on the weights that are largest? (Serrano & Smith 2019)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.papers import SERRANO2019, Paper
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.erasure.rankings import RANKINGS
from attnaudit.experiments.erasure.rows import ANY_OTHER, AS_RELEASED, Erased, erase
from attnaudit.experiments.rows import by_group, keys, list_column, no_single_decision, row_streams
from attnaudit.results import summarise_means
from attnaudit.trace import Trace
from attnaudit.trace.readout import TanhTail

OTHERS = {"any": ANY_OTHER, "code": AS_RELEASED}
MINIMUM = "minimum"
ROUNDING = 1e-15  # of a divergence: a difference below it has no sign
MOST_ORDERS = 10_000


@dataclass(frozen=True)
class Erasure:
    """Attention weights set to 0, the rest rescaled, the output read out again: what does it take to flip the decision?

    One weight: ``delta_js`` is how much more the output moves (JSD) without the largest weight than without that of an ``other`` position,
    drawn at random, ``delta_alpha`` the difference of the two weights, ``flip_max`` and ``flip_random`` whether the decision flips.
    ``other`` "any" draws from all but the largest; "code", as the released code, from all but the first, the largest itself included.

    Many weights: ``removed_<ranking>`` is the share of T that is gone when the decision first flips, in the order of the ranking:
    ``random`` (the mean of those of ``orders`` orders that flip), ``attention``, ``gradient`` (∂p_max/∂alpha), ``gradient_attention`` (the
    product); ``mass_<ranking>`` the share of the attention; null where it never flips. ``removed_minimum`` is the smallest set of all that
    flips, its positions in ``minimum``, with an identity tail exactly; ``minimum_proven`` says whether none is smaller, or none there is.
    ``times_minimum_<ranking>`` is how many times as many a ranking removes. ``kept_<ranking>`` is the share of T in the shortest beginning
    of the ranking that, kept alone, leaves the output within TVD ``epsilon``.

    A row of one position, and what a removal leaves without any weight, is null.
    """

    name: ClassVar[str] = "erasure"
    needs: ClassVar[tuple[str, ...]] = ()
    paper: ClassVar[Paper] = SERRANO2019
    seed: int = 0
    orders: int = 5
    other: str = "any"
    epsilon: float = 0.01

    def __post_init__(self) -> None:
        if not 1 <= self.orders <= MOST_ORDERS:
            raise InputError("audit", "setting erasure.orders", str(self.orders), f"1 to {MOST_ORDERS:,} random orders")
        if self.other not in OTHERS:
            raise InputError(
                "audit", "setting erasure.other", repr(self.other), f"one of {', '.join(OTHERS)}", did_you_mean(self.other, OTHERS)
            )
        if not 0 <= self.epsilon <= 1:
            raise InputError("audit", "setting erasure.epsilon", str(self.epsilon), "a distance from 0 to 1")

    def refuses(self, trace: Trace) -> str | None:
        return no_single_decision(trace)

    def __call__(self, trace: Trace) -> pl.DataFrame:
        streams, alpha = row_streams(trace, self.seed, self.name), trace.alpha
        erased = erase(trace.readout, alpha, streams, OTHERS[self.other], self.orders, self.epsilon)
        columns = _single(erased.single) | _many(erased, alpha.lengths)
        proven = alpha.lengths < 2 if isinstance(trace.readout.tail, TanhTail) else np.ones(len(alpha), bool)
        proven = proven | (erased.removed[:, -1] == 1)
        whole = [pl.Series(name, values, nan_to_null=True) for name, values in columns.items()]
        return keys(trace).with_columns(
            *(series.cast(pl.Boolean) if series.name.startswith("flip_") else series for series in whole),
            pl.Series(
                "minimum_proven", [None if length < 2 else bool(yes) for length, yes in zip(alpha.lengths, proven, strict=True)], pl.Boolean
            ),
            list_column(MINIMUM, _positions(erased.smallest)),
        )

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        return summarise_means(self.name, by_group(table, _measures), self.seed)


def _single(single: np.ndarray) -> dict[str, np.ndarray]:
    delta_js = single[:, 0] - single[:, 1]
    delta_js[np.abs(delta_js) < ROUNDING] = 0.0
    known = ~np.isnan(delta_js)
    flips = {name: np.where(known, single[:, 3 + k], np.nan) for k, name in enumerate(("flip_max", "flip_random"))}
    return {"delta_js": delta_js, "delta_alpha": np.where(known, single[:, 2], np.nan), **flips}


def _many(erased: Erased, lengths: np.ndarray) -> dict[str, np.ndarray]:
    names = (*RANKINGS, MINIMUM)
    columns = {f"removed_{name}": erased.removed[:, k] / lengths for k, name in enumerate(names)}
    columns |= {f"mass_{name}": erased.mass[:, k] for k, name in enumerate(names)}
    columns |= {f"times_minimum_{name}": erased.removed[:, k] / erased.removed[:, -1] for k, name in enumerate(RANKINGS)}
    return columns | {f"kept_{name}": erased.kept[:, k] / lengths for k, name in enumerate(RANKINGS)}


def _positions(chosen: Ragged) -> Ragged:
    """The marked positions of every row, counted from 0."""
    within = np.arange(len(chosen.values)) - chosen.spread(chosen.offsets[:-1])
    counts = chosen.with_values(chosen.values.astype(np.int64)).sum()
    return Ragged.from_lengths(within[chosen.values].astype(np.int32), counts)


def _measures(table: pl.LazyFrame) -> pl.LazyFrame:
    """What the table has, the shares of the flip table, of negative differences, and of rows that a ranking never flips."""
    largest, other, erased = pl.col("flip_max"), pl.col("flip_random"), pl.col("kept_random").is_not_null()
    return table.select(
        "delta_js", "delta_alpha", (pl.col("delta_js") < 0).alias("negative_delta_js"), "flip_max", "flip_random",
        (largest & other).alias("flip_both"), (largest & ~other).alias("flip_only_max"), (~largest & other).alias("flip_only_random"),
        (~largest & ~other).alias("flip_neither"), cs.starts_with("removed_", "mass_", "times_minimum_", "kept_"), "minimum_proven",
        *(pl.when(erased).then(pl.col(f"removed_{name}").is_null()).alias(f"never_{name}") for name in (*RANKINGS, MINIMUM)),
    )  # fmt: skip
