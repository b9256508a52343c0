"""Sorting for compiled kernels.

numba builds ``np.sort``, ``np.argsort`` and ``np.median`` from closures that share their names. Kernels that use different ones and
were cached by different processes then mix them up when one process loads both, and give wrong numbers without a word. So kernels here
sort by this function alone; a test keeps the others out.
"""

from __future__ import annotations

import numpy as np

from attnaudit.core.kernels import subroutine

RUN = 8  # so many values are put in order one by one before the merging starts


@subroutine
def ascending(values):
    """The positions of ``values`` from the smallest to the largest, equal ones as they stand: a merge sort, O(T log T).

    The merge chooses without branching: which value is next is a coin toss that no processor foresees.
    """
    size, width = len(values), RUN
    place, other_place = np.arange(size), np.empty(size, np.int64)
    value, other_value = values.copy(), np.empty_like(values)
    for start in range(0, size, RUN):
        _insert(value, place, start, min(start + RUN, size))
    while width < size:
        for start in range(0, size, 2 * width):
            left, middle, stop = start, min(start + width, size), min(start + 2 * width, size)
            right, k = middle, start
            while left < middle and right < stop:
                first = value[left] <= value[right]
                other_value[k] = value[left] if first else value[right]
                other_place[k] = place[left] if first else place[right]
                left += first
                right += 1 - first
                k += 1
            rest = left if left < middle else right
            for step in range(stop - k):
                other_value[k + step], other_place[k + step] = value[rest + step], place[rest + step]
        value, other_value = other_value, value
        place, other_place = other_place, place
        width *= 2
    return place


@subroutine
def largest(values, count):
    """The positions of the ``count`` largest values, in no order: quickselect (Hoare 1961), O(T) on average."""
    place, start, stop = np.arange(len(values)), 0, len(values) - 1
    while start < stop:
        pivot, left, right = values[place[(start + stop) // 2]], start, stop
        while left <= right:
            while values[place[left]] > pivot:
                left += 1
            while values[place[right]] < pivot:
                right -= 1
            if left <= right:
                place[left], place[right] = place[right], place[left]
                left += 1
                right -= 1
        if count <= right + 1:
            stop = right
        elif count > left:
            start = left
        else:
            break
    return place[:count]


@subroutine
def _insert(value, place, start, stop):
    """Put a short run in order, in place."""
    for k in range(start + 1, stop):
        v, p, gap = value[k], place[k], k
        while gap > start and value[gap - 1] > v:
            value[gap], place[gap] = value[gap - 1], place[gap - 1]
            gap -= 1
        value[gap], place[gap] = v, p
