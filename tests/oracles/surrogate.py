"""The square-root LASSO by a general optimiser, and what a surrogate's table says, by loops."""

import numpy as np
from scipy.optimize import minimize

from tests.oracles.replacement import partial_spearman


def square_root_lasso(lost, fall, length):
    """Weights and base that minimise the root of the mean square plus the penalty.

    Each weight is a difference of two numbers ≥ 0, so that the function is smooth. Words that copies
    always lose together share a weight: the penalty of their sum is the same however it is divided.
    """
    kept = np.array([[float(t in copy) for t in range(length)] for copy in lost])
    alike = [tuple(column) for column in kept.T]
    distinct = sorted(set(alike))
    x = np.array(distinct).T
    penalty = np.sqrt(2 * np.log(max(len(distinct), 2)) / len(fall)) * x.std(axis=0)
    size = len(distinct)

    def loss(z):
        weights, base = z[:size] - z[size : 2 * size], z[-1]
        left = fall - base - x @ weights
        root = np.sqrt((left**2).mean())
        slope = -x.T @ left / len(fall) / root
        value = root + penalty @ (z[:size] + z[size : 2 * size])
        return value, np.concatenate([slope + penalty, penalty - slope, [-left.mean() / root]])

    start = np.concatenate([np.zeros(2 * size), [fall.mean()]])
    bounds = [(0, None)] * (2 * size) + [(None, None)]
    options = {"maxiter": 50_000, "maxfun": 500_000, "ftol": 1e-15, "gtol": 1e-10}
    found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options).x
    each = dict(zip(distinct, found[:size] - found[size : 2 * size], strict=True))
    return np.array([*(each[column] / alike.count(column) for column in alike), found[-1]])


def held_out(lost, fall, change, alpha, first):
    """R², the surrogate's correlation and attention's, each half judged by a fit to the other."""
    second = set(range(len(lost))) - first
    error = power = 0.0
    correlations = []
    for fitted, judged in ((first, second), (second, first)):
        own = [lost[m] for m in sorted(fitted)]
        *weights, base = square_root_lasso(own, fall[sorted(fitted)], len(alpha))
        others = [lost[m] for m in sorted(judged)]
        for m in judged:
            error += (fall[m] - base - sum(weights[t] for t in lost[m])) ** 2
            power += (fall[m] - fall[sorted(fitted)].mean()) ** 2
        correlations.append([
            partial_spearman(others, np.asarray(score), change[sorted(judged)]) if np.any(score) else 0.0
            for score in (np.abs(weights), alpha)
        ])  # fmt: skip
    surrogate, attention = np.mean(correlations, axis=0)
    return 1 - error / power, surrogate, attention
