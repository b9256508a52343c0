"""Paired differences: the plain way gives the same, exchanging the sides negates, and clusters count once."""

from __future__ import annotations

import numpy as np
import pytest

from attnaudit.core.random import below
from attnaudit.stats import inference
from attnaudit.stats.bootstrap import expanded_tail, resample_keys
from attnaudit.stats.inference import FEWEST
from attnaudit.stats.paired import paired_means


def _sides(n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two measures, the second undefined here and there in one side or the other."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(n, 2))
    second = first + rng.normal(0.3, 0.5, size=(n, 2))
    first[::7, 1], second[::5, 1] = np.nan, np.nan
    return first, second


def test_means_and_interval_are_those_of_pairs_drawn_one_by_one() -> None:
    first, second = _sides()
    found = paired_means(first, second, np.arange(len(first)), seed=3)
    for k in range(2):
        pairs = [
            (row, b - a)
            for row, (a, b) in enumerate(zip(first[:, k], second[:, k], strict=True))
            if a == a and b == b
        ]
        gap = dict(pairs)
        assert found.n[k] == len(pairs)
        assert found.second[k] - found.first[k] == pytest.approx(
            np.mean([value for _, value in pairs])
        )
        means = []
        for key in resample_keys(3, 1000):
            drawn = below(key, np.arange(len(first)), len(first)).tolist()
            pairs_drawn = [gap[row] for row in drawn if row in gap]
            means.append(sum(pairs_drawn) / len(pairs_drawn))
        tail = 100 * expanded_tail(np.array([len(pairs)]))[0]
        assert (found.low[k], found.high[k]) == pytest.approx(
            tuple(np.percentile(means, [tail, 100 - tail]))
        )


def test_the_interval_is_as_wide_as_that_of_a_mean_of_differences() -> None:
    first, second = _sides(600, seed=1)
    found = paired_means(first, second, np.arange(len(first)))
    gap = (second - first)[:, 0]
    assert found.high[0] - found.low[0] == pytest.approx(
        2 * 1.96 * gap.std(ddof=1) / np.sqrt(len(gap)), rel=0.12
    )


def test_exchanging_the_sides_negates() -> None:
    first, second = _sides()
    one, other = (
        paired_means(*sides, np.arange(len(first))) for sides in ((first, second), (second, first))
    )
    np.testing.assert_allclose(other.low, -one.high, rtol=1e-12)
    np.testing.assert_allclose(other.high, -one.low, rtol=1e-12)
    np.testing.assert_array_equal(one.first, other.second)


def test_rows_of_a_cluster_are_drawn_together() -> None:
    first, second = _sides()
    alone = paired_means(first, second, np.arange(len(first)))
    repeated = paired_means(
        np.repeat(first, 4, axis=0),
        np.repeat(second, 4, axis=0),
        np.repeat(np.arange(len(first)), 4),
    )
    np.testing.assert_allclose(repeated.low, alone.low)
    np.testing.assert_allclose(repeated.high, alone.high)
    assert repeated.n.tolist() == (4 * alone.n).tolist()


def test_a_difference_needs_as_many_pairs_as_a_card_needs_instances() -> None:
    for n, few in ((inference.FEWEST - 1, True), (inference.FEWEST, False)):
        assert np.isnan(paired_means(*_sides(n), np.arange(n)).low[0]) == few


def test_few_clusters_have_no_interval_and_nothing_defined_no_mean() -> None:
    first, second = _sides(FEWEST)
    cluster = np.arange(FEWEST)
    assert not np.isnan(paired_means(first, second, cluster).low[0])
    assert np.isnan(paired_means(first, second, np.minimum(cluster, FEWEST - 2)).low[0])
    nothing = paired_means(np.full((9, 1), np.nan), np.ones((9, 1)), np.arange(9))
    assert np.isnan(nothing.first[0])
    assert nothing.n[0] == 0
