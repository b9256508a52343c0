from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, t

from attnaudit.stats.bootstrap import GROUPS, expanded_tail
from tests.stats.means import mean_intervals


def values(n: int = 400) -> np.ndarray:
    rng = np.random.default_rng(0)
    table = rng.normal([0.0, 5.0, -1.0], [1.0, 0.1, 3.0], (n, 3))
    table[rng.random(table.shape) < 0.2] = np.nan
    return table


def test_the_interval_is_that_of_the_normal_approximation():
    """To 5 % of its width in every column; at so many resamples chance moves an end by 0.7 %."""
    low, high = mean_intervals(values(), seed=1, resamples=40_000)
    table = values()
    known = (~np.isnan(table)).sum(axis=0)
    error = 1.96 * np.nanstd(table, axis=0) / np.sqrt(known)
    np.testing.assert_allclose((low - np.nanmean(table, axis=0)) / error, -1.0, atol=0.05)
    np.testing.assert_allclose((high - np.nanmean(table, axis=0)) / error, 1.0, atol=0.05)


def test_clusters_are_drawn_whole():
    """Against every resample written out."""
    rng = np.random.default_rng(3)
    table, cluster = values(60), rng.integers(0, 12, 60)
    table[cluster == 4] = np.nan
    found = mean_intervals(table, texts=cluster, seed=2)
    rows = [table[cluster == c] for c in range(12)]
    drawn = (np.concatenate([rows[c] for c in rng.integers(0, 12, 12)]) for _ in range(4000))
    spread = np.std([np.nanmean(part, axis=0) for part in drawn], axis=0)
    reach = -norm.ppf(expanded_tail(np.array([11]))[0])  # clusters with a value
    np.testing.assert_allclose(found[1] - found[0], 2 * reach * spread, rtol=0.12)
    order = rng.permutation(60)
    # The rows of a text are added in the order of the table, which moves last digits.
    turned = mean_intervals(table[order], texts=cluster[order] * 7, seed=2)
    np.testing.assert_allclose(turned, found, rtol=1e-13)


@pytest.mark.parametrize("rows", [400, 9000])
def test_order_of_rows_and_threads_do_not_matter(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_another_seed_is_another_interval():
    assert not np.array_equal(mean_intervals(values(), seed=1), mean_intervals(values(), seed=2))


def test_all_columns_share_their_resamples():
    column = np.random.default_rng(0).normal(size=(50, 1))
    low, high = mean_intervals(np.column_stack([column, 2 * column]), seed=0)
    np.testing.assert_allclose([low[1], high[1]], [2 * low[0], 2 * high[0]])


@pytest.mark.parametrize("table", [np.zeros((0, 2)), np.full((3, 2), np.nan)])
def test_nothing_defined_has_no_interval(table: np.ndarray):
    low, high = mean_intervals(table, seed=0)
    assert np.isnan(low).all()
    assert np.isnan(high).all()


def test_a_column_that_some_resamples_miss():
    low, high = mean_intervals(np.array([[1.0], [np.nan], [np.nan]]), seed=0)
    assert low[0] == high[0] == 1.0


def test_of_few_rows_the_percentiles_are_moved_outwards():
    """So that the interval of a mean of normal numbers is as wide as Student's."""
    for n in (5, 12, 50):
        spread = np.sqrt((n - 1) / n)  # of the resampled mean, in standard errors
        assert -norm.ppf(expanded_tail(np.array([n]))[0]) * spread == pytest.approx(
            t.ppf(0.975, n - 1)
        )
    assert expanded_tail(np.array([10**7]))[0] == pytest.approx(0.025, rel=1e-5)
    assert 0 < expanded_tail(np.array([1, 2]))[0] <= expanded_tail(np.array([1, 2]))[1] < 0.001
