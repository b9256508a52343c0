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

LOSSES = (1.0, 0.5, 0.2)  # where the first tangents touch, in shares of the largest loss
GAINS = np.linspace(0.0, 1.0, 9)  # the same, in shares of the logarithm of the largest gain
LEAST = 1e-12  # stands for a probability of 0, which has no logarithm
NEGLIGIBLE = 1e-6  # error of a chord, in JSD
CLASS_ERROR = 0.2  # weight of errors of outputs beside those of weights: about the best of a few
OPTIONS = {
    "presolve": False,  # takes longer than it saves on programs of this size
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


class Box(NamedTuple):
    """Limits of the weights, then of the gains, then of the losses of all probabilities."""

    low: Float[np.ndarray, " v"]
    high: Float[np.ndarray, " v"]


class Task(NamedTuple):
    """One row of k tokens and c classes.

    Attributes:
        scores: Log-odds of each token's output against the model's own, ``(k, c)``, each token's up
            to a constant.
        own: The model's own probabilities, ``(c,)``.
        alpha: The model's own attention, ``(k,)``.
        epsilon: Limit of the TVD.
        tangents: Changes of the probabilities at which tangents touch; more are added.
        most: Limits of the weight on each token and all of more attention together, ``(k,)``.
        errors: What may be added to the scores, each times a number from -1 to 1, ``(m, c)``.
    """

    scores: Float[np.ndarray, "k c"]
    own: Float[np.ndarray, " c"]
    alpha: Float[np.ndarray, " k"]
    epsilon: float
    tangents: list[np.ndarray]
    most: Float[np.ndarray, " k"]
    errors: Float[np.ndarray, "m c"]

    @classmethod
    def from_scores(
        cls, scores: np.ndarray, own: np.ndarray, alpha: np.ndarray, epsilon: float, step: int
    ) -> Task:
        """Return the task with every ``step``-th of the first tangents."""
        own, epsilon = np.maximum(own, LEAST), max(epsilon, LEAST)
        losses = [-share * np.minimum(epsilon, 0.9 * own) for share in LOSSES[::step]]
        # Evenly spread over the logarithm, which is what the tangents are to follow.
        rises = [own * np.expm1(share * np.log1p(epsilon / own)) for share in GAINS[::step]]
        free, none = np.ones(len(alpha)), np.zeros((0, len(own)))
        return cls(scores, own, alpha, epsilon, losses + rises, free, none)

    def box(self, low: np.ndarray | float = 0.0, high: np.ndarray | float = 1.0) -> Box:
        """Return the box of all outputs within ε, with these limits of the weights."""
        k, c = self.scores.shape
        # A little more than ε, so that the limit of their sum has the price.
        most = np.full(2 * c, (1.0 + NEGLIGIBLE) * self.epsilon)
        most[c:] = np.minimum(most[c:], self.own)
        return Box(
            np.append(np.broadcast_to(low, k), np.zeros(2 * c)),
            np.append(np.broadcast_to(high, k), most),
        )


class Solution(NamedTuple):
    """Solution of a program.

    Attributes:
        values: Weights, gains, losses, shares of errors and κ; None if the box is empty, or
            unsolved.
        bound: No attention of the box has a larger JSD, where the scores are exact.
        price: What a larger ε would add to the JSD.
    """

    values: Float[np.ndarray, " v1"] | None
    bound: float
    price: float = 0.0


def solve(task: Task, box: Box) -> Solution:
    """Maximise the chords of the JSD over the attentions of a box.

    Args:
        task: The row.
        box: Limits of all variables.

    Returns:
        The solution. Its bound follows from the dual prices by weak duality, so that no tolerance
        of the solver is in it.
    """
    k, c = task.scores.shape
    low, high = box.low[:k], box.high[:k]
    start, slope = _chords(gains(low, task.alpha), gains(high, task.alpha), low, high)
    matrix, right = _limits(task, box)
    # κ is a mean of log-odds.
    reach = np.abs(task.scores).max(initial=0.0) + np.abs(task.errors).sum() + 100.0
    full = np.append(np.ones(len(task.errors)), reach)
    lower, upper = np.append(box.low, -full), np.append(box.high, full)
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
    values = np.clip(found.x, lower, upper)
    values[:k] /= values[:k].sum()
    return Solution(values, float(0.5 * LN2 + start.sum() - dual), -float(prices[-1]))


def refine(task: Task, box: Box, solution: Solution) -> list[Box]:
    """Return boxes whose programs err less: the same with one more tangent, or its two parts.

    The box is cut at the variable whose chord errs most at the solution. None are returned where
    the solution is as good as exact.
    """
    (k, c), values = task.scores.shape, solution.values
    assert values is not None
    weights, gained, lost = values[:k], values[k : k + c], values[k + c : k + 2 * c]
    start, slope = _chords(
        gains(box.low[:k], task.alpha), gains(box.high[:k], task.alpha), box.low[:k], box.high[:k]
    )
    error = np.zeros(k + 2 * c)
    error[:k] = start + slope * weights - gains(weights, task.alpha)
    ratio = weights @ task.scores + values[k + 2 * c : -1] @ task.errors - values[-1]
    change = gained - lost
    start, slope = (part.reshape(2, c) for part in _logarithms(task, box))
    price = CLASS_ERROR * solution.price
    up = np.log1p(gained / task.own) - start[0] - slope[0] * gained
    with np.errstate(divide="ignore", invalid="ignore"):
        down = np.log1p(-lost / task.own) - start[1] - slope[1] * lost
    # Where a class may lose all it has: what is missing of the loss that its logit implies.
    missing = -np.expm1(np.minimum(ratio, 0.0)) - lost / task.own
    down = np.where(np.isfinite(slope[1]), down, missing)
    error[k:] = price * np.tile(task.own, 2) * np.append(up, down)
    chosen = int(error.argmax())
    above = price * (task.own + change) * (ratio - np.log1p(np.maximum(change / task.own, -0.9)))
    if above.max() > max(error[chosen], NEGLIGIBLE):
        task.tangents.append(np.maximum(change, -0.9 * task.own))
        return [box]
    if not error[chosen] > NEGLIGIBLE:
        return []
    margin = 0.1 * (box.high[chosen] - box.low[chosen])
    at = np.clip(values[chosen], box.low[chosen] + margin, box.high[chosen] - margin)
    high, low = box.high.copy(), box.low.copy()
    high[chosen] = low[chosen] = at
    return [Box(box.low, high), Box(low, box.high)]


def _chords(
    at_low: np.ndarray, at_high: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the chords of functions from ``low`` to ``high``: values at 0, and slopes."""
    width = high - low
    slope = (at_high - at_low) / np.where(width > 0.0, width, 1.0)
    with np.errstate(invalid="ignore"):
        return at_low - slope * low, slope


def _logarithms(task: Task, box: Box) -> tuple[np.ndarray, np.ndarray]:
    """Return the chords of ln(1 + g/p), then those of ln(1 − l/p): values at 0, and slopes."""
    k, c = task.scores.shape
    sign, p = np.repeat([1.0, -1.0], c), np.tile(task.own, 2)
    low, high = box.low[k:], box.high[k:]
    with np.errstate(divide="ignore", invalid="ignore"):
        return _chords(np.log1p(sign * low / p), np.log1p(sign * high / p), low, high)


def _limits(task: Task, box: Box) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of ``matrix · (w, g, l, e, κ) ≤ right``, scaled to entries of at most 1."""
    (k, c), m = task.scores.shape, len(task.errors)
    p, each, width = task.own, np.eye(c), k + 2 * c + m + 1
    ratio = np.hstack([task.scores.T, np.zeros((c, 2 * c)), task.errors.T, -np.ones((c, 1))])
    change = np.hstack([np.zeros((c, k)), each, -each, np.zeros((c, m + 1))])
    rows, right = [], []
    for touch in task.tangents:
        rows.append((p + touch)[:, None] * ratio - change)
        right.append((p + touch) * np.log1p(touch / p) - touch)
    start, slope = (part.reshape(2, c) for part in _logarithms(task, box))
    # A class that may lose all it has leaves its logit without a lower limit.
    finite = np.flatnonzero(np.isfinite(slope).all(axis=0))
    chord = np.zeros((len(finite), width))
    for part, side in enumerate(slope):
        chord[np.arange(len(finite)), k + part * c + finite] = side[finite]
    rows.append(p[finite, None] * (chord - ratio[finite]))
    right.append(-p[finite] * start[:, finite].sum(axis=0))
    order = np.argsort(task.alpha, kind="stable")
    falls = np.flatnonzero(np.diff(task.most[order]) < 0.0) + 1
    total = np.zeros((len(falls) + 1, width))
    total[:-1, order] = np.arange(k) >= falls[:, None]
    total[-1, k : k + c] = 1.0  # the last, as `solve` reads its price
    right.append(np.append(task.most[order][falls], task.epsilon))
    matrix, limits = np.vstack([*rows, total]), np.concatenate(right)
    size = np.maximum(np.abs(matrix).max(axis=1), 1.0)
    return matrix / size[:, None], limits / size
