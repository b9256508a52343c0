"""The range of weights with the output within ε: as linear programs where one logit decides, as a fine grid over two tokens otherwise."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from scipy.optimize import linprog
from scipy.special import expit, logit

from attnaudit.trace import Trace
from tests.oracles.readout import naive_readout, naive_tvd

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def ranges_by_programs(trace: Trace, row: int, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """(least, most) weight of every token: minimise and maximise α_t with α ≥ 0, Σ α = 1 and the probability of class 1 within ε.

    The 2 T programs of a row share no variable, so that the sum of all goals is optimal where each is.
    """
    alpha, contribution, offset = (
        trace.alpha[row],
        trace.readout.contribution[row],
        trace.readout.offset[row],
    )
    readout, bias = (
        (contribution[:, 1] - contribution[:, 0], offset[1] - offset[0])
        if len(offset) == 2
        else (contribution[:, 0], offset[0])
    )
    probability = expit(bias + alpha @ readout)
    above, below, size = [readout], [-readout], len(alpha)
    limits = [(part, bound) for part, bound in (
        (above, logit(probability + epsilon) - bias if probability + epsilon < 1 else np.inf),
        (below, bias - logit(probability - epsilon) if probability - epsilon > 0 else np.inf),
    ) if np.isfinite(bound)]  # fmt: skip
    each = scipy.sparse.eye(2 * size)
    slab = (
        scipy.sparse.kron(each, np.vstack([part for part, _ in limits]), format="csr")
        if limits
        else None
    )
    bounds = np.tile([bound for _, bound in limits], 2 * size) if limits else None
    sums = scipy.sparse.kron(each, np.ones((1, size)), format="csr")
    goals = np.concatenate([np.eye(size).ravel(), -np.eye(size).ravel()])
    found = linprog(
        goals,
        A_ub=slab,
        b_ub=bounds,
        A_eq=sums,
        b_eq=np.ones(2 * size),
        bounds=(0, 1),
        method="highs",
        options=TIGHT,
    )
    least, most = found.x.reshape(2, size, size)
    return np.diag(least), np.diag(most)


def ranges_of_two(
    trace: Trace, row: int, epsilon: float, steps: int = 400
) -> tuple[np.ndarray, np.ndarray]:
    """(least, most) weight of each of two tokens on a grid, any outputs and tail."""
    predict = naive_readout(trace, row)
    own = predict(trace.alpha[row])
    grid = np.linspace(0.0, 1.0, steps + 1)
    kept = [
        w
        for w in [*grid, trace.alpha[row][0]]
        if naive_tvd(predict(np.array([w, 1.0 - w])), own) <= epsilon
    ]
    return np.array([min(kept), 1.0 - max(kept)]), np.array([max(kept), 1.0 - min(kept)])
