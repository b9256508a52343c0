"""Operations on whole arrays, for compiled kernels: numba's own take seconds to compile, for broadcasting and for the texts of errors."""

from __future__ import annotations

import math

import numpy as np

from attnaudit.core.kernels import subroutine


@subroutine
def overwrite(target, values):
    """``target[:] = values`` for one dimension; both are of one length."""
    for k in range(len(target)):
        target[k] = values[k]


@subroutine
def fill(target, value):
    """``target[:] = value`` for one dimension."""
    for k in range(len(target)):
        target[k] = value


@subroutine
def divide(target, divisor):
    """``target /= divisor``, by a number, for one dimension."""
    for k in range(len(target)):
        target[k] /= divisor


@subroutine
def plus(values, factor, others):
    """``values + factor * others``, by a number, for one dimension; both are of one length."""
    found = np.empty(len(values))
    for k in range(len(values)):
        found[k] = values[k] + factor * others[k]
    return found


@subroutine
def sum_of(values):
    """``values.sum()`` as a float, for one dimension, added one after another."""
    found = 0.0
    for k in range(len(values)):
        found += values[k]
    return found


@subroutine
def largest_of(values):
    """``values.max()`` as a float, for one dimension; −inf without any."""
    found = -math.inf
    for k in range(len(values)):
        found = max(found, values[k])
    return found


@subroutine
def largest_size(values):
    """``np.abs(values).max()`` as a float, for one dimension; 0 without any."""
    found = 0.0
    for k in range(len(values)):
        found = max(found, abs(values[k]))
    return found


@subroutine
def numbers_below(count):
    """``np.arange(count)``."""
    found = np.empty(count, np.int64)
    for k in range(count):
        found[k] = k
    return found


@subroutine
def taken(values, positions):
    """``values[positions]`` for one dimension."""
    found = np.empty(len(positions), values.dtype)
    for k in range(len(positions)):
        found[k] = values[positions[k]]
    return found


@subroutine
def part_of(matrix, rows, columns):
    """``matrix[rows][:, columns]``."""
    found = np.empty((len(rows), len(columns)))
    for k in range(len(rows)):
        for c in range(len(columns)):
            found[k, c] = matrix[rows[k], columns[c]]
    return found


@subroutine
def where_positive(values):
    """``np.flatnonzero(values > 0)``."""
    found, count = np.empty(len(values), np.int64), 0
    for k in range(len(values)):
        if values[k] > 0:
            found[count] = k
            count += 1
    return found[:count]


@subroutine
def where_highest(values):
    """``values.argmax()`` for one dimension: the first of the largest."""
    found = 0
    for k in range(1, len(values)):
        if values[k] > values[found]:
            found = k
    return found


@subroutine
def where_lowest(values):
    """``values.argmin()`` for one dimension: the first of the smallest."""
    found = 0
    for k in range(1, len(values)):
        if values[k] < values[found]:
            found = k
    return found
