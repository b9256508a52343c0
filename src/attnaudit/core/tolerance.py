"""One policy for numerical tolerances: which difference is an error of computation.

Thresholds of meaning, such as the change of an output that matters, belong to the verdict policy.
Differences of sums are judged relative to the size of their terms, all others are absolute.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """Largest error expected from each way to compute a number.

    Attributes:
        rounding: Sums in float64. A text of 10,000 tokens costs up to 10,000 roundings of 1e-16
            each, relative to the largest term.
        solver: Solutions of linear programs, and limits that two methods must read alike. HiGHS is
            asked for 1e-10, and scaling of the rows may cost a digit.
        network: Probabilities from a float32 network when the same row stands in another batch.
            A decision that leaves this much room does not depend on the batch.
        trace: Sums and predictions stored in float32 by a model with its own order of operations.
            It is the self-check of a trace: larger errors mean that the columns do not fit.
    """

    rounding: float = 1e-12
    solver: float = 1e-9
    network: float = 2e-6
    trace: float = 1e-4


TOLERANCE = Tolerance()
