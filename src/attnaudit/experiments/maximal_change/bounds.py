"""What no attention can exceed: the largest change of the output, proven.

Let every probability lie between ``low_c`` and ``high_c`` whatever the attention. If k of C classes lose probability, the change (TVD) is
what they lose, at most the k largest ``p_c − low_c`` together, and what the others gain, at most the C − k largest ``high_c − p_c``
together. The bound is the largest over k of the smaller of the two. With two classes and an identity tail it is the maximum.

- Identity tail: log p_c is concave in the attention, so that its minimum is at a single token. The log-odds of two classes are linear,
  their extremes are at single tokens too, and bound p_c from above.
- Tanh tail: every tanh lies between its values at the smallest and the largest argument that single tokens give it; that bounds all
  log-odds.
- Any other tail: nothing is known of it, and the change is at most 1 − min_c p_c; it is 0 where there is one token.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.through_tail import Outputs, has_compiled_tail, two_classes
from attnaudit.stats.measures import activate
from attnaudit.trace.readout import IdentityTail, Readout, TanhTail

CLASSES = 24  # of more classes every logit is bounded, and not the difference of every two
NUMBERS = 1 << 21
SLACK = 1e-13


def change_bound(outputs: Outputs, allowed: Bool[np.ndarray, " N"]) -> Float[np.ndarray, " n"]:
    """What the change of the output does not exceed under any attention to the ``allowed`` positions alone, of which every row has one."""
    own, readout = two_classes(outputs.own), outputs.readout
    candidates = np.ones_like(own, bool) if readout.candidates is None else readout.candidates
    if not has_compiled_tail(readout):
        return np.where(
            outputs.alpha.lengths > 1, 1.0 - np.where(candidates, own, np.inf).min(axis=1), 0.0
        )
    bound, places = (
        np.empty(len(own)),
        outputs.alpha.with_values(np.flatnonzero(np.ones(len(allowed)))),
    )
    numbers = max(readout.offset.shape[1], own.shape[1]) * (
        own.shape[1] if own.shape[1] <= CLASSES else 4
    )
    for rows in outputs.alpha.blocks(max(NUMBERS // numbers, 1)):
        of = places.take(rows)
        kept = Ragged.from_lengths(
            of.values[allowed[of.values]], of.with_values(allowed[of.values].astype(np.int64)).sum()
        )
        pooled = kept.with_values(
            readout.contribution.values[kept.values] + kept.spread(readout.offset[rows])
        )
        bound[rows] = _of_ranges(
            own[rows], *_ranges(pooled, readout, candidates[rows]), candidates[rows]
        )
    return bound


def _of_ranges(
    own: np.ndarray, low: np.ndarray, high: np.ndarray, candidates: np.ndarray
) -> Float[np.ndarray, " n"]:
    """The bound from the range of every probability."""
    loss, gain = (
        np.where(candidates, np.maximum(part, 0.0), 0.0) for part in (own - low, high - own)
    )
    loss, gain = (np.cumsum(-np.sort(-part, axis=1), axis=1) for part in (loss, gain))
    count, losing = candidates.sum(axis=1)[:, None], np.arange(1, own.shape[1] + 1)
    others = np.take_along_axis(gain, np.maximum(count - losing - 1, 0), axis=1)
    return np.where(losing < count, np.minimum(loss, others), 0.0).max(axis=1)


def _ranges(
    pooled: Ragged, readout: Readout, candidates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest probability of every class (n, C), from the attended sums of single tokens."""
    identity, classes = isinstance(readout.tail, IdentityTail), candidates.shape[1]
    barred = np.where(candidates, 0.0, -np.inf)
    if classes <= CLASSES:
        most = np.stack(
            [_ahead(pooled, readout, c) for c in range(classes)], axis=2
        )  # (n, b, c): of b over c
        with np.errstate(over="ignore"):  # e^∞ is ∞, and the probability 0
            high = 1.0 / np.exp(barred[:, None] - most).sum(axis=2)
            low = 1.0 / np.exp(barred[:, :, None] + most).sum(axis=1)
    else:
        least, most = _logit_range(pooled, readout)
        high, low = _share(most, least + barred, -SLACK), _share(least, most + barred, SLACK)
    if identity:
        allowed = (
            None if readout.activation == "sigmoid" else candidates.repeat(pooled.lengths, axis=0)
        )
        low = -pooled.with_values(
            -two_classes(activate(pooled.values, readout.activation, allowed))
        ).max()
    return low, high


def _share(
    own: Float[np.ndarray, "n C"], others: Float[np.ndarray, "n C"], slack: float
) -> Float[np.ndarray, "n C"]:
    """The probability of every class with its logit ``own`` and ``others`` of the others, whose sum is moved by ``slack`` of the total."""
    top = np.maximum(own.max(axis=1), others.max(axis=1))[:, None]
    raised, mine = np.exp(others - top), np.exp(own - top)
    total = raised.sum(axis=1, keepdims=True)
    return mine / np.maximum(mine + np.maximum(total - raised + slack * total, 0.0), 1e-300)


def _ahead(pooled: Ragged, readout: Readout, c: int) -> Float[np.ndarray, "n C"]:
    """How far the logit of every class can be above that of class ``c``."""
    tail = readout.tail
    if isinstance(tail, TanhTail):
        weight, bias = _rows(tail, readout)
        return _reach(pooled, weight - weight[c]) + (bias - bias[c])
    logits = (
        np.hstack([np.zeros_like(pooled.values), pooled.values])
        if readout.activation == "sigmoid"
        else pooled.values
    )
    return pooled.with_values(logits - logits[:, c : c + 1]).max()


def _logit_range(
    pooled: Ragged, readout: Readout
) -> tuple[Float[np.ndarray, "n C"], Float[np.ndarray, "n C"]]:
    """The smallest and the largest logit of every class."""
    if isinstance(readout.tail, TanhTail):
        weight, bias = _rows(readout.tail, readout)
        return bias - _reach(pooled, -weight), bias + _reach(pooled, weight)
    return -pooled.with_values(-pooled.values).max(), pooled.max()


def _rows(tail: TanhTail, readout: Readout) -> tuple[np.ndarray, np.ndarray]:
    """Weight (C, P) and bias (C,) of the tail; one sigmoid output stands for two classes."""
    weight, bias = np.asarray(tail.weight, np.float64), np.asarray(tail.bias, np.float64)
    if readout.activation == "sigmoid":
        return np.vstack([np.zeros_like(weight), weight]), np.append(0.0, bias)
    return weight, bias


def _reach(pooled: Ragged, weight: Float[np.ndarray, "C P"]) -> Float[np.ndarray, "n C"]:
    """The largest ``weight · tanh``, every tanh within its range over single tokens."""
    units = pooled.with_values(np.tanh(pooled.values))
    low, high = -units.with_values(-units.values).max(), units.max()
    return np.stack(
        [np.where(row > 0.0, row * high, row * low).sum(axis=1) for row in weight], axis=1
    )
