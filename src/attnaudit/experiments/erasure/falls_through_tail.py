"""`falls` through a tail that no kernel computes: outputs with the best positions removed, and with them alone, many rows at a time."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int64, UInt64

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.erasure.left import Read, Removals, random_ranks, ranks_of
from attnaudit.experiments.through_tail import Outputs, row_blocks
from attnaudit.stats.measures import ERASED_SHARES
from attnaudit.trace.readout import Readout


def falls_through_tail(
    readout: Readout,
    alpha: Ragged,
    scores: dict[str, Ragged],
    streams: UInt64[np.ndarray, " n"],
    orders: int,
) -> dict[str, Float[np.ndarray, "n 2 S"]]:
    """How far the decided class's probability falls for every score, and ``random``, the mean over random orders; NaN as in `falls`."""
    found = {
        name: np.full((len(alpha), 2, len(ERASED_SHARES)), np.nan) for name in (*scores, "random")
    }
    longer = np.flatnonzero(alpha.lengths > 1)
    for block in row_blocks(alpha.take(longer)):
        rows = longer[block]
        part, outputs = alpha.take(rows), Outputs.of(readout.take(rows), alpha.take(rows))
        chance = [random_ranks(part, streams[rows], number) for number in range(orders)]
        each = _falls(
            outputs, np.stack([*(ranks_of(score.take(rows)) for score in scores.values()), *chance])
        )
        for name, fall in zip(scores, each, strict=False):
            found[name][rows] = fall
        found["random"][rows] = each[len(scores) :].mean(axis=0)
    return found


def _falls(
    outputs: Outputs, ranks: Int64[np.ndarray, "orders N"]
) -> Float[np.ndarray, "orders n 2 S"]:
    counts = np.stack([top_size(share, outputs.alpha.lengths) for share in ERASED_SHARES], axis=1)
    shape = len(ranks), len(counts), 2, len(ERASED_SHARES)
    order, row, way, share = np.indices(shape).reshape(4, -1)
    probability = Removals(Read(outputs), ranks).measured(
        row, order, counts[row, share], way == 1, outputs.probability
    )
    before = outputs.probability(outputs.own, np.arange(len(counts)))
    return before[:, None, None] - probability.reshape(shape)


def top_size(share: float, lengths: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """How many tokens a share of T is: one at least."""
    return np.maximum(np.ceil(share * lengths - 1e-9), 1).astype(np.int64)
