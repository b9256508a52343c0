"""Bound the change of the output by any attention.

Let each probability lie between ``low_c`` and ``high_c`` whatever the attention. If k of C classes
lose probability, the change (TVD) equals their loss, at most the sum of the k largest
``p_c − low_c``. It also equals the gain of the others, at most the sum of the C − k largest
``high_c − p_c``. The bound is the smaller of the two sums, at the k where that is largest. With two
classes and an identity tail it is the exact maximum.

- Identity tail: log p_c is concave in the attention, so its minimum is at a single token. The
  log-odds of two classes are linear, so their extremes are at single tokens too.
- Tanh tail: each tanh lies between its values at the smallest and the largest argument that single
  tokens give it. That bounds all log-odds.
- Any other tail: the change is at most 1 − min_c p_c, and 0 for one token.
"""

import numpy as np
from jaxtyping import Bool

from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import PerClass, PerRow
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.through_tail import Outputs, has_compiled_tail, output_layer
from attnaudit.stats.measures import activate, two_classes
from attnaudit.trace import IdentityTail, Readout, TanhTail

# Most classes of which every difference of two logits is bounded, C² numbers a row. With more, each
# logit is bounded by itself, which is looser.
CLASSES = 24
# Numbers held at a time: 16 MiB.
NUMBERS = 1 << 21


def change_bound(outputs: Outputs) -> PerRow:
    """Bound the change of each row's output under any attention, in TVD."""
    own, readout, alpha = two_classes(outputs.own), outputs.readout, outputs.alpha
    candidates = np.ones_like(own, bool) if readout.candidates is None else readout.candidates
    if not has_compiled_tail(readout):
        least = np.where(candidates, own, np.inf).min(axis=1)
        return np.where(alpha.lengths > 1, 1.0 - least, 0.0)
    classes, bound = own.shape[1], np.empty(len(own))
    numbers = max(readout.offset.shape[1], classes) * (classes if classes <= CLASSES else 4)
    for rows in alpha.blocks(max(NUMBERS // numbers, 1)):
        part = readout.take(rows)
        sums = part.contribution.values + part.contribution.spread(part.offset)
        single, allowed = part.contribution.with_values(sums), candidates[rows]
        barred = np.where(allowed, 0.0, -np.inf)
        if classes <= CLASSES:
            ahead = np.stack([_most(single, part, 1.0, c) for c in range(classes)], axis=2)
            # An overflow is right here: e^∞ is ∞, and the probability 0.
            with np.errstate(over="ignore", divide="ignore"):
                high = 1.0 / np.exp(barred[:, None] - ahead).sum(axis=2)
                low = 1.0 / np.exp(barred[:, :, None] + ahead).sum(axis=1)
        else:
            most, least = _most(single, part, 1.0), -_most(single, part, -1.0)
            high = _share(most, least + barred, -TOLERANCE.rounding)
            low = _share(least, most + barred, TOLERANCE.rounding)
        if isinstance(part.tail, IdentityTail):
            among = None if part.activation == "sigmoid" else single.spread(allowed)
            predicted = two_classes(activate(single.values, part.activation, among))
            low = single.with_values(predicted).reduce(np.minimum)
        bound[rows] = bound_from_ranges(own[rows], low, high, allowed)
    return bound


def bound_from_ranges(
    own: PerClass,
    low: PerClass,
    high: PerClass,
    candidates: Bool[np.ndarray, "n C"],
) -> PerRow:
    """Bound the change from the range of each probability.

    Args:
        own: The model's own probabilities.
        low: Least probability of each class under any attention.
        high: Largest probability of each class under any attention.
        candidates: Classes that each row allows.

    Returns:
        A bound on the TVD for each row.
    """
    loss, gain = (
        np.cumsum(-np.sort(-np.where(candidates, np.maximum(part, 0.0), 0.0), axis=1), axis=1)
        for part in (own - low, high - own)
    )
    count, losing = candidates.sum(axis=1)[:, None], np.arange(1, own.shape[1] + 1)
    gained = np.take_along_axis(gain, np.maximum(count - losing - 1, 0), axis=1)
    return np.where(losing < count, np.minimum(loss, gained), 0.0).max(axis=1)


def _most(single: Ragged, readout: Readout, sign: float, over: int | None = None) -> PerClass:
    """Bound ``sign`` times every logit, or its lead over that of one class, from above."""
    if not isinstance(readout.tail, TanhTail):
        logits = single.values
        if readout.activation == "sigmoid":
            logits = np.hstack([np.zeros_like(logits), logits])
        return single.with_values(
            sign * (logits if over is None else logits - logits[:, [over]])
        ).max()
    weight, bias = output_layer(readout.tail, readout.activation)
    if over is not None:
        weight, bias = weight - weight[over], bias - bias[over]
    units = single.with_values(np.tanh(single.values))
    low, high = units.reduce(np.minimum), units.max()
    # One class at a time: a matrix product adds up in an order that depends on the other rows.
    reach = [np.where(row > 0.0, row * high, row * low).sum(axis=1) for row in sign * weight]
    return np.stack(reach, axis=1) + sign * bias


def _share(own: PerClass, others: PerClass, slack: float) -> PerClass:
    """Return the probability of each class with its logit ``own`` and the ``others``' logits.

    The sum over the others is a difference of sums. ``slack`` of the total is added to it, so that
    rounding errs on the safe side.
    """
    top = np.maximum(own.max(axis=1), others.max(axis=1))[:, None]
    raised, mine = np.exp(others - top), np.exp(own - top)
    total = raised.sum(axis=1, keepdims=True)
    return mine / np.maximum(mine + np.maximum(total - raised + slack * total, 0.0), 1e-300)
