"""Textbook statistics by loops."""

from itertools import pairwise, permutations

import numpy as np


def expected_precision(score, rationale):
    """Mean precision at the size of the rationale over every order of the tokens that agrees with the scores."""
    expected = int(rationale.sum())
    orders = [
        order
        for order in permutations(range(len(score)))
        if all(score[a] >= score[b] for a, b in pairwise(order))
    ]
    return float(np.mean([rationale[list(order[:expected])].mean() for order in orders]))


def attention_on(alpha, score):
    """Mean share of the score at a word that attention draws, less 1/T; NaN where undefined."""
    sizes = [abs(float(s)) for s in score]
    if len(sizes) < 2 or not sum(sizes) or not sum(alpha):
        return float("nan")
    expected = sum(a / sum(alpha) * s for a, s in zip(alpha, sizes, strict=True))
    return expected / sum(sizes) - 1 / len(sizes)
