"""Removals the plain way: weights set to zero, the rest rescaled, the output read out again, one step after another in numpy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnaudit.experiments.erasure.removal import RANKINGS
from attnaudit.stats.measures import ERASED_SHARES, activate
from attnaudit.trace import Trace
from tests.oracles.erasure import decided, weight_gradient

ORDERS = 5
ERASED = tuple(f"removed_{name}" for name in RANKINGS[1:])
SCORES = ("attention", "gradient", "loo")
ERASER = tuple(f"{way}_{name}" for way in ("comprehensiveness", "sufficiency") for name in SCORES)


def plain_erasure(trace: Trace, row: int, random: np.random.Generator) -> list[float]:
    """The share of T at which attention, gradient and their product first flip the decision; NaN where never. Walks at random besides."""
    alpha, slope = trace.alpha[row], weight_gradient(trace, row)
    for _ in range(ORDERS):
        first_flip(trace, row, random.permutation(len(alpha)))
    return [
        first_flip(trace, row, np.argsort(-score, kind="stable")) / len(alpha)
        for score in (alpha, slope, slope * alpha)
    ]


def first_flip(trace: Trace, row: int, order: np.ndarray) -> float:
    """How many go, one after another, until the decision is another."""
    logits = logits_without(trace, row, order)
    before = decision(next(logits))
    return next(
        (count for count, after in enumerate(logits, 1) if decision(after) != before), np.nan
    )


def logits_without(trace: Trace, row: int, order: np.ndarray) -> Iterator[np.ndarray]:
    """The logits with all positions, then with one less after another, down to one."""
    alpha, contribution, offset = (
        np.array(trace.alpha[row]),
        trace.readout.contribution[row],
        trace.readout.offset[row],
    )
    for position in order:
        yield offset + (alpha / alpha.sum()) @ contribution
        alpha[position] = 0.0


def decision(logits: np.ndarray) -> int:
    return decided([float(logits[0] >= 0)]) if len(logits) == 1 else decided(logits.tolist())


def plain_comprehensiveness(trace: Trace, row: int, random: np.random.Generator) -> list[float]:
    """Comprehensiveness and sufficiency of every score, means over the shares of T. The same at random besides."""
    alpha, scores = trace.alpha[row], [trace.ragged(name)[row] for name in ("alpha", *SCORES[1:])]
    for _ in range(ORDERS):
        mean_falls(trace, row, random.permutation(len(alpha)))
    return (
        np.transpose(
            [mean_falls(trace, row, np.argsort(-score, kind="stable")) for score in scores]
        )
        .ravel()
        .tolist()
    )


def mean_falls(trace: Trace, row: int, order: np.ndarray) -> np.ndarray:
    """How far the decided class's probability falls without the first of an order, and with them alone."""
    counts = [max(int(np.ceil(share * len(order) - 1e-9)), 1) for share in ERASED_SHARES]
    before = decided_probability(trace, row, np.array([], int))
    falls = [
        [before - decided_probability(trace, row, gone) for gone in (order[:count], order[count:])]
        for count in counts
    ]
    return np.mean(falls, axis=0)


def decided_probability(trace: Trace, row: int, gone: np.ndarray) -> float:
    """Of the class that is decided for with all positions."""
    alpha, readout = np.array(trace.alpha[row]), trace.readout
    contribution, offset = readout.contribution[row], readout.offset[row]
    chosen = decision(offset + alpha @ contribution)
    alpha[gone] = 0.0
    probabilities = activate(offset + (alpha / alpha.sum()) @ contribution, readout.activation)
    return float(
        probabilities[chosen]
        if len(probabilities) > 1
        else probabilities[0]
        if chosen
        else 1 - probabilities[0]
    )
