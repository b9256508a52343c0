"""Weights that a token can have while the attended sum of one number per token stays in a slab.

Readouts v are measured from the attended sum, and the slab is ``low ≤ Σ_t α_t v_t ≤ high`` with
``low ≤ 0 ≤ high``. If token t has weight w, the others share 1 − w. The sum is then
w v_t + (1 − w) m, with some mean m of their readouts.

- *Most.* If v_t lies in the slab, w can be 1. If v_t > high, w is largest when the others bring the
  sum down to ``high`` with the smallest readout of all: w = (high − v_min)/(v_t − v_min).
- *Least.* If some mean of the others lies in the slab, w can be 0. Otherwise all others lie above
  ``high``, and only t can bring the sum back. The least weight does so for the nearest of them, o:
  w = (o − high)/(o − v_t).

Below the slab the same holds with all signs changed.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import PerPosition, PerRow, RowInts
from attnaudit.experiments.adversary.exact import Slab

# Distance from 1.0 to the next float64.
UNIT = 2.0**-52


class WeightRanges(NamedTuple):
    """Least and largest weight of each token, both flat ``(N,)``."""

    necessary: PerPosition
    possible: PerPosition


def ranges_in_slab(alpha: Ragged, slab: Slab) -> WeightRanges:
    """Compute the range of each weight over the attentions in a slab.

    Args:
        alpha: The model's own attention, which lies in the slab.
        slab: One readout per token, and bounds on the attended sum of each row.
    """
    value = alpha.with_values(slab.relevance)
    own = value.with_values(alpha.values * slab.relevance).sum()
    # The attended sum may be off by T + 8 units in the last place of the largest readout. The slab
    # is widened by that, so that readouts which are equal but for rounding leave all weights free.
    rounding = UNIT * (alpha.lengths + 8) * value.with_values(np.abs(value.values)).max()
    return ranges_on_line(
        value.with_values(value.values - alpha.spread(own)),
        alpha,
        slab.low - own - rounding,
        slab.high - own + rounding,
    )


def ranges_on_line(value: Ragged, alpha: Ragged, low: PerRow, high: PerRow) -> WeightRanges:
    """Compute the range of each weight over the attentions in a slab around 0.

    Args:
        value: Readout of each token minus the attended sum under ``alpha``.
        alpha: The model's own attention, whose sum of ``value`` is 0.
        low: Lower bound of the slab in each row, at most 0.
        high: Upper bound of the slab in each row, at least 0.

    Returns:
        The ranges, which contain ``alpha``.
    """
    least, most = np.zeros(len(value.values)), np.ones(len(value.values))
    for outward, limit in ((value.values, high), (-value.values, -low)):
        bound = alpha.spread(limit)
        beyond = outward > bound
        inmost = alpha.spread(value.with_values(outward).reduce(np.minimum))[beyond]
        # Rounding of the sum may leave no readout inside.
        inmost = np.minimum(inmost, bound[beyond])
        most[beyond] = (bound[beyond] - inmost) / (outward[beyond] - inmost)
        alone = _alone(alpha, ~beyond)
        nearest = value.with_values(np.where(beyond, outward, np.inf)).reduce(np.minimum)
        nearest = alpha.spread(nearest)[alone]
        least[alone] = (nearest - bound[alone]) / (nearest - outward[alone])
    least[alpha.spread(alpha.lengths == 1)] = 1.0
    return WeightRanges(np.clip(least, 0.0, alpha.values), np.clip(most, alpha.values, 1.0))


def lowest(rows: Ragged) -> RowInts:
    """Find the flat position of the first smallest value in each row."""
    smallest = np.flatnonzero(rows.values == rows.spread(rows.reduce(np.minimum)))
    return smallest[np.searchsorted(smallest, rows.offsets[:-1])]


def _alone(alpha: Ragged, marked: Bool[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
    """Keep the marks that are the only ones of a row with several positions."""
    alone = (alpha.with_values(marked.astype(np.int64)).sum() == 1) & (alpha.lengths > 1)
    return marked & alpha.spread(alone)
