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

from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.adversary.exact import gains
from attnaudit.stats.measures import LN2

Vector = Float[np.ndarray, " v"]

TANGENTS, FEW, COARSE = 12, 24, 4  # per class; COARSE tangents with more than FEW classes
BISECTIONS = 24  # of the price of log-odds
LEAST = 1e-12  # stands for a probability of 0, which has no logarithm
NEGLIGIBLE = 1e-6  # error of a chord, in JSD
CLASS_ERROR = 0.2  # weight of output errors relative to weight errors: near the best of a few
OPTIONS = {
    "presolve": False,  # takes longer than it saves on programs of this size
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


class Box(NamedTuple):
    """Limits of the weights, then of the changes of all probabilities."""

    low: Vector
    high: Vector


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

    def box(self, low: np.ndarray, high: np.ndarray) -> Box:
        """Return the box of all outputs within ε, given limits of the weights."""
        gain = np.full(len(self.own), self.epsilon)
        return Box(np.append(low, -np.minimum(gain, self.own)), np.append(high, gain))


class Solution(NamedTuple):
    """Solution of a program.

    Attributes:
        weights: The attention; None if the box is empty, or unsolved.
        bound: No attention of the box has a larger JSD, where the scores are exact.
        points: The weights and the changes that their logits imply; a box is cut there.
        errors: Error of the program in each of them, in JSD.
    """

    weights: Float[np.ndarray, " k"] | None
    bound: float
    points: Vector
    errors: Vector


def solve(task: Task, box: Box) -> Solution:
    """Maximise the chords of the JSD over the attentions of a box.

    Args:
        task: The row.
        box: Limits of the weights and the changes.

    Returns:
        The solution. Its bound follows from the dual prices by weak duality, so that no tolerance
        of the solver is in it.
    """
    (k, c), m = task.scores.shape, len(task.errors)
    low, high = box.low[:k], box.high[:k]
    start, slope = _chords(gains(low, task.alpha), gains(high, task.alpha), low, high)
    matrix, right = _limits(task, box)
    # κ is a mean of log-odds.
    reach = np.abs(task.scores).max(initial=0.0) + np.abs(task.errors).sum() + 100.0
    full, changes = np.append(np.ones(m), reach), np.append(box.low[k:], -box.high[k:])
    lower = np.concatenate([low, np.maximum(changes, 0.0), -full])
    upper = np.concatenate([high, np.maximum(-np.roll(changes, c), 0.0), full])
    goal, sums = np.zeros(len(lower)), np.zeros((2, len(lower)))
    # Weights sum to 1, and what some classes gain others lose.
    goal[:k], sums[0, :k], sums[1, k : k + 2 * c] = -slope, 1.0, np.repeat([1.0, -1.0], c)
    limits = np.column_stack([lower, upper])
    found = scipy.optimize.linprog(goal, matrix, right, sums, [1.0, 0.0], limits, options=OPTIONS)
    if found.x is None:
        return Solution(None, -np.inf if found.status == 2 else np.inf, box.low, 0.0 * box.low)
    prices, free = np.minimum(found.ineqlin.marginals, 0.0), found.eqlin.marginals
    rest = goal - matrix.T @ prices - sums.T @ free
    dual = right @ prices + free[0] + np.minimum(rest * lower, rest * upper).sum()
    weights, gain, loss = np.split(found.x[: k + 2 * c], [k, k + c])
    ratio = weights @ task.scores + found.x[k + 2 * c : -1] @ task.errors - found.x[-1]
    implied = task.own * np.expm1(np.minimum(ratio, np.log1p(task.epsilon / task.own)))
    of_weights = start + slope * weights - gains(weights, task.alpha)
    of_changes = -CLASS_ERROR * prices[-1] * np.abs(implied - gain + loss)
    points, errors = np.append(weights, implied), np.append(of_weights, of_changes)
    weights = np.clip(weights, low, high)
    return Solution(weights / weights.sum(), float(0.5 * LN2 + start.sum() - dual), points, errors)


def best_weights(task: Task, box: Box) -> Vector | None:
    """Return the weights that solve a program of exact scores; None if there are none.

    With two classes only the log-odds are limited. Then no tangents are needed: weight goes to
    tokens in descending order of slope minus price times log-odds. The price is the one at which
    the log-odds reach the limit that they would otherwise exceed.
    """
    if len(task.own) != 2:
        return solve(task, box).weights
    k, (p, q), odds = len(task.alpha), task.own, task.scores[:, 1] - task.scores[:, 0]
    low, high = box.low[:k], box.high[:k]
    slope, room = _chords(gains(low, task.alpha), gains(high, task.alpha), low, high)[1], high - low

    def filled(angle: float) -> Vector:
        """Return the best weights at the price ``tan(angle)``."""
        order = np.argsort(np.sin(angle) * odds - np.cos(angle) * slope)
        left = 1.0 - low.sum() - np.cumsum(room[order]) + room[order]
        weights = low.copy()
        weights[order] += np.clip(left, 0.0, room[order])
        return weights

    free = filled(0.0)
    if free.sum() < 1.0 - TOLERANCE.solver:
        return None
    if free @ odds < 0.0:  # the other class gains
        odds, p, q = -odds, q, p
    with np.errstate(divide="ignore"):
        rise = min(task.epsilon, p)
        most = np.log1p(rise / q) - np.log1p(-rise / p)
    if free @ odds <= most:
        return free
    beyond, within = 0.0, 0.5 * np.pi
    for _ in range(BISECTIONS):
        angle = 0.5 * (beyond + within)
        beyond, within = (angle, within) if filled(angle) @ odds > most else (beyond, angle)
    start, end = filled(beyond), filled(within)
    above, below = start @ odds - most, most - end @ odds
    return (below * start + above * end) / (above + below) if below >= 0.0 else None


def halves(box: Box, solution: Solution) -> list[Box]:
    """Cut a box where its program errs most; return none if it is nearly exact."""
    chosen = int(solution.errors.argmax())
    if not solution.errors[chosen] > NEGLIGIBLE:
        return []
    high, low = box.high.copy(), box.low.copy()
    margin = 0.1 * (high[chosen] - low[chosen])
    at = np.clip(solution.points[chosen], low[chosen] + margin, high[chosen] - margin)
    high[chosen] = low[chosen] = at
    return [Box(box.low, high), Box(low, box.high)]


def _chords(
    at_low: np.ndarray, at_high: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return values at 0 and slopes of the chords of functions from ``low`` to ``high``."""
    width = high - low
    slope = (at_high - at_low) / np.where(width > 0.0, width, 1.0)
    return at_low - slope * low, slope


def _limits(task: Task, box: Box) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of ``matrix · (w, g, l, e, κ) ≤ right``, scaled to entries of at most 1."""
    (k, c), m = task.scores.shape, len(task.errors)
    p, low, high, each = task.own, box.low[k:], box.high[k:], np.eye(c)
    ratio = np.hstack([task.scores.T, np.zeros((c, 2 * c)), task.errors.T, -np.ones((c, 1))])
    change = np.hstack([np.zeros((c, k)), each, -each, np.zeros((c, m + 1))])
    number = TANGENTS if c <= FEW + 1 and m < 2 else COARSE
    # Evenly spread over the logarithm, which is what the tangents are to follow.
    first, last = np.log1p(np.maximum(low / p, -0.9)), np.log1p(np.maximum(high / p, -0.9))
    touches = p * np.expm1(np.linspace(first, last, number))
    rows = [(p + touch)[:, None] * ratio - change for touch in touches]
    right = [(p + touch) * np.log1p(touch / p) - touch for touch in touches]
    # A class that may lose all it has leaves its logit without a lower limit.
    finite = low > -p
    chord, constant = np.zeros((c, ratio.shape[1])), np.zeros(c)
    for sign, start, end in ((1.0, low, high), (-1.0, -high, -low)):
        start, end = np.maximum(start, 0.0), np.maximum(end, 0.0)
        at_start, at_end = np.log1p(np.where(finite, sign * np.stack([start, end]) / p, 0.0))
        at_zero, slope = _chords(at_start, at_end, start, end)
        chord += np.maximum(sign * change, 0.0) * slope[:, None]
        constant += at_zero
    rows.append((p[:, None] * (chord - ratio))[finite])
    right.append(-(p * constant)[finite])
    order = np.argsort(task.alpha, kind="stable")
    falls = np.flatnonzero(np.diff(task.most[order]) < 0.0) + 1
    total = np.zeros((len(falls) + 1, ratio.shape[1]))
    total[:-1, order] = np.arange(k) >= falls[:, None]
    total[-1, k : k + c] = 1.0
    right.append(np.append(task.most[order][falls], task.epsilon))
    matrix, limits = np.vstack([*rows, total]), np.concatenate(right)
    size = np.maximum(np.abs(matrix).max(axis=1), 1.0)
    return matrix / size[:, None], limits / size
