"""Scale every text to one confidence, so that the scale of the logits does not matter.

The output of a very confident or a very hesitant model hardly changes, whatever happens to
attention. So conclusions are drawn with the logits of each text multiplied by the number that gives
the predicted class a probability of 0.9. No decision changes.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attnaudit.core.shapes import PerRow, RowMask
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.stats.measures import activate
from attnaudit.trace import IdentityTail, Readout, Trace

CONFIDENCE = 0.9
HALVINGS = 60  # until the ends of float64 meet


class Matched(NamedTuple):
    """Rows at the same confidence.

    Attributes:
        readout: Their readout, with scaled logits.
        decided: Mask of the rows whose two likeliest classes differ; the others have no scale.
    """

    readout: Readout
    decided: RowMask

    def of_decided(self, values: PerRow) -> PerRow:
        """Return values of rows, NaN for the undecided."""
        return np.where(self.decided, values, np.nan)


def at_same_confidence(trace: Trace) -> Matched | None:
    """Scale the logits of every row until the predicted class has probability `CONFIDENCE`.

    Returns:
        The rows; None if the attended sums are not the logits of one decision.
    """
    readout, alpha = trace.readout, trace.alpha
    several_decisions = readout.activation == "sigmoid" and readout.offset.shape[1] > 1
    if several_decisions or not isinstance(readout.tail, IdentityTail):
        return None
    contribution = readout.contribution.values
    logits = readout.class_logits(readout.weighted_sums(alpha), np.arange(len(alpha)))
    largest = alpha.with_values(np.abs(contribution).max(axis=1)).max()
    size = largest + np.abs(readout.offset).max(axis=1)
    second, first = np.sort(logits, axis=1)[:, -2:].T
    decided = (first - second > TOLERANCE.rounding * size) & np.isfinite(second)
    # The scale lies between those for one rival and for all rivals as close as the first.
    rivals = np.array([1.0, logits.shape[1] - 1.0])[:, None]
    lead = np.where(decided, first - second, 1.0)
    low, high = np.log(rivals * CONFIDENCE / (1.0 - CONFIDENCE)) / lead
    # With one rival both are the scale.
    for _ in range(HALVINGS if logits.shape[1] > 2 else 0):
        scale = 0.5 * (low + high)
        enough = activate(scale[:, None] * logits, "softmax").max(axis=1) >= CONFIDENCE
        low, high = np.where(enough, low, scale), np.where(enough, scale, high)
    scaled = alpha.with_values(contribution * alpha.spread(high)[:, None])
    offset = readout.offset * high[:, None]
    return Matched(replace(readout, contribution=scaled, offset=offset), decided)
