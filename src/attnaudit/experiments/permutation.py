"""Does the output change when the attention weights are shuffled? (Jain & Wallace 2019, Algorithm 2)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
from jaxtyping import Float, UInt64

from attnaudit.core.errors import InputError
from attnaudit.core.papers import JAIN2019, Paper
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.permutation_identity import median_change, shuffle_rows
from attnaudit.experiments.rows import by_group, keys, row_streams
from attnaudit.results import summarise_means
from attnaudit.stats.measures import tvd
from attnaudit.trace import Trace
from attnaudit.trace.readout import IdentityTail, Readout

MOST_PERMUTATIONS = 1_000_000  # every thread keeps as many numbers; a median is exact enough long before
BLOCK = 1 << 21  # contributions that the general way holds at a time


@dataclass(frozen=True)
class Permutation:
    """Median over ``permutations`` random orders of the attention weights of TVD to the output under attention as it is.

    The table has ``median_delta_y`` and ``max_alpha``, the largest weight.
    """

    name: ClassVar[str] = "permutation"
    needs: ClassVar[tuple[str, ...]] = ()
    paper: ClassVar[Paper] = JAIN2019
    seed: int = 0
    permutations: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.permutations <= MOST_PERMUTATIONS:
            expected = f"a whole number from 1 to {MOST_PERMUTATIONS}"
            raise InputError("audit", "setting permutation.permutations", str(self.permutations), expected)

    def refuses(self, trace: Trace) -> str | None:
        return None

    def __call__(self, trace: Trace) -> pl.DataFrame:
        streams = row_streams(trace, self.seed, self.name)
        change = median_delta_y(trace.readout, trace.alpha, streams, self.permutations)
        return keys(trace).with_columns(pl.Series("median_delta_y", change), pl.Series("max_alpha", trace.alpha.max()))

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        return summarise_means(self.name, by_group(table, lambda rows: rows.select("median_delta_y", "max_alpha")), self.seed)


def median_delta_y(readout: Readout, alpha: Ragged, streams: UInt64[np.ndarray, " n"], permutations: int) -> Float[np.ndarray, " n"]:
    """Median TVD under shuffled attention; the same shuffles whichever way they are read out."""
    if isinstance(readout.tail, IdentityTail):
        return median_change(readout, alpha, streams, permutations)
    width = readout.contribution.values.shape[1]
    blocks = alpha.blocks(max(BLOCK // width, 1))
    return np.concatenate([_median_through_tail(readout.take(b), alpha.take(b), streams[b], permutations) for b in blocks])


def _median_through_tail(readout: Readout, alpha: Ragged, streams: UInt64[np.ndarray, " n"], permutations: int) -> Float[np.ndarray, " n"]:
    baseline = readout(alpha)
    shuffled = alpha.with_values(alpha.values.copy())
    change = np.empty((permutations, len(alpha)))
    for k in range(permutations):
        shuffle_rows(shuffled.values, shuffled.offsets, streams, k)
        change[k] = tvd(readout(shuffled), baseline)
    return np.median(change, axis=0)
