"""Sorting for compiled kernels.

numba builds ``np.sort``, ``np.argsort`` and ``np.median`` from closures that share their names. Kernels that use different ones and
were cached by different processes then mix them up when one process loads both, and give wrong numbers without a word. So kernels here
sort by this function alone; a test keeps the others out.
"""

from __future__ import annotations

import numpy as np

from attnaudit.core.arrays import numbers_below
from attnaudit.core.kernels import subroutine

RUN = 8  # so many values are put in order one by one before the merging starts


@subroutine
def ascending(values):
    """The positions of floats from the smallest to the largest, equal ones as they stand: a merge sort, O(T log T).

    The merge chooses without branching: which value is next is a coin toss that no processor foresees.
    """
    size, width = len(values), RUN
    place, other_place = numbers_below(size), np.empty(size, np.int64)
    value, other_value = values.copy(), np.empty(size)
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
                other_value[k + step], other_place[k + step] = (
                    value[rest + step],
                    place[rest + step],
                )
        value, other_value = other_value, value
        place, other_place = other_place, place
        width *= 2
    return place


@subroutine
def descending(values):
    """The positions of floats from the largest to the smallest, equal ones as they stand."""
    negative = np.empty(len(values))
    for k in range(len(values)):
        negative[k] = -values[k]
    return ascending(negative)


@subroutine
def select(values, start, stop, rank):
    """The value of ``rank`` in sorted ``values``, put there in place, none larger before it and none smaller behind it.

    Values before ``start`` are no larger than the others, those from ``stop`` on no smaller. Quickselect (Hoare 1961), O(T) on average;
    values move without branching.
    """
    while stop - start > 1:
        first, middle, last = values[start], values[(start + stop) // 2], values[stop - 1]
        pivot, place = max(min(first, middle), min(max(first, middle), last)), start
        for equal in (False, True):  # those below the pivot first, then those equal to it
            before = place
            for k in range(before, stop):
                value = values[k]
                values[k] = values[place]
                values[place] = value
                place += value < pivot or (equal and value == pivot)
            if rank < place:
                break
        if rank < place and not equal:
            stop = place
        elif rank < place or place == start:  # the pivot has this rank; or it is NaN
            break
        else:
            start = place
    return values[rank]


@subroutine
def _insert(value, place, start, stop):
    """Put a short run in order, in place."""
    for k in range(start + 1, stop):
        v, p, gap = value[k], place[k], k
        while gap > start and value[gap - 1] > v:
            value[gap], place[gap] = value[gap - 1], place[gap - 1]
            gap -= 1
        value[gap], place[gap] = v, p
