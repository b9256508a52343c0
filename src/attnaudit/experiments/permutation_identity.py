"""Shuffled attention, compiled: T·C numbers per instance are all that a shuffle has to touch."""

from __future__ import annotations

import numpy as np
from numba import prange

from attnaudit.core.kernels import kernel
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import draw_below
from attnaudit.experiments.readout_identity import compiled_arguments, predict_row, tvd_row
from attnaudit.stats.kernel_arrays import for_kernel
from attnaudit.stats.ordering import ascending
from attnaudit.trace.readout import Readout


def median_change(readout: Readout, alpha: Ragged, streams: np.ndarray, permutations: int) -> np.ndarray:
    """Median over shuffles of ``alpha`` of TVD(readout(shuffled), readout(alpha)), for an identity tail, ``(n,)``."""
    median = np.empty(len(alpha))
    weights = for_kernel(alpha.values)
    _median_rows(weights, alpha.offsets, *compiled_arguments(readout), streams, permutations, median)
    return median


@kernel(parallel=True)
def _median_rows(alpha, offsets, contribution, offset, allowed, sigmoid, streams, permutations, median):
    """After the encoder the logits are ``offset + Σ_t alpha_t · contribution_t``: a shuffle costs T additions, not a model run."""
    classes = contribution.shape[1]
    for row in prange(len(streams)):
        start, stop = offsets[row], offsets[row + 1]
        weights, rows = alpha[start:stop].copy(), contribution[start:stop]
        baseline, shuffled, change = np.empty(classes), np.empty(classes), np.empty(permutations)
        predict_row(weights, rows, offset[row], allowed[row], sigmoid, baseline)
        for k in range(permutations):
            shuffle(weights, streams[row], k)
            predict_row(weights, rows, offset[row], allowed[row], sigmoid, shuffled)
            change[k] = tvd_row(shuffled, baseline)
        median[row] = _median(change)


@kernel
def _median(values):
    ordered = values[ascending(values)]
    half = len(values) // 2
    return ordered[half] if len(values) % 2 else 0.5 * (ordered[half - 1] + ordered[half])


@kernel
def shuffle(weights, stream, k):
    """Shuffle number ``k`` of a row, in place (Fisher & Yates); a shuffle of a shuffle is as random as one of the original."""
    size = len(weights)
    for t in range(size - 1, 0, -1):
        other = draw_below(stream, k * size + t, t + 1)
        weights[t], weights[other] = weights[other], weights[t]


@kernel(parallel=True)
def shuffle_rows(values, offsets, streams, k):
    """Shuffle number ``k`` of every row of flat ``values``, in place."""
    for row in prange(len(streams)):
        shuffle(values[offsets[row] : offsets[row + 1]], streams[row], k)
