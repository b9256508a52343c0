"""The range of weights with the output within ε: as linear programs."""

import numpy as np
import scipy.sparse
from scipy.optimize import linprog
from scipy.special import expit, logit

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def ranges_by_programs(trace, row, epsilon):
    """(least, most) weight of every token: minimise and maximise α_t with α ≥ 0, Σ α = 1 and the probability of class 1 within ε.

    The 2 T programs of a row share no variable, so that the sum of all goals is optimal where each is.
    """
    alpha, readout = trace.alpha[row], trace.readout.contribution[row][:, -1]
    bias, size = trace.readout.offset[row][-1], len(alpha)
    if len(trace.readout.offset[row]) == 2:
        readout = readout - trace.readout.contribution[row][:, 0]
        bias = bias - trace.readout.offset[row][0]
    low, high = expit(bias + alpha @ readout) + np.array([-epsilon, epsilon])
    limits = [([readout], logit(high) - bias)] if high < 1 else []
    limits += [([-readout], bias - logit(low))] if low > 0 else []
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
