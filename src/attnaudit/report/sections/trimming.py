"""Which tokens of a long text are shown: those around the most weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int64

CONTEXT = 3  # tokens shown on each side of one with weight
SMALLEST_GAP = 3  # fewer tokens than this are shown rather than counted


@dataclass(frozen=True)
class Gap:
    """``size`` tokens that are not shown."""

    size: int


def shown_positions(weights: Sequence[Float[np.ndarray, " T"]], budget: int) -> tuple[Int64[np.ndarray, " s"], tuple[int | Gap, ...]]:
    """Positions to show, in order, and the same with a `Gap` where any are left out.

    A text of at most ``budget`` tokens is shown whole. Of a longer one, positions are taken by their largest weight relative to the
    top of each of ``weights``, each with `CONTEXT` tokens on both sides, until about ``budget`` tokens are shown; gaps of one or two
    tokens are filled.
    """
    length = len(weights[0])
    if length <= budget:
        positions = np.arange(length)
        return positions, tuple(positions.tolist())
    relative = np.max([row / (row.max() or 1.0) for row in weights], axis=0)
    shown = np.zeros(length, bool)
    for position in np.argsort(-relative, kind="stable"):
        window = slice(max(position - CONTEXT, 0), position + CONTEXT + 1)
        if shown.sum() + (~shown[window]).sum() > budget:
            break
        shown[window] = True
    positions = _without_small_gaps(np.flatnonzero(shown), length)
    return positions, _with_gaps(positions, length)


def _without_small_gaps(positions: Int64[np.ndarray, " s"], length: int) -> Int64[np.ndarray, " s2"]:
    ends = np.concatenate([[-1], positions, [length]])
    filled = [np.arange(a + 1, b) for a, b in pairwise(ends.tolist()) if b - a <= SMALLEST_GAP]
    return np.unique(np.concatenate([positions, *filled]))


def _with_gaps(positions: Int64[np.ndarray, " s"], length: int) -> tuple[int | Gap, ...]:
    pieces: list[int | Gap] = []
    before = -1
    for position in [*positions.tolist(), length]:
        if position - before > 1:
            pieces.append(Gap(position - before - 1))
        pieces.append(position)
        before = position
    return tuple(pieces[:-1])
