"""The adversary for any readout, the plain way: a general optimiser on all small supports, a grid, and samples of what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
from scipy.optimize import minimize

from attnaudit.trace import Trace
from tests.oracles.readout import naive_jsd, naive_readout, naive_tvd


def searched_adversary(trace: Trace, row: int, epsilon: float, size: int, starts: int = 3, seed: int = 0) -> float:
    """The largest JSD that SLSQP reaches within ε on supports of at most ``size`` tokens, from ``starts`` random starts each."""
    alpha, distance = trace.alpha[row], _distance(trace, row)
    rng, best = np.random.default_rng([seed, row]), 0.0
    for support in _supports(len(alpha), size):
        for _ in range(1 if len(support) == 1 else starts):
            found = _climb(alpha, distance, support, rng.dirichlet(np.ones(len(support))), epsilon)
            if distance(found) <= epsilon:
                best = max(best, naive_jsd(found, alpha))
    return best


def sampled_adversary(trace: Trace, row: int, epsilon: float, samples: int = 3000, seed: int = 0) -> float:
    """The largest JSD among random attentions within ε, most of them with few non-zero weights."""
    alpha, distance = trace.alpha[row], _distance(trace, row)
    rng, best = np.random.default_rng([seed, row]), 0.0
    for _ in range(samples):
        size = rng.integers(1, min(len(alpha), 4) + 1)
        point = np.zeros(len(alpha))
        point[rng.choice(len(alpha), size, replace=False)] = rng.dirichlet(np.full(size, 0.8))
        if naive_jsd(point, alpha) > best and distance(point) <= epsilon:
            best = naive_jsd(point, alpha)
    return best


def grid_adversary(trace: Trace, row: int, epsilon: float, parts: int) -> float:
    """The largest JSD among attentions within ε whose weights are multiples of 1/``parts`` on at most three tokens."""
    alpha, distance, best = trace.alpha[row], _distance(trace, row), 0.0
    for support in _supports(len(alpha), 3):
        for weights in _compositions(parts, len(support)):
            point = np.zeros(len(alpha))
            point[list(support)] = np.array(weights) / parts
            if naive_jsd(point, alpha) > best and distance(point) <= epsilon:
                best = naive_jsd(point, alpha)
    return best


def _supports(length: int, size: int) -> list[tuple[int, ...]]:
    return [support for k in range(1, min(size, length) + 1) for support in combinations(range(length), k)]


def _compositions(parts: int, size: int) -> list[tuple[int, ...]]:
    if size == 1:
        return [(parts,)]
    return [(first, *rest) for first in range(1, parts) for rest in _compositions(parts - first, size - 1)]


def _distance(trace: Trace, row: int) -> Callable[[np.ndarray], float]:
    """TVD of the output under an attention from the model's own."""
    predict = naive_readout(trace, row)
    own = predict(trace.alpha[row])
    return lambda attention: naive_tvd(predict(attention), own)


def _climb(
    alpha: np.ndarray, distance: Callable[[np.ndarray], float], support: tuple[int, ...], start: np.ndarray, epsilon: float
) -> np.ndarray:
    """SLSQP from a point on the support: largest JSD with every probability and their distance within ε."""

    def spread(weights: np.ndarray) -> np.ndarray:
        point = np.zeros(len(alpha))
        point[list(support)] = np.maximum(weights, 0) / np.maximum(weights, 0).sum()
        return point

    if len(support) == 1:
        return spread(np.ones(1))
    constraints = [
        {"type": "eq", "fun": lambda w: w.sum() - 1},
        {"type": "ineq", "fun": lambda w: 0.999 * epsilon - distance(spread(w))},
    ]
    found = minimize(
        lambda w: -naive_jsd(spread(w), alpha), start, method="SLSQP", bounds=[(1e-9, 1)] * len(support),
        constraints=constraints, options={"maxiter": 40},
    )  # fmt: skip
    return spread(found.x)
