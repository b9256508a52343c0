"""The adversary for any readout, the plain way: a general optimiser on all small supports, a grid, and samples of what is allowed."""

from functools import cache, partial
from itertools import chain, combinations, combinations_with_replacement

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax, xlogy


def searched_adversary(trace, row, epsilon, size, starts=3, seed=0):
    """The largest JSD that SLSQP reaches within ε on supports of at most ``size`` tokens, from ``starts`` random starts each."""
    alpha, rng, found = (
        trace.alpha[row],
        np.random.default_rng([seed, row]),
        list(np.eye(len(trace.alpha[row]))),
    )
    predict = partial(predictions, trace, row)
    for support in chain(*(combinations(range(len(alpha)), k) for k in range(2, size + 1))):
        for _ in range(starts):
            start = rng.dirichlet(np.ones(len(support)))
            found.append(_climb(alpha, predict, support, start, epsilon))
    return largest_of(trace, row, epsilon, np.array(found))


def sampled_adversary(trace, row, epsilon, samples=3000, seed=0):
    """The largest JSD among random attentions within ε, most of them with few non-zero weights."""
    rng, points = np.random.default_rng([seed, row]), np.zeros((samples, len(trace.alpha[row])))
    for point in points:
        size = rng.integers(1, min(len(point), 4) + 1)
        point[rng.choice(len(point), size, replace=False)] = rng.dirichlet(np.full(size, 0.8))
    return largest_of(trace, row, epsilon, points)


def grid_adversary(trace, row, epsilon, parts):
    """The largest JSD among attentions within ε whose weights are multiples of 1/``parts`` on at most three tokens."""
    each = np.eye(len(trace.alpha[row]))
    weights = _grid(parts, min(3, len(each)))
    supports = combinations(each, weights.shape[1])
    return largest_of(trace, row, epsilon, np.vstack([weights @ tokens for tokens in supports]))


def largest_of(trace, row, epsilon, points):
    """The largest JSD among those attentions that are within ε."""
    alpha = trace.alpha[row]
    own = predictions(trace, row, alpha[None])
    allowed = points[within(predictions(trace, row, points), own) <= epsilon]
    return float(divergences(allowed, alpha).max(initial=0.0))


def _climb(alpha, predict, support, start, epsilon):
    """SLSQP from a point on the support: largest JSD with every probability and their distance within ε."""
    places, own = list(support), predict(alpha[None])

    def spread(weights):
        points = np.zeros((len(weights), len(alpha)))
        points[:, places] = np.maximum(weights, 0) / np.maximum(weights, 0).sum(
            axis=1, keepdims=True
        )
        return points

    def divergence(weights):
        return -divergences(spread(weights), alpha)

    def room(weights):
        return 0.999 * epsilon - within(predict(spread(weights)), own)

    constraints = [
        {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        {"type": "ineq", "fun": lambda w: room(w[None])[0], "jac": lambda w: _slopes(room, w)},
    ]
    found = minimize(
        lambda w: divergence(w[None])[0], start, jac=lambda w: _slopes(divergence, w), method="SLSQP", bounds=[(1e-9, 1)] * len(support),
        constraints=constraints, options={"maxiter": 40},
    )  # fmt: skip
    return spread(found.x[None])[0]


def _slopes(function, weights):
    """Differences of a function of several points, by each weight: all points in one call."""
    step = 1.5e-8
    values = function(np.vstack([weights, weights + step * np.eye(len(weights))]))
    return (values[1:] - values[0]) / step


def enumerated_adversary(trace, row, epsilon):
    """The largest JSD within ε of a row of at most three tokens: a fine grid, made finer around its best points until 1e-7."""
    alpha, step, best = trace.alpha[row], 1 / 400, 0.0
    own, points = predictions(trace, row, alpha[None]), _grid(400, len(alpha))
    around = np.array(list(np.ndindex(*[9] * (len(alpha) - 1)))) - 4.0
    while step > 1e-7:
        points = points[within(predictions(trace, row, points), own) <= epsilon]
        divergence = divergences(points, alpha)
        best = max(best, divergence.max(initial=0.0))
        points, step = points[np.argsort(-divergence)[:200]], step / 4
        free = (points[:, None, :-1] + step * around).reshape(-1, len(alpha) - 1)
        points = np.column_stack([free, 1 - free.sum(axis=1)])
        points[np.abs(points) < 1e-12] = 0.0
        points = points[(points >= 0).all(axis=1)]
    return best


def predictions(trace, row, attention):
    """The outputs under several attentions ``(m, T)`` of one row: ``(m, classes)``, a sigmoid counted as two."""
    readout = trace.readout
    pooled = readout.offset[row] + attention @ readout.contribution[row]
    logits = readout.tail(pooled, np.full(len(pooled), row))
    if logits.shape[1] == 1:
        logits = np.column_stack([np.zeros(len(logits)), logits])
    if trace.candidates is not None:
        logits = np.where(trace.candidates[row], logits, -np.inf)
    return softmax(logits, axis=1)


def within(outputs, own):
    """TVD of each of several outputs from one."""
    return 0.5 * np.abs(outputs - own).sum(axis=1)


def divergences(attention, alpha):
    """JSD of each of several attentions ``(m, T)`` from one: the entropy of the middle above the mean of theirs."""
    middle = 0.5 * (attention + alpha)
    return (0.5 * (xlogy(attention, attention) + xlogy(alpha, alpha)) - xlogy(middle, middle)).sum(
        axis=1
    )


@cache
def _grid(parts, size):
    """All attentions whose weights are multiples of 1/``parts``, zeros among them."""
    ends = combinations_with_replacement(range(parts + 1), size - 1)
    return np.array([np.diff([0, *cuts, parts]) for cuts in ends]) / parts
