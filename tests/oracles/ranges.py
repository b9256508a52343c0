"""The range of weights with the output within ε: as linear programs where one logit decides, as a fine grid over two tokens otherwise."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from scipy.optimize import linprog
from scipy.special import expit, logit

from attnaudit.trace import Trace
from tests.oracles.readout import naive_prediction, naive_tvd

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def ranges_by_programs(trace: Trace, row: int, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """(least, most) weight of every token: minimise and maximise α_t with α ≥ 0, Σ α = 1 and the probability of class 1 within ε.

    The T programs of a row share no variable, so that the sum of all goals is optimal where each is.
    """
    alpha, contribution, offset = trace.alpha[row], trace.readout.contribution[row], trace.readout.offset[row]
    readout, bias = (
        (contribution[:, 1] - contribution[:, 0], offset[1] - offset[0]) if len(offset) == 2 else (contribution[:, 0], offset[0])
    )
    probability = expit(bias + alpha @ readout)
    above, below, size = [readout], [-readout], len(alpha)
    limits = [(part, bound) for part, bound in (
        (above, logit(probability + epsilon) - bias if probability + epsilon < 1 else np.inf),
        (below, bias - logit(probability - epsilon) if probability - epsilon > 0 else np.inf),
    ) if np.isfinite(bound)]  # fmt: skip
    slab = scipy.sparse.block_diag([np.vstack([part for part, _ in limits])] * size, format="csr") if limits else None
    bounds = np.tile([bound for _, bound in limits], size) if limits else None
    sums = scipy.sparse.block_diag([np.ones((1, size))] * size, format="csr")

    def ends(sign: float) -> np.ndarray:
        goals = sign * np.eye(size).ravel()
        found = linprog(goals, A_ub=slab, b_ub=bounds, A_eq=sums, b_eq=np.ones(size), bounds=(0, 1), method="highs", options=TIGHT)
        return np.diag(found.x.reshape(size, size))

    return ends(1.0), ends(-1.0)


def ranges_of_two(trace: Trace, row: int, epsilon: float, steps: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """(least, most) weight of each of two tokens on a grid, any outputs and tail."""
    own = naive_prediction(trace, row, trace.alpha[row])
    grid = np.linspace(0.0, 1.0, steps + 1)
    kept = [w for w in [*grid, trace.alpha[row][0]] if naive_tvd(naive_prediction(trace, row, np.array([w, 1.0 - w])), own) <= epsilon]
    return np.array([min(kept), 1.0 - max(kept)]), np.array([max(kept), 1.0 - min(kept)])
