"""Paired differences: the plain way gives the same, exchanging the sides negates, and clusters count once."""

import numpy as np
import pytest

from attnaudit.stats.inference import FEWEST
from attnaudit.stats.paired import paired_means
from tests.oracles.means import mean_interval


def _sides(n=120):
    """Two measures, the second undefined here and there in one side or the other."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=(n, 2))
    second = first + rng.normal(0.3, 0.5, size=(n, 2))
    first[::7, 1], second[::5, 1] = np.nan, np.nan
    return first, second


def test_means_and_interval_are_those_of_pairs_drawn_one_by_one():
    first, second = _sides()
    first, second = first / 10.0, second / 10.0
    found = paired_means(first, second, np.arange(len(first)), seed=3)
    for k, gap in enumerate((second - first).T):
        known = int((~np.isnan(gap)).sum())
        assert found.n[k] == known
        assert found.second[k] - found.first[k] == pytest.approx(np.nanmean(gap))
        texts = [[value] if value == value else [] for value in gap]
        assert (found.low[k], found.high[k]) == pytest.approx(mean_interval(texts, -1.0, 1.0, 3))


@pytest.mark.parametrize(
    ("n", "clusters"), [(FEWEST, FEWEST), (FEWEST - 1, FEWEST - 1), (FEWEST, FEWEST - 1)]
)
def test_few_pairs_or_clusters_have_no_interval(n, clusters):
    low = paired_means(*_sides(n), np.minimum(np.arange(n), clusters - 1)).low
    assert np.isnan(low[0]) == (clusters < FEWEST)


def test_nothing_defined_has_no_mean():
    nothing = paired_means(np.full((9, 1), np.nan), np.ones((9, 1)), np.arange(9))
    assert np.isnan(nothing.first[0])
    assert nothing.n[0] == 0
