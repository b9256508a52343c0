"""Many tests at once."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.stats import false_discovery_control


def benjamini_hochberg(p_values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """p-values adjusted for the false discovery rate (Benjamini & Hochberg 1995); NaN is no test and stays NaN."""
    adjusted = np.full(len(p_values), np.nan)
    known = ~np.isnan(p_values)
    if known.any():
        adjusted[known] = false_discovery_control(p_values[known], method="bh")
    return adjusted
