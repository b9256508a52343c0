"""Jain & Wallace 2019, Algorithm 2, as it reads; and the whole distribution that it samples from."""

from itertools import permutations

import numpy as np

from tests.oracles.readout import naive_readout, naive_tvd


def naive_permutation(trace, row, count, rng):
    """Median TVD over ``count`` random permutations."""
    alpha = trace.alpha[row]
    predict = naive_readout(trace, row)
    before = predict(alpha)
    return float(
        np.median([naive_tvd(predict(rng.permutation(alpha)), before) for _ in range(count)])
    )


def all_permutations(trace, row, places=None):
    """TVD under each order of the weights, or of those at some ``places``, ascending."""
    alpha = trace.alpha[row]
    places = np.arange(len(alpha)) if places is None else places
    predict = naive_readout(trace, row)
    before, found = predict(alpha), []
    for order in permutations(alpha[places]):
        shuffled = alpha.copy()
        shuffled[places] = order
        found.append(naive_tvd(predict(shuffled), before))
    return np.sort(found)


def surprise(trace, row, found, rng, medians=15):
    """How many standard errors a median over 100 permutations is from the mean of so many others."""
    others = [naive_permutation(trace, row, 100, rng) for _ in range(medians)]
    return float(
        (found - np.mean(others)) / (np.std(others, ddof=1) * np.sqrt(1 + 1 / medians) + 1e-9)
    )
