"""The adversary for any readout, the plain way: a general optimiser on all small supports, a grid, and samples of what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations

import numpy as np
from scipy.optimize import minimize
from scipy.special import xlogy

from attnaudit.trace import Trace
from attnaudit.trace.tails import TanhTail
from tests.oracles.readout import naive_jsd, naive_readout, naive_tvd


def searched_adversary(
    trace: Trace, row: int, epsilon: float, size: int, starts: int = 3, seed: int = 0
) -> float:
    """The largest JSD that SLSQP reaches within ε on supports of at most ``size`` tokens, from ``starts`` random starts each."""
    alpha, distance, predict = trace.alpha[row], _distance(trace, row), _outputs(trace, row)
    rng, best = np.random.default_rng([seed, row]), 0.0
    for support in _supports(len(alpha), size):
        for _ in range(1 if len(support) == 1 else starts):
            found = _climb(alpha, predict, support, rng.dirichlet(np.ones(len(support))), epsilon)
            if distance(found) <= epsilon:
                best = max(best, naive_jsd(found, alpha))
    return best


def sampled_adversary(
    trace: Trace, row: int, epsilon: float, samples: int = 3000, seed: int = 0
) -> float:
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
    return [
        support
        for k in range(1, min(size, length) + 1)
        for support in combinations(range(length), k)
    ]


def _compositions(parts: int, size: int) -> list[tuple[int, ...]]:
    if size == 1:
        return [(parts,)]
    return [
        (first, *rest)
        for first in range(1, parts)
        for rest in _compositions(parts - first, size - 1)
    ]


def _distance(trace: Trace, row: int) -> Callable[[np.ndarray], float]:
    """TVD of the output under an attention from the model's own."""
    predict = naive_readout(trace, row)
    own = predict(trace.alpha[row])
    return lambda attention: naive_tvd(predict(attention), own)


def _climb(
    alpha: np.ndarray,
    predict: Callable[[np.ndarray], np.ndarray],
    support: tuple[int, ...],
    start: np.ndarray,
    epsilon: float,
) -> np.ndarray:
    """SLSQP from a point on the support: largest JSD with every probability and their distance within ε."""
    places, own = list(support), predict(alpha[None])

    def spread(weights: np.ndarray) -> np.ndarray:
        points = np.zeros((len(weights), len(alpha)))
        points[:, places] = np.maximum(weights, 0) / np.maximum(weights, 0).sum(
            axis=1, keepdims=True
        )
        return points

    def divergence(weights: np.ndarray) -> np.ndarray:
        return -divergences(spread(weights), alpha)

    def room(weights: np.ndarray) -> np.ndarray:
        return 0.999 * epsilon - within(predict(spread(weights)), own)

    if len(support) == 1:
        return spread(np.ones((1, 1)))[0]
    constraints = [
        {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        {"type": "ineq", "fun": lambda w: room(w[None])[0], "jac": lambda w: _slopes(room, w)},
    ]
    found = minimize(
        lambda w: divergence(w[None])[0], start, jac=lambda w: _slopes(divergence, w), method="SLSQP", bounds=[(1e-9, 1)] * len(support),
        constraints=constraints, options={"maxiter": 40},
    )  # fmt: skip
    return spread(found.x[None])[0]


def _slopes(function: Callable[[np.ndarray], np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Differences of a function of several points, by each weight: all points in one call."""
    step = 1.5e-8
    values = function(np.vstack([weights, weights + step * np.eye(len(weights))]))
    return (values[1:] - values[0]) / step


def enumerated_adversary(trace: Trace, row: int, epsilon: float) -> float:
    """The largest JSD within ε of a row of at most three tokens: a fine grid, made finer around its best points until 1e-7."""
    alpha, step = trace.alpha[row], 1 / 400
    own = predictions(trace, row, alpha[None])
    points = _grid_with_zeros(400, len(alpha))
    around = np.array(list(np.ndindex(*[9] * (len(alpha) - 1)))) - 4.0
    best = 0.0
    while step > 1e-7:
        points = points[within(predictions(trace, row, points), own) <= epsilon]
        divergence = divergences(points, alpha)
        best = max(best, divergence.max(initial=0.0))
        points, step = points[np.argsort(-divergence)[:200]], step / 4
        free = (points[:, None, :-1] + step * around).reshape(-1, len(alpha) - 1)
        free = np.where(np.abs(free) < 1e-12, 0.0, free)
        points = np.column_stack([free, 1 - free.sum(axis=1)])
        points[np.abs(points) < 1e-12] = 0.0
        points = points[(points >= 0).all(axis=1)]
    return best


def predictions(trace: Trace, row: int, attention: np.ndarray) -> np.ndarray:
    """The outputs under several attentions ``(m, T)`` of one row: ``(m, classes)``, a sigmoid counted as two."""
    return _outputs(trace, row)(attention)


def _outputs(trace: Trace, row: int) -> Callable[[np.ndarray], np.ndarray]:
    """`predictions` of one row as a function of its attentions."""
    offset, contribution, tail = (
        trace.readout.offset[row],
        trace.readout.contribution[row],
        trace.readout.tail,
    )
    allowed = None if trace.candidates is None else trace.candidates[row]
    tanh = (np.asarray(tail.weight).T, tail.bias) if isinstance(tail, TanhTail) else None

    def predict(attention: np.ndarray) -> np.ndarray:
        logits = offset + attention @ contribution
        if tanh is not None:
            logits = np.tanh(logits) @ tanh[0] + tanh[1]
        if logits.shape[1] == 1:
            logits = np.column_stack([np.zeros(len(logits)), logits])
        if allowed is not None:
            logits = np.where(allowed, logits, -np.inf)
        raised = np.exp(logits - logits.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)

    return predict


def within(outputs: np.ndarray, own: np.ndarray) -> np.ndarray:
    """TVD of each of several outputs from one."""
    return 0.5 * np.abs(outputs - own).sum(axis=1)


def divergences(attention: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """JSD of each of several attentions ``(m, T)`` from one: the entropy of the middle above the mean of theirs."""
    middle = 0.5 * (attention + alpha)
    return (0.5 * (xlogy(attention, attention) + xlogy(alpha, alpha)) - xlogy(middle, middle)).sum(
        axis=1
    )


@cache
def _grid_with_zeros(parts: int, size: int) -> np.ndarray:
    """All attentions whose weights are multiples of 1/``parts``, zeros among them."""
    return np.array(list(_compositions_with_zeros(parts, size))) / parts


def _compositions_with_zeros(parts: int, size: int) -> Iterator[tuple[int, ...]]:
    if size == 1:
        yield (parts,)
        return
    for first in range(parts + 1):
        yield from ((first, *rest) for rest in _compositions_with_zeros(parts - first, size - 1))
