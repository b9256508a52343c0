"""The Wilson interval: its ends are the shares that the score test just does not refuse; and that of a median, by published tables."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from attnaudit.stats.inference import (
    exact_interval,
    median_interval,
    newcombe_interval,
    wilson_interval,
)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_it_is_that_of_scipy(counts):
    successes, n = counts
    for interval, method in ((wilson_interval, "wilson"), (exact_interval, "exact")):
        other = binomtest(successes, n).proportion_ci(0.95, method)
        assert interval(successes, n) == pytest.approx((other.low, other.high), abs=1e-9)


def test_none_and_all_have_ends_of_nought_and_one():
    assert wilson_interval(0, 20)[0] == 0.0
    assert wilson_interval(20, 20)[1] == 1.0
    assert wilson_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "n"), [(3, 2), (-1, 2), (0, -1)])
def test_more_than_there_are_is_refused(successes, n):
    with pytest.raises(ValueError, match="successes of"):
        wilson_interval(successes, n)


@pytest.mark.parametrize(
    ("n", "ranks"),
    [(6, (1, 6)), (8, (1, 8)), (9, (2, 8)), (10, (2, 9)), (20, (6, 15)), (50, (18, 33))],
)
def test_a_median_lies_between_the_tabulated_ranks(n, ranks):
    assert median_interval(np.random.default_rng(n).permutation(n) + 1.0) == ranks
    assert median_interval(np.arange(5.0)) == (None, None)


@pytest.mark.parametrize(
    ("auc", "positives", "negatives"),
    [(0.5, 3, 3), (0.7, 5, 6), (0.95, 9, 40), (1.0, 4, 4), (0.0, 2, 7)],
)
def test_the_interval_of_an_area_under_the_roc_curve_ends_where_the_score_test_refuses(
    auc, positives, negatives
):
    """The variance of Hanley and McNeil, by the probabilities Q1 and Q2 of an exponential model, with Newcombe's mean of the two sizes."""
    low, high = newcombe_interval(auc, positives, negatives)
    for end in {low, high} - {0.0, 1.0}:
        both = end / (2 - end) + 2 * end**2 / (1 + end) - 2 * end**2
        variance = end * (1 - end) + ((positives + negatives) / 2 - 1) * both
        error = (variance / (positives * negatives)) ** 0.5
        assert abs(auc - end) == pytest.approx(1.959964 * error, abs=1e-6)
    assert 0.0 <= low <= auc <= high <= 1.0
    assert high - low > 0.2
    assert newcombe_interval(1 - auc, negatives, positives) == pytest.approx((1 - high, 1 - low))


def test_an_area_without_rows_of_one_side_can_be_anything():
    for sizes in ((0, 4), (4, 0), (4, 4, math.inf)):
        assert newcombe_interval(0.5, *sizes) == (0.0, 1.0)
