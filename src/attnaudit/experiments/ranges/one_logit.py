"""The ranges of weights where one logit decides: exact, in closed form, for all rows at once.

An output is within ε iff ``low ≤ Σ_t α_t r_t ≤ high``. With weight w on token t the others, together 1 − w, attend to some mean m of their
readouts, and the sum is w r_t + (1 − w) m.

- *Most.* If r_t > high, the sum can be brought down to ``high`` up to the w at which m must be the smallest readout of all,
  w = (high − r_min)/(r_t − r_min). If r_t < low, w = (r_max − low)/(r_max − r_t). Between the two the token may have all weight.
- *Least.* 0 if some mean of the others is in the slab. Else all others lie above ``high``, or all below ``low``, and t alone brings the sum
  back, with the least weight from the nearest of them, o: w = (o − high)/(o − r_t), or (low − o)/(r_t − o).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.adversary.exact import Slab

UNIT = 2.0**-52


class Ranges(NamedTuple):
    """The least and the most weight of every position, both flat (N,)."""

    necessary: Float[np.ndarray, " N"]
    possible: Float[np.ndarray, " N"]


def ranges_in_slab(alpha: Ragged, slab: Slab) -> Ranges:
    """The range of every weight over the attentions in the slab, which holds ``alpha``; rounding never excludes the weight of ``alpha``.

    The slab is widened by what the attended sum may be off by, T + 8 units in the last place of the largest readout.
    """
    value = alpha.with_values(slab.relevance)
    here = alpha.with_values(alpha.values * slab.relevance).sum()
    rounding = UNIT * (alpha.lengths + 8) * value.with_values(np.abs(value.values)).max()
    low, high = alpha.spread(slab.low - here - rounding), alpha.spread(slab.high - here + rounding)
    apart = value.values - alpha.spread(here)
    above, below = apart > high, apart < low
    least, most = np.zeros(len(apart)), np.ones(len(apart))
    for beyond, sign, bound in (
        (above, 1.0, high),
        (below, -1.0, low),
    ):  # below the slab as above it, with all signs changed
        outward = sign * apart
        inmost = alpha.spread(-alpha.with_values(-outward).max())[beyond]
        most[beyond] = ((sign * bound)[beyond] - inmost) / (outward[beyond] - inmost)
        alone = _alone(alpha, ~beyond)
        nearest = alpha.spread(-alpha.with_values(np.where(beyond, -outward, -np.inf)).max())[alone]
        least[alone] = (nearest - (sign * bound)[alone]) / (nearest - outward[alone])
    least[alpha.spread(alpha.lengths == 1)] = 1.0
    return Ranges(np.clip(least, 0.0, alpha.values), np.clip(most, alpha.values, 1.0))


def _alone(alpha: Ragged, marked: np.ndarray) -> np.ndarray:
    """The marked positions whose row has other positions, none of them marked."""
    alone = (alpha.with_values(marked.astype(np.int64)).sum() == 1) & (alpha.lengths > 1)
    return marked & alpha.spread(alone)
