import numpy as np
import pytest
from scipy.stats import binomtest, norm, t

from attnaudit.stats.bootstrap import GROUPS, expanded_tail
from tests.oracles.means import mean_interval
from tests.stats.means import mean_intervals


def values(n=400):
    rng = np.random.default_rng(0)
    table = rng.normal([0.0, 5.0, -1.0], [1.0, 0.1, 3.0], (n, 3))
    table[rng.random(table.shape) < 0.2] = np.nan
    return table


def test_clusters_are_drawn_whole():
    """Against every resample written out."""
    rng = np.random.default_rng(3)
    table, cluster = values(60), rng.integers(0, 12, 60)
    table[cluster == 4] = np.nan
    found = mean_intervals(table, texts=cluster, seed=2)
    ranges = np.array([[-20.0, 20.0]] * 3)
    known = mean_intervals(table, texts=cluster, seed=2, ranges=ranges)
    for k, column in enumerate(table.T):
        rows = [column[(cluster == c) & ~np.isnan(column)] for c in range(12)]
        ends = mean_interval(rows, -20.0, 20.0, seed=2)
        np.testing.assert_allclose((known[0][k], known[1][k]), ends, rtol=1e-9)
    assert (known[0] < found[0]).all()
    assert (found[1] < known[1]).all()
    order = rng.permutation(60)
    # The rows of a text are added in the order of the table, which moves last digits.
    turned = mean_intervals(table[order], texts=cluster[order] * 7, seed=2)
    np.testing.assert_allclose(turned, found, rtol=1e-13)


@pytest.mark.parametrize("rows", [400, 9000])
def test_order_of_rows_and_threads_do_not_matter(rows, monkeypatch):
    """Neither with texts as units nor with groups of texts."""
    table, order = values(rows), np.random.default_rng(1).permutation(rows)
    whole = mean_intervals(table, seed=7)
    permuted = mean_intervals(table[order], texts=np.arange(rows)[order], seed=7)
    # The rows of a group are added in the order of the table, which moves last digits.
    rtol = 0.0 if rows <= GROUPS else 1e-13
    np.testing.assert_allclose(permuted, whole, rtol=rtol)
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        np.testing.assert_array_equal(mean_intervals(table, seed=7), whole)


@pytest.mark.parametrize("table", [np.zeros((0, 2)), np.full((3, 2), np.nan)])
def test_nothing_defined_has_no_interval(table):
    low, high = mean_intervals(table, seed=0)
    assert np.isnan(low).all()
    assert np.isnan(high).all()


@pytest.mark.parametrize("rows", [[1.0, np.nan, np.nan], [7.0] * 50, [0.0] * 58 + [1.0, 2.0]])
def test_a_spread_that_fewer_than_three_rows_carry_has_no_interval_without_a_range(rows):
    assert np.isnan(mean_intervals(np.array([rows]).T, seed=0)).all()
    ranges = np.array([[0.0, 8.0]])
    low, high = mean_intervals(np.array([rows]).T, seed=0, ranges=ranges)
    assert 0.0 <= low[0] < np.nanmean(rows) < high[0] <= 8.0
    # Values outside the range show that it is unknown.
    ranges = np.array([[0.0, 0.5]])
    assert np.isnan(mean_intervals(np.array([rows]).T, seed=0, ranges=ranges)).all()


@pytest.mark.parametrize(("ones", "n"), [(0, 20), (3, 40), (25, 25)])
def test_of_shares_the_interval_is_that_of_clopper_and_pearson(ones, n):
    rows = (np.arange(n) < ones).astype(float)[:, None]
    low, high = mean_intervals(rows, seed=0, resamples=20_000, ranges=np.array([[0.0, 1.0]]))
    ends = binomtest(ones, n).proportion_ci(0.95, "exact")
    assert (low[0], high[0]) == pytest.approx((ends.low, ends.high), abs=5e-3)


def test_of_few_rows_the_percentiles_are_moved_outwards():
    """So that the interval of a mean of normal numbers is as wide as Student's."""
    for n in (5, 12, 50):
        spread = np.sqrt((n - 1) / n)  # of the resampled mean, in standard errors
        assert -norm.ppf(expanded_tail(n)) * spread == pytest.approx(t.ppf(0.975, n - 1))
    assert expanded_tail(10**7) == pytest.approx(0.025, rel=1e-5)
    assert 0 < expanded_tail(1) <= expanded_tail(2) < 0.001
