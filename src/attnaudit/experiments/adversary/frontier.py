"""The exact frontier: for each change of the output, how different attention can be at most."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from attnaudit.experiments.adversary.exact import divergence, one_logit_decides
from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.trace import Trace

EPSILONS = tuple(
    (k / 24) ** 2 for k in range(25)
)  # evenly spread over the square root, most of them small
FEW = (0.0025, 0.01, 0.05, 0.2, 1.0)  # where a row takes its time


def frontier_epsilons(trace: Trace, epsilon: float) -> tuple[float, ...]:
    """Return the ε at which the frontier of a trace is drawn, ``epsilon`` among them."""
    return tuple(sorted({*(EPSILONS if one_logit_decides(trace.readout) else FEW), epsilon}))


def frontier(
    trace: Trace, epsilons: Sequence[float]
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
    """Return the largest JSD found within each ε, ascending, and a bound, for every row.

    The two are the same if one logit decides. What is allowed at an ε is allowed at a larger one.
    """
    found, upper = np.empty((2, len(trace), len(epsilons)))
    for k, epsilon in enumerate(epsilons):
        furthest = Adversary(epsilon=epsilon).bounded(trace.readout, trace.alpha)
        found[:, k], upper[:, k] = divergence(furthest.attention, trace.alpha), furthest.upper
    found = np.maximum.accumulate(found, axis=1)
    return found, np.maximum(np.minimum.accumulate(upper[:, ::-1], axis=1)[:, ::-1], found)
