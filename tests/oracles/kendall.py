"""Kendall's tau-b by comparing every pair, and its p-value by the textbook variance under ties."""

import math
from collections import Counter
from itertools import combinations

import numpy as np


def naive_kendall(x, y):
    """Tau-b and p; NaN where an argument is constant or there is no pair."""
    balance, untied_x, untied_y = 0, 0, 0
    for i, j in combinations(range(len(x)), 2):
        a, b = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
        balance += a * b
        untied_x += a != 0
        untied_y += b != 0
    if untied_x == 0 or untied_y == 0:
        return math.nan, math.nan
    return float(balance / math.sqrt(untied_x * untied_y)), math.erfc(
        abs(balance) / math.sqrt(2 * _variance(x, y))
    )


def _variance(x, y):
    n = len(x)
    t, u = list(Counter(x.tolist()).values()), list(Counter(y.tolist()).values())
    spread = (
        n * (n - 1) * (2 * n + 5)
        - sum(c * (c - 1) * (2 * c + 5) for c in t)
        - sum(c * (c - 1) * (2 * c + 5) for c in u)
    ) / 18
    doubles = sum(c * (c - 1) for c in t) * sum(c * (c - 1) for c in u) / (2 * n * (n - 1))
    triples = sum(c * (c - 1) * (c - 2) for c in t) * sum(c * (c - 1) * (c - 2) for c in u)
    return spread + doubles + (triples / (9 * n * (n - 1) * (n - 2)) if n > 2 else 0.0)
