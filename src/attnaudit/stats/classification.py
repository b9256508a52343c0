"""Accuracy, F1 and ROC-AUC from weighted rows, so that a bootstrap resample is only another set of weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from attnaudit.core.arrays import sum_of
from attnaudit.core.errors import InputError
from attnaudit.core.kernels import kernel, over_rows, subroutine
from attnaudit.stats.bootstrap import (
    canonical_order,
    drawn_seeds,
    percentile_interval,
    resample,
    resample_keys,
)
from attnaudit.stats.inference import z_of_clusters
from attnaudit.stats.perfect import perfect_ends


@dataclass(frozen=True)
class Scores:
    """Figures of a classifier; NaN where undefined. ``low`` and ``high`` hold their bootstrap intervals in the same order."""

    accuracy: float
    f1: float
    roc_auc: float
    low: Float[np.ndarray, " 3"]
    high: Float[np.ndarray, " 3"]


def classification_scores(
    label: Int[np.ndarray, " n"],
    predicted: Int[np.ndarray, " n"],
    score: Float[np.ndarray, "n K"],
    *,
    seed: int,
    resamples: int = 1000,
    cluster: Int[np.ndarray, " n"] | None = None,
) -> Scores:
    """Accuracy, F1 and ROC-AUC with 95 % percentile intervals over rows, or over clusters of rows, each drawn with all its rows.

    Where F1 or ROC-AUC is 1 the lower end is that of `attnaudit.stats.perfect`.

    ``score`` has a column per class that is distinguished from the rest, or a single one for class 1 of two. F1 is that of class 1 for a
    single column or two classes, else the mean over the classes that occur or are predicted (0 for one that is only predicted, as in
    scikit-learn). ROC-AUC is the mean over the classes that some rows have and some rows lack. Raises InputError for a score that is not
    finite.
    """
    if score.shape[1] == 2:
        score = score[:, 1:]
    clusters = [] if cluster is None else [np.unique(cluster, return_inverse=True)[1]]
    rows = canonical_order(np.column_stack([label, predicted, *clusters, score]).astype(np.float64))
    first = 2 + len(clusters)
    columns = (
        rows[:, 0].astype(np.int64),
        rows[:, 1].astype(np.int64),
        np.ascontiguousarray(rows[:, first:]),
    )
    of = rows[:, 2].astype(np.int64) if clusters else np.arange(len(rows))
    value, statistics = _scores_and_resamples(*columns, of, resample_keys(seed, resamples))
    low, high = percentile_interval(statistics)
    z = z_of_clusters(int(of.max(initial=-1)) + 1, len(rows))
    low[1:] = perfect_ends(
        value[1:], low[1:], *_clusters_by_class(columns[0], of, score.shape[1]), z
    )
    return Scores(float(value[0]), float(value[1]), float(value[2]), low, high)


def _clusters_by_class(
    label: np.ndarray, cluster: np.ndarray, columns: int
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """How many clusters have rows of the class of each column, and how many have rows of others."""
    classes = [1] if columns == 1 else range(columns)
    found = [[len(np.unique(cluster[rows])) for rows in (label == k, label != k)] for k in classes]
    positives, negatives = np.array(found, np.float64).T
    return positives, negatives


def resampled_over_seeds(
    label: Int[np.ndarray, " n"],
    predicted: Int[np.ndarray, "M S n"],
    score: Float[np.ndarray, "M S n K"],
    *,
    seed: int,
    resamples: int = 1000,
) -> tuple[Float[np.ndarray, "M S 3"], Float[np.ndarray, "M resamples 3"]]:
    """Accuracy, F1 and ROC-AUC of M models trained with S seeds each, and resamples of their means over seeds.

    A resample draws rows, and seeds, alike for all models: what two models differ by, resample by resample, is a paired difference.
    ``score`` is as in `classification_scores`.
    """
    models, seeds, n, _ = score.shape
    score = score[..., 1:] if score.shape[3] == 2 else score
    flat = np.moveaxis(score, 2, 0).reshape(n, -1), np.moveaxis(predicted, 2, 0).reshape(n, -1)
    rows = canonical_order(np.column_stack([label, *flat]).astype(np.float64))
    ordered = rows[:, 0].astype(np.int64)
    scores = np.ascontiguousarray(
        np.moveaxis(rows[:, 1 : 1 + flat[0].shape[1]].reshape(n, models, seeds, -1), 0, 2)
    )
    chosen = np.moveaxis(rows[:, 1 + flat[0].shape[1] :].reshape(n, models, seeds), 0, 2).astype(
        np.int64
    )
    keys = resample_keys(seed, resamples)
    alone = np.arange(n)
    each = [
        [
            _scores_and_resamples(ordered, chosen[m, s], scores[m, s], alone, keys)
            for s in range(seeds)
        ]
        for m in range(models)
    ]
    values = np.array([[value for value, _ in row] for row in each])
    resampled = np.array([[statistics for _, statistics in row] for row in each])
    drawn = drawn_seeds(seed, resamples, seeds)
    means = np.stack([resampled[:, drawn[b], b].mean(axis=1) for b in range(resamples)], axis=1)
    return values, means


def _scores_and_resamples(
    label: np.ndarray,
    predicted: np.ndarray,
    score: np.ndarray,
    cluster: np.ndarray,
    keys: np.ndarray,
) -> tuple[Float[np.ndarray, " 3"], Float[np.ndarray, "resamples 3"]]:
    bad = ~np.isfinite(score).all(axis=1)
    if bad.any():
        raise InputError(
            "classification scores",
            f"{int(bad.sum())} of {len(score)} rows",
            "scores that are not finite",
            "finite scores",
        )
    accuracy, (f1, auc) = (
        np.full(1 + len(keys), np.nan),
        np.full((2, 1 + len(keys), score.shape[1]), np.nan),
    )
    if len(label):
        score, predicted = np.ascontiguousarray(score), np.ascontiguousarray(predicted)
        order = np.ascontiguousarray(np.argsort(score, axis=0, kind="stable").T)
        over_rows(
            _score_rows,
            len(accuracy),
            label,
            predicted,
            score,
            cluster,
            int(cluster.max()) + 1,
            order,
            keys,
            accuracy,
            f1,
            auc,
        )
    statistics = np.stack(
        [accuracy, mean_over_classes(f1, f1[0]), mean_over_classes(auc, auc[0])], axis=1
    )
    return statistics[0], statistics[1:]


def mean_over_classes(
    values: Float[np.ndarray, "b K"], of_all: Float[np.ndarray, " K"]
) -> Float[np.ndarray, " b"]:
    """The mean over the classes that are defined in the whole sample, whose values are ``of_all``; NaN where none is.

    A class that is undefined in a resample has there its value in the whole sample: a mean over other classes would be another score.
    """
    known = ~np.isnan(of_all)
    total = np.zeros(len(values))
    for k in np.flatnonzero(known):  # in order: the last digit of a sum depends on it
        total += np.where(np.isnan(values[:, k]), of_all[k], values[:, k])
    return total / known.sum() if known.any() else np.full(len(values), np.nan)


@kernel
def _score_rows(
    first, last, label, predicted, score, cluster, clusters, order, keys, accuracy, f1, auc
):
    """First the scores themselves, then those of every resample; F1 and ROC-AUC of each class."""
    for b in range(first, last):
        times, weight = resample(keys[max(b - 1, 0)], clusters), np.empty(len(label))
        for i in range(len(label)):
            weight[i] = times[cluster[i]] if b > 0 else 1.0
        accuracy[b] = _weighted_scores(label, predicted, score, order, weight, f1[b], auc[b])


@subroutine
def _weighted_scores(label, predicted, score, order, weight, f1, auc):
    """Accuracy, and into ``f1`` and ``auc`` those of each column of ``score``, when row i counts ``weight[i]`` times.

    ``order[k]`` sorts column k of ``score``.
    """
    columns = score.shape[1]
    classes, first = max(columns, 2), 1 if columns == 1 else 0
    confusion, correct = np.zeros((classes, classes)), 0.0
    for i in range(len(label)):
        confusion[label[i], predicted[i]] += weight[i]
    for k in range(classes):
        correct += confusion[k, k]
    for k in range(columns):
        f1[k] = _f1(confusion, first + k)
        auc[k] = _roc_auc(label, first + k, score, k, order[k], weight)
    return correct / sum_of(weight)


@subroutine
def _f1(confusion, k):
    """2 TP / (2 TP + FP + FN), undefined for a class that neither occurs nor is predicted."""
    occurs, predicted = 0.0, 0.0
    for other in range(len(confusion)):
        occurs += confusion[k, other]
        predicted += confusion[other, k]
    return 2.0 * confusion[k, k] / (occurs + predicted) if occurs + predicted > 0 else math.nan


@subroutine
def _roc_auc(label, positive, score, column, order, weight):
    """Share of pairs (positive, negative) in the right order, ties counted half: one walk up a sorted column of the scores."""
    below, won, positives = 0.0, 0.0, 0.0
    start = 0
    while start < len(order):
        tied_positive, tied_negative = 0.0, 0.0
        stop = start + 1
        while stop < len(order) and score[order[stop], column] == score[order[start], column]:
            stop += 1
        for i in order[start:stop]:
            if label[i] == positive:
                tied_positive += weight[i]
            else:
                tied_negative += weight[i]
        won += tied_positive * (below + 0.5 * tied_negative)
        below += tied_negative
        positives += tied_positive
        start = stop
    return won / (positives * below) if positives > 0 and below > 0 else math.nan
