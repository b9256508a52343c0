"""From one attention to a better one beside it: the program of a small box around it, solved again and again.

In a small box the chords are nearly the slopes of f and the logits behind a tail nearly linear, so that the bound's program becomes a
step of sequential linear programming. What it ends with is drawn onto the allowed set; the box shrinks where nothing was gained.
"""

from __future__ import annotations

import numpy as np

from attnaudit.core.kernels import kernel
from attnaudit.experiments.adversary.moves import draw_in, exchange
from attnaudit.experiments.adversary.program import Box, bound_box, tightened
from attnaudit.experiments.adversary.row import worth
from attnaudit.experiments.adversary.support import take_better

STEPS = 40
FIRST = 0.1
SHRINK = 0.4
SMALLEST = 1e-3
GAIN = 1e-6


@kernel
def climb(row, built, weights, found, furthest):
    """The best attention on the way from ``weights`` (changed in place), where it is further than ``found``, into ``furthest``."""
    if not draw_in(row, weights):
        return found
    trial, value, side = np.empty_like(weights), worth(row, weights), FIRST
    for _ in range(STEPS):
        if side < SMALLEST:
            break
        if _best_beside(row, built, weights, side, trial) and worth(row, trial) > value + GAIN:
            weights[:] = trial
            value = worth(row, weights)
        else:
            side *= SHRINK
    exchange(row, weights, np.flatnonzero(weights > 0.0))
    return take_better(row, weights, found, furthest)


@kernel
def _best_beside(row, built, weights, side, trial):
    """Into ``trial`` the end of the program of the box around ``weights``, drawn onto the allowed set; false where that fails."""
    low, high = np.maximum(weights - side, 0.0), np.minimum(weights + side, 1.0)
    box = Box(low, high, np.zeros(len(row.kept)), np.ones(len(row.kept)))
    if not tightened(low, high) or bound_box(built, box, trial) < 0.0:
        return False
    for t in range(len(trial)):
        if trial[t] < 1e-9:
            trial[t] = 0.0
    trial /= trial.sum()
    return draw_in(row, trial)
