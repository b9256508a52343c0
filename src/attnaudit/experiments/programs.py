"""Linear programs over the attentions of one row, solved by HiGHS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from attnaudit.core.tolerance import TOLERANCE


class Constraints(NamedTuple):
    """``matrix @ attention ≤ limit``, or equal to it."""

    matrix: Float[np.ndarray, "m T"]
    limit: Float[np.ndarray, " m"]
    equal: bool = False


class Solution(NamedTuple):
    """An attention for each goal, and a value that the goal exceeds under no feasible attention."""

    attention: Float[np.ndarray, "g T"]
    bound: Float[np.ndarray, " g"]


def maximise(
    goals: Float[np.ndarray, "g T"], constraints: Constraints, own: Float[np.ndarray, " T"]
) -> Solution:
    """Maximise each of ``goals @ attention`` over the attentions that meet the constraints.

    All programs are solved in one call. The bounds come from the programs' prices λ and hold for
    any prices (λ ≥ 0 of an inequality): a goal g never exceeds max_t (g_t − λ·M_t) + λ·limit. So
    nothing rests on the tolerances of the solver.

    Args:
        goals: Value of the weight on each token, for each goal.
        constraints: Conditions on an attention besides weights ≥ 0 that sum to 1.
        own: An attention that meets the constraints, the answer where rounding leaves no other.
    """
    matrix, limit, equal = constraints
    count = len(goals)
    if not count or not len(limit):
        return Solution(np.eye(len(own))[goals.argmax(axis=1)], goals.max(axis=1))
    each = scipy.sparse.eye_array(count)
    exact = np.vstack([matrix, np.ones_like(own)]) if equal else np.ones((1, len(own)))
    solved = scipy.optimize.linprog(
        -goals.ravel(),
        A_ub=None if equal else scipy.sparse.kron(each, matrix, format="csr"),
        b_ub=None if equal else np.tile(limit, count),
        A_eq=scipy.sparse.kron(each, exact, format="csr"),
        b_eq=np.tile(np.append(limit, 1.0) if equal else 1.0, count),
        bounds=(0, None),
        method="highs",
        options={"presolve": False},  # presolving takes longer than it saves
    )
    if solved.x is None:
        return Solution(np.tile(own, (count, 1)), goals.max(axis=1))
    if equal:
        prices = -solved.eqlin.marginals.reshape(count, -1)[:, :-1]
    else:
        prices = np.maximum(-solved.ineqlin.marginals.reshape(count, -1), 0.0)
    bound = (goals - prices @ matrix).max(axis=1) + prices @ limit + TOLERANCE.rounding
    attention = np.maximum(solved.x.reshape(goals.shape), 0.0)
    return Solution(
        attention / attention.sum(axis=1, keepdims=True), np.minimum(bound, goals.max(axis=1))
    )
