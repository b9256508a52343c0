"""Falls of the predicted probability without the best positions, and with only them."""

import numpy as np
from jaxtyping import Float

from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import Indices, Streams
from attnaudit.experiments.erasure.removal import Orders, Rows, Walks, in_blocks, in_chunks
from attnaudit.stats.measures import ERASED_SHARES
from attnaudit.trace import Readout


def falls(
    readout: Readout,
    alpha: Ragged,
    scores: dict[str, Ragged],
    streams: Streams,
    orders: int,
) -> dict[str, Float[np.ndarray, "n 2 S"]]:
    """Measure how far the predicted class's probability falls by each share of T removed, or kept.

    Args:
        readout: Readout of the rows.
        alpha: Their attention.
        scores: Scores of the positions by name.
        streams: Random streams of the rows.
        orders: Number of random orders.

    Returns:
        Falls without the best positions of each share, and with them alone, for every score and
        ``random``, the mean over random orders; NaN where T is 1 or a removal leaves no weight.
    """

    def compute(rows: Rows, numbers: Indices) -> dict[str, Float[np.ndarray, "m 2 S"]]:
        ranked = [score.take(numbers).descending() for score in scores.values()]
        total = np.zeros((len(numbers), 2, len(ERASED_SHARES)))
        for chunk in in_chunks(orders):
            total += _falls(rows, rows.random_orders(streams[numbers], chunk)).sum(axis=0)
        each = [_falls(rows, np.stack(ranked[c.start : c.stop])) for c in in_chunks(len(ranked))]
        return dict(zip(scores, np.concatenate(each), strict=True)) | {"random": total / orders}

    return in_blocks(compute, readout, alpha)


def _falls(rows: Rows, orders: Orders) -> Float[np.ndarray, "k m 2 S"]:
    alpha, every = rows.alpha, np.arange(len(rows.alpha))
    # The tokens of each share of T, one at least.
    sizes = np.multiply.outer(alpha.lengths, ERASED_SHARES)
    counts = np.maximum(np.ceil(sizes - 1e-9), 1).astype(np.int64)
    before = rows.outputs.probability(rows.outputs.own, every)
    walk = np.repeat(np.arange(len(orders) * len(counts)), counts.shape[1])
    count = np.tile(counts.reshape(-1), len(orders))
    after = [
        Walks(rows, orders, keep).measure(walk, count, rows.outputs.probability)
        for keep in (False, True)
    ]
    shape = 2, len(orders), *counts.shape
    return before[:, None, None] - np.moveaxis(np.reshape(after, shape), 0, 2)
