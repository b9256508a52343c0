"""Attentions with the same attended sum: every vertex of their polytope by enumeration, and each range by a linear program of its own."""

from itertools import combinations

import numpy as np
from scipy.optimize import linprog

ROUNDING = 1e-9


def equations(trace, row):
    """``A α' = b``: the attended sum, and that the weights sum to 1; without what float32 cannot tell from an equation of the others."""
    contribution, alpha = trace.readout.contribution[row], trace.alpha[row]
    matrix = np.vstack([contribution.T, np.ones(len(alpha))])
    _, size, directions = np.linalg.svd(matrix, full_matrices=False)
    matrix = directions[size > 1e-6 * np.linalg.norm(matrix)]
    return matrix, matrix @ alpha


def null_dimension(trace, row):
    """Positions minus the number of independent equations."""
    matrix, _ = equations(trace, row)
    return matrix.shape[1] - len(matrix)


def vertices(trace, row):
    """Every attention with the same sum whose non-zero weights are determined by it."""
    matrix, right = equations(trace, row)
    size, found = matrix.shape[1], []
    for support in (
        s for k in range(1, min(size, len(matrix)) + 1) for s in combinations(range(size), k)
    ):
        part = matrix[:, list(support)]
        weights, _, rank, _ = np.linalg.lstsq(part, right, rcond=None)
        if (
            rank == len(support)
            and np.abs(part @ weights - right).max() < ROUNDING
            and weights.min() >= -ROUNDING
        ):
            point = np.zeros(size)
            point[list(support)] = weights
            found.append(point)
    return found


def largest_distance(trace, row):
    """The largest total variation distance to an attention with the same sum: that of a vertex, since the distance is convex."""
    return max(
        0.5 * float(np.abs(vertex - trace.alpha[row]).sum())
        for vertex in [trace.alpha[row], *vertices(trace, row)]
    )


def weight_range(trace, row, token):
    """The least and the largest weight of a token among the attentions with the same sum."""
    matrix, right = equations(trace, row)
    goal = np.eye(matrix.shape[1])[token]
    ends = [linprog(sign * goal, A_eq=matrix, b_eq=right, bounds=(0, 1)).x for sign in (1.0, -1.0)]
    return float(ends[0][token]), float(ends[1][token])
