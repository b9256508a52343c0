"""Operations on whole arrays, for compiled kernels: numba's own take seconds to compile, for broadcasting and for the texts of errors."""

from __future__ import annotations

from attnaudit.core.kernels import subroutine


@subroutine
def overwrite(target, values):
    """``target[:] = values`` for one dimension; both are of one length."""
    for k in range(len(target)):
        target[k] = values[k]


@subroutine
def divide(target, divisor):
    """``target /= divisor``, by a number, for one dimension."""
    for k in range(len(target)):
        target[k] /= divisor
