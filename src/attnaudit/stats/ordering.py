"""Sorting for compiled kernels.

numba builds ``np.sort``, ``np.argsort`` and ``np.median`` from closures that share their names. Kernels that use different ones and
were cached by different processes then mix them up when one process loads both, and give wrong numbers without a word. So kernels here
sort by this function alone; a test keeps the others out.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def ascending(values):
    """The positions of ``values`` from the smallest to the largest, equal ones as they stand: a merge sort, O(T log T)."""
    size, width = len(values), 1
    source, target = np.arange(size), np.empty(size, np.int64)
    while width < size:
        for start in range(0, size, 2 * width):
            middle, stop = min(start + width, size), min(start + 2 * width, size)
            left, right = start, middle
            for k in range(start, stop):
                if left < middle and (right >= stop or values[source[left]] <= values[source[right]]):
                    target[k] = source[left]
                    left += 1
                else:
                    target[k] = source[right]
                    right += 1
        source, target = target, source
        width *= 2
    return source
