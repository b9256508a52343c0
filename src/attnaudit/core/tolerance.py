"""One policy for numerical tolerances, the differences that count as errors of computation.

Thresholds of meaning, such as the smallest change of an output that matters, belong to the verdict
policy. Tolerances for sums are relative to the size of the terms; all others are absolute.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """Largest expected error of each way to compute a number.

    Attributes:
        rounding: For sums in float64. A text of 10,000 tokens takes up to 10,000 roundings of 1e-16
            each, relative to the largest term.
        solver: For solutions of linear programs, and for limits that two methods must read alike.
            HiGHS is asked for 1e-10, and scaling the rows may cost a digit.
        network: For probabilities of a float32 network when a row is in another batch. A decision
            with this margin does not depend on the batch.
        trace: For sums and predictions that a model stored in float32, with its own order of
            operations. A trace with a larger error is refused: its columns do not fit together.
    """

    rounding: float = 1e-12
    solver: float = 1e-9
    network: float = 2e-6
    trace: float = 1e-4


TOLERANCE = Tolerance()
