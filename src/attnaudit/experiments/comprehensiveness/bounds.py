"""The least and the greatest output that keeping any ``m`` positions can give, for two classes and an identity tail: exactly.

What keeping ``K`` gives is a ratio, ``Σ_{t∈K} alpha_t · r_t / Σ_{t∈K} alpha_t`` (the offset shifts it, the sigmoid keeps its order). A
ratio λ can be beaten if and only if ``Σ_{t∈K} alpha_t (r_t − λ) > 0`` for some ``K``, and the best ``K`` for that are the ``m`` largest
terms. Starting from any ``K`` and taking its own ratio for λ again and again ends at the greatest ratio (Dinkelbach 1967), in a few steps
of O(T) each.
"""

from __future__ import annotations

import numpy as np

from attnaudit.core.kernels import kernel
from attnaudit.stats.ordering import largest


@kernel
def extreme_means(weights, value, kept):
    """The least and the greatest weighted mean of ``kept`` of the values; all of them NaN where the weights are 0."""
    return -_greatest_mean(weights, -value, kept), _greatest_mean(weights, value, kept)


@kernel
def _greatest_mean(weights, value, kept):
    reached = _mean_of(weights, value, largest(weights, kept))
    while True:
        better = _mean_of(weights, value, largest(weights * (value - reached), kept))
        if not better > reached:
            return reached
        reached = better


@kernel
def _mean_of(weights, value, chosen):
    mass, moment = 0.0, 0.0
    for t in chosen:
        mass += weights[t]
        moment += weights[t] * value[t]
    return moment / mass if mass > 0.0 else np.nan
