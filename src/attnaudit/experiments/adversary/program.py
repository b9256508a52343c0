"""Linear programs over attentions whose output stays within ε, solved by HiGHS.

JSD to the model's attention is ½ ln 2 + Σ_t f(w_t, â_t) with f convex (`exact.gains`). Between
limits of the weights its chords bound it from above, so that a program that allows at least the
attentions within ε bounds the JSD of all of them.

Beside the weights w the program has the gains g and losses l of all probabilities as variables,
with Σ g = Σ l ≤ ε, and one number κ for the normalisation. Where logits are linear in the
attention, the log-odds ratio Σ_t w_t s_tc is ln(1 + (g_c − l_c)/p_c) + κ. The logarithm is concave:
it lies below its tangents, and above the sum of its chords over the limits of g_c and of l_c, one
of which is 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # imports its parts on use: two classes need no program
from jaxtyping import Float

from attnaudit.experiments.adversary.exact import gains
from attnaudit.stats.measures import LN2

LOSSES = (1.0, 0.5, 0.2)  # where tangents touch, in shares of the largest loss
GAINS = np.linspace(0.0, 1.0, 9)  # the same, in shares of the logarithm of the largest gain
FEW, COARSE = 24, 4  # classes that have all tangents; programs of more have every fourth
LEAST = 1e-12  # stands for a probability of 0, which has no logarithm
NEGLIGIBLE = 1e-6  # error of a chord, in JSD
OPTIONS = {
    "presolve": False,  # takes longer than it saves on programs of this size
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


class Box(NamedTuple):
    """Limits of the weights."""

    low: Float[np.ndarray, " k"]
    high: Float[np.ndarray, " k"]


class Task(NamedTuple):
    """One row of k tokens and c classes.

    Attributes:
        alpha: The model's own attention, ``(k,)``.
        own: The model's own probabilities, ``(c,)``.
        scores: Log-odds of each token's output against the model's own, ``(k, c)``, each token's up
            to a constant.
        epsilon: Limit of the TVD.
        most: Limits of the weight on each token and all of more attention together, ``(k,)``.
        errors: What may be added to the scores, each times a number from -1 to 1, ``(m, c)``.
    """

    alpha: Float[np.ndarray, " k"]
    own: Float[np.ndarray, " c"]
    scores: Float[np.ndarray, "k c"]
    epsilon: float
    most: Float[np.ndarray, " k"]
    errors: Float[np.ndarray, "m c"]

    @classmethod
    def from_scores(
        cls, alpha: np.ndarray, own: np.ndarray, scores: np.ndarray, epsilon: float
    ) -> Task:
        """Return the task of exact scores, whose weights have no limits."""
        free, none = np.ones(len(alpha)), np.zeros((0, len(own)))
        return cls(alpha, np.maximum(own, LEAST), scores, max(epsilon, LEAST), free, none)


class Solution(NamedTuple):
    """Solution of a program.

    Attributes:
        weights: The attention; None if the box is empty, or unsolved.
        bound: No attention of the box has a larger JSD, where the scores are exact.
    """

    weights: Float[np.ndarray, " k"] | None
    bound: float


def solve(task: Task, box: Box) -> Solution:
    """Maximise the chords of the JSD over the attentions of a box.

    Args:
        task: The row.
        box: Limits of the weights.

    Returns:
        The solution. Its bound follows from the dual prices by weak duality, so that no tolerance
        of the solver is in it.
    """
    (k, c), m = task.scores.shape, len(task.errors)
    start, slope = _chords(task.alpha, box)
    matrix, right = _limits(task)
    # κ is a mean of log-odds.
    reach = np.abs(task.scores).max(initial=0.0) + np.abs(task.errors).sum() + 100.0
    full, gain = np.append(np.ones(m), reach), np.full(c, task.epsilon)
    lower = np.concatenate([box.low, np.zeros(2 * c), -full])
    upper = np.concatenate([box.high, gain, np.minimum(gain, task.own), full])
    goal, sums = np.zeros(len(lower)), np.zeros((2, len(lower)))
    # Weights sum to 1, and what some classes gain others lose.
    goal[:k], sums[0, :k], sums[1, k : k + 2 * c] = -slope, 1.0, np.repeat([1.0, -1.0], c)
    limits = np.column_stack([lower, upper])
    found = scipy.optimize.linprog(goal, matrix, right, sums, [1.0, 0.0], limits, options=OPTIONS)
    if found.x is None:
        return Solution(None, -np.inf if found.status == 2 else np.inf)
    prices, free = np.minimum(found.ineqlin.marginals, 0.0), found.eqlin.marginals
    rest = goal - matrix.T @ prices - sums.T @ free
    dual = right @ prices + free[0] + np.minimum(rest * lower, rest * upper).sum()
    weights = np.clip(found.x[:k], box.low, box.high)
    return Solution(weights / weights.sum(), float(0.5 * LN2 + start.sum() - dual))


def halves(alpha: np.ndarray, box: Box, weights: Float[np.ndarray, " k"]) -> list[Box]:
    """Cut a box at the weight whose chord errs most; return none if all are as good as exact."""
    start, slope = _chords(alpha, box)
    error = start + slope * weights - gains(weights, alpha)
    chosen = int(error.argmax())
    if not error[chosen] > NEGLIGIBLE:
        return []
    margin = 0.1 * (box.high[chosen] - box.low[chosen])
    at = np.clip(weights[chosen], box.low[chosen] + margin, box.high[chosen] - margin)
    high, low = box.high.copy(), box.low.copy()
    high[chosen] = low[chosen] = at
    return [Box(box.low, high), Box(low, box.high)]


def _chords(alpha: np.ndarray, box: Box) -> tuple[np.ndarray, np.ndarray]:
    """Return the chords of the gains over a box: values at 0, and slopes."""
    at_low, at_high = gains(box.low, alpha), gains(box.high, alpha)
    width = box.high - box.low
    slope = (at_high - at_low) / np.where(width > 0.0, width, 1.0)
    return at_low - slope * box.low, slope


def _limits(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of ``matrix · (w, g, l, e, κ) ≤ right``, scaled to entries of at most 1."""
    (k, c), m = task.scores.shape, len(task.errors)
    p, epsilon, each = task.own, task.epsilon, np.eye(c)
    ratio = np.hstack([task.scores.T, np.zeros((c, 2 * c)), task.errors.T, -np.ones((c, 1))])
    change = np.hstack([np.zeros((c, k)), each, -each, np.zeros((c, m + 1))])
    step = 1 if c <= FEW and not m else COARSE
    touches = [-share * np.minimum(epsilon, 0.9 * p) for share in LOSSES[::step]]
    # Evenly spread over the logarithm, which is what the tangents are to follow.
    touches += [p * np.expm1(share * np.log1p(epsilon / p)) for share in GAINS[::step]]
    rows = [(p + touch)[:, None] * ratio - change for touch in touches]
    right = [(p + touch) * np.log1p(touch / p) - touch for touch in touches]
    # A class that may lose all it has leaves its logit without a lower limit.
    finite = p > epsilon
    gain, loss = np.log1p(epsilon / p), np.log1p(-epsilon / p, where=finite, out=np.zeros(c))
    chords = np.hstack([np.zeros((c, k)), each * gain, each * loss, np.zeros((c, m + 1))])
    rows.append((p[:, None] * (chords / epsilon - ratio))[finite])
    right.append(np.zeros(finite.sum()))
    order = np.argsort(task.alpha, kind="stable")
    falls = np.flatnonzero(np.diff(task.most[order]) < 0.0) + 1
    total = np.zeros((len(falls) + 1, ratio.shape[1]))
    total[:-1, order] = np.arange(k) >= falls[:, None]
    total[-1, k : k + c] = 1.0
    right.append(np.append(task.most[order][falls], epsilon))
    matrix, limits = np.vstack([*rows, total]), np.concatenate(right)
    size = np.maximum(np.abs(matrix).max(axis=1), 1.0)
    return matrix / size[:, None], limits / size
