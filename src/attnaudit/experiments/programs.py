"""Linear programs over the attentions of one row, solved by HiGHS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from attnaudit.core.tolerance import TOLERANCE


class Constraints(NamedTuple):
    """Constraints ``matrix @ attention ≤ limit``, or ``= limit`` if they are ``equal``."""

    matrix: Float[np.ndarray, "m T"]
    limit: Float[np.ndarray, " m"]
    equal: bool = False


class Solution(NamedTuple):
    """Best attention found for each goal, and an upper bound on the goal's value."""

    attention: Float[np.ndarray, "g T"]
    bound: Float[np.ndarray, " g"]


def maximise(
    goals: Float[np.ndarray, "g T"], constraints: Constraints, own: Float[np.ndarray, " T"]
) -> Solution:
    """Maximise each of ``goals @ attention`` over the attentions that meet the constraints.

    The bounds use weak duality: for any dual prices λ (λ ≥ 0 for inequalities) a goal g is at most
    max_t (g_t − λ·M_t) + λ·limit. They hold even if the solver is inexact.

    Args:
        goals: Value of the weight on each token, for each goal.
        constraints: Constraints on an attention besides weights ≥ 0 that sum to 1.
        own: An attention that meets the constraints; the solution if rounding leaves the solver
            no other.

    Returns:
        An attention and an upper bound for each goal.
    """
    matrix, limit, equal = constraints
    count = len(goals)
    # Without constraints the best attention is all on one token.
    if not count or not len(limit):
        return Solution(np.eye(len(own))[goals.argmax(axis=1)], goals.max(axis=1))
    # All programs are one block-diagonal program: scipy spends milliseconds on each call.
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
        # Presolve takes longer than it saves on programs this small.
        options={"presolve": False},
    )
    if solved.x is None:
        return Solution(np.tile(own, (count, 1)), goals.max(axis=1))
    if equal:
        prices = -solved.eqlin.marginals.reshape(count, -1)[:, :-1]
    else:
        # The bound needs λ ≥ 0, which the solver meets only to its tolerance.
        prices = np.maximum(-solved.ineqlin.marginals.reshape(count, -1), 0.0)
    bound = (goals - prices @ matrix).max(axis=1) + prices @ limit + TOLERANCE.rounding
    # The same holds for weights ≥ 0 and their sum.
    attention = np.maximum(solved.x.reshape(goals.shape), 0.0)
    return Solution(
        attention / attention.sum(axis=1, keepdims=True), np.minimum(bound, goals.max(axis=1))
    )
