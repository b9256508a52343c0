"""Outputs with the best positions of a ranking removed, and with them alone, for every row of a trace, compiled."""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from attnaudit.core.kernels import kernel
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.comprehensiveness.bounds import extreme_means
from attnaudit.experiments.erasure.rankings import by_chance, descending
from attnaudit.experiments.erasure.walk import decision, left_after, row_of
from attnaudit.experiments.readout_pooled import Head, pool, pooled_arguments, pooled_logits, pooled_prediction
from attnaudit.stats.kernel_arrays import for_kernel
from attnaudit.stats.measures import ERASED_SHARES
from attnaudit.trace.readout import Readout

SHARES = np.array(ERASED_SHARES)


def falls(readout: Readout, alpha: Ragged, score: Ragged) -> np.ndarray:
    """How far the decided class's probability falls, ``(n, 2, 5)``: without the best tokens of each share of T, and with them alone.

    NaN where T is 1 and where a removal leaves no weight.
    """
    out = np.full((len(alpha), 2, len(SHARES)), np.nan)
    _fall_rows(for_kernel(alpha.values), alpha.offsets, *pooled_arguments(readout), for_kernel(score.values), out)
    return out


def falls_by_chance(readout: Readout, alpha: Ragged, streams: np.ndarray, orders: int) -> np.ndarray:
    """The same, the mean over ``orders`` random orders."""
    out = np.full((len(alpha), 2, len(SHARES)), np.nan)
    _chance_rows(for_kernel(alpha.values), alpha.offsets, *pooled_arguments(readout), streams, orders, out)
    return out


def bounds(readout: Readout, alpha: Ragged) -> np.ndarray:
    """The least and the greatest fall that any choice of tokens gives, ``(n, 2, 5, 2)``, where one logit decides.

    That of a softmax over two classes is the difference of its logits.
    """
    contribution, offset = readout.contribution.values, readout.offset
    if readout.activation == "softmax":
        contribution, offset = contribution[:, 1:] - contribution[:, :1], offset[:, 1:] - offset[:, :1]
    out = np.full((len(alpha), 2, len(SHARES), 2), np.nan)
    _bound_rows(for_kernel(alpha.values), alpha.offsets, for_kernel(contribution), for_kernel(offset), out)
    return out


@kernel
def taken(share, size):
    """How many tokens a share of T is: one at least."""
    return max(math.ceil(share * size - 1e-9), 1)


@kernel(parallel=True)
def _fall_rows(alpha, offsets, contribution, offset, allowed, sigmoid, weight, bias, tail, score, out):
    for i in prange(len(offset)):
        start, stop = offsets[i], offsets[i + 1]
        row = row_of(alpha[start:stop], contribution[start:stop], offset[i], Head(weight, bias, tail, allowed[i], sigmoid))
        _fall_row(row, descending(score[start:stop]), out[i])


@kernel(parallel=True)
def _chance_rows(alpha, offsets, contribution, offset, allowed, sigmoid, weight, bias, tail, streams, orders, out):
    for i in prange(len(offset)):
        start, stop = offsets[i], offsets[i + 1]
        row = row_of(alpha[start:stop], contribution[start:stop], offset[i], Head(weight, bias, tail, allowed[i], sigmoid))
        _chance_row(row, streams[i], orders, out[i])


@kernel(parallel=True)
def _bound_rows(alpha, offsets, contribution, offset, out):
    for i in prange(len(offset)):
        start, stop = offsets[i], offsets[i + 1]
        _bound_row(alpha[start:stop], contribution[start:stop, 0], offset[i, 0], out[i])


@kernel
def _chance_row(row, stream, orders, out):
    single = np.full_like(out, np.nan)
    out[:] = 0.0
    for number in range(orders):
        _fall_row(row, by_chance(len(row.weights), stream, number), single)
        out += single / orders


@kernel
def _fall_row(row, order, out):
    """Output without the first of ``order``, and with them alone, against the output of all."""
    size = len(order)
    if size < 2:
        return
    prediction, logits = np.empty(len(row.head.allowed)), np.empty(len(row.head.allowed))
    pooled = np.empty_like(row.offset)
    pool(row.weights, row.contribution, row.offset, pooled)
    pooled_logits(pooled, row.head, logits)
    decided = decision(logits, row)
    before = _probability(pooled, row.head, decided, prediction)
    mass, moment = left_after(order, row.weights, row.contribution)
    kept_mass, kept_moment = left_after(order[::-1], row.weights, row.contribution)
    for k in range(len(SHARES)):
        count = taken(SHARES[k], size)
        if mass[count] > 0.0:
            out[0, k] = before - _probability(row.offset + moment[count] / mass[count], row.head, decided, prediction)
        if kept_mass[size - count] > 0.0:
            alone = row.offset + kept_moment[size - count] / kept_mass[size - count]
            out[1, k] = before - _probability(alone, row.head, decided, prediction)


@kernel
def _probability(pooled, head, decided, prediction):
    pooled_prediction(pooled, head, prediction)
    return 1.0 - prediction[0] if head.sigmoid and decided == 0 else prediction[0 if head.sigmoid else decided]


@kernel
def _bound_row(weights, value, offset, out):
    size = len(weights)
    if size < 2:
        return
    logit = offset
    for t in range(size):
        logit += weights[t] * value[t]
    sign = 1.0 if logit >= 0.0 else -1.0
    before = 1.0 / (1.0 + math.exp(-sign * logit))
    for k in range(len(SHARES)):
        count = taken(SHARES[k], size)
        for way, kept in enumerate((size - count, count)):
            least, greatest = extreme_means(weights, sign * value, kept)
            out[way, k, 0] = before - 1.0 / (1.0 + math.exp(-(greatest + sign * offset)))
            out[way, k, 1] = before - 1.0 / (1.0 + math.exp(-(least + sign * offset)))
