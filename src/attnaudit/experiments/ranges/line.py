"""Weights that a token can have while the attended sum of one number per token stays in a slab.

Readouts v are measured from the attended sum, and the slab is ``low ≤ Σ_t α_t v_t ≤ high``
with ``low ≤ 0 ≤ high``. With weight w on token t the others, together 1 − w, attend to some mean m
of their readouts, and the sum is w v_t + (1 − w) m.

- *Most.* If v_t > high, the sum can be brought down to ``high`` up to the w at which m must be the
  smallest readout of all, w = (high − v_min)/(v_t − v_min). If v_t lies in the slab, w = 1.
- *Least.* 0 if some mean of the others lies in the slab. Else all others lie above ``high``, and t
  alone brings the sum back, with the least weight from the nearest of them, o:
  w = (o − high)/(o − v_t).

Below the slab the same holds with all signs changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.adversary.exact import Slab

UNIT = 2.0**-52


class WeightRanges(NamedTuple):
    """Least and largest weight of every token, both flat ``(N,)``."""

    necessary: Float[np.ndarray, " N"]
    possible: Float[np.ndarray, " N"]


def ranges_in_slab(alpha: Ragged, slab: Slab) -> WeightRanges:
    """Compute the range of every weight over the attentions in a slab that holds ``alpha``."""
    value = alpha.with_values(slab.relevance)
    own = value.with_values(alpha.values * slab.relevance).sum()
    # The attended sum may be off by T + 8 units in the last place of the largest readout. Readouts
    # that are equal but for rounding must leave all weights free.
    rounding = UNIT * (alpha.lengths + 8) * value.with_values(np.abs(value.values)).max()
    return ranges_on_line(
        value.with_values(value.values - alpha.spread(own)),
        alpha,
        slab.low - own - rounding,
        slab.high - own + rounding,
    )


def ranges_on_line(
    value: Ragged, alpha: Ragged, low: Float[np.ndarray, " n"], high: Float[np.ndarray, " n"]
) -> WeightRanges:
    """Compute the range of every weight over the attentions in the slab; it holds ``alpha``'s own.

    Args:
        value: Readout of each token less the attended sum under ``alpha``.
        alpha: The model's own attention.
        low: Lower bound of the slab in each row, at most 0.
        high: Upper bound of the slab in each row, at least 0.
    """
    least, most = np.zeros(len(value.values)), np.ones(len(value.values))
    for outward, limit in ((value.values, high), (-value.values, -low)):
        bound = alpha.spread(limit)
        beyond = outward > bound
        inmost = alpha.spread(value.with_values(outward).reduce(np.minimum))[beyond]
        inmost = np.minimum(inmost, bound[beyond])  # rounding of the sum may leave none inside
        most[beyond] = (bound[beyond] - inmost) / (outward[beyond] - inmost)
        alone = _alone(alpha, ~beyond)
        nearest = value.with_values(np.where(beyond, outward, np.inf)).reduce(np.minimum)
        nearest = alpha.spread(nearest)[alone]
        least[alone] = (nearest - bound[alone]) / (nearest - outward[alone])
    least[alpha.spread(alpha.lengths == 1)] = 1.0
    return WeightRanges(np.clip(least, 0.0, alpha.values), np.clip(most, alpha.values, 1.0))


def lowest(rows: Ragged) -> Int64[np.ndarray, " n"]:
    """Find the flat position of the first smallest value of every row."""
    smallest = np.flatnonzero(rows.values == rows.spread(rows.reduce(np.minimum)))
    return smallest[np.searchsorted(smallest, rows.offsets[:-1])]


def _alone(alpha: Ragged, marked: Bool[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
    """Mark the marked positions whose row has other positions, none of them marked."""
    alone = (alpha.with_values(marked.astype(np.int64)).sum() == 1) & (alpha.lengths > 1)
    return marked & alpha.spread(alone)
