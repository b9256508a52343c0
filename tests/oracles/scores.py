"""Textbook statistics by loops."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np


def naive_benjamini_hochberg(p_values: np.ndarray, level: float) -> np.ndarray:
    """Which tests are rejected: all up to the last p ≤ level · rank / m."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    passed = [
        rank for rank, i in enumerate(order, start=1) if p_values[i] <= level * rank / len(p_values)
    ]
    rejected = np.zeros(len(p_values), bool)
    rejected[order[: max(passed, default=0)]] = True
    return rejected


def naive_roc_auc(label: np.ndarray, score: np.ndarray) -> float:
    """Share of pairs of a positive and a negative in which the positive scores higher, ties half."""
    pairs = [(p, q) for p in score[label == 1] for q in score[label == 0]]
    return sum(1.0 if p > q else 0.5 if p == q else 0.0 for p, q in pairs) / len(pairs)


def naive_f1(label: np.ndarray, predicted: np.ndarray) -> float:
    hits = sum(bool(y == 1 and z == 1) for y, z in zip(label, predicted, strict=True))
    precision, recall = (
        hits / max(int((predicted == 1).sum()), 1),
        hits / max(int((label == 1).sum()), 1),
    )
    return 2 * precision * recall / (precision + recall) if hits else 0.0


def expected_precision(score: np.ndarray, rationale: np.ndarray) -> float:
    """Mean precision at the size of the rationale over every order of the tokens that agrees with the scores."""
    expected = int(rationale.sum())
    orders = [
        order
        for order in permutations(range(len(score)))
        if all(score[a] >= score[b] for a, b in pairwise(order))
    ]
    return float(np.mean([rationale[list(order[:expected])].mean() for order in orders]))


def attention_on(alpha: np.ndarray, score: np.ndarray) -> float:
    """Mean share of the score at a word that attention draws, less 1/T; NaN where undefined."""
    sizes = [abs(float(s)) for s in score]
    if len(sizes) < 2 or not sum(sizes) or not sum(alpha):
        return float("nan")
    expected = sum(a / sum(alpha) * s for a, s in zip(alpha, sizes, strict=True))
    return expected / sum(sizes) - 1 / len(sizes)
