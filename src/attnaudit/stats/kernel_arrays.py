"""One memory layout for all arguments of compiled kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike


def for_kernel(values: np.ndarray, dtype: DTypeLike = np.float64) -> np.ndarray:
    """``values`` contiguous, writable and of one type, copied only where they are not, so that numba compiles each kernel once."""
    return np.require(values, dtype, ["C", "W"])
