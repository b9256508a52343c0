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
    """Against every resample written out; many rows that say the same are worth no more than one."""
    table, cluster = values(60), np.random.default_rng(3).integers(0, 12, 60)
    table[cluster == 4] = np.nan
    found = mean_intervals(table, texts=cluster, seed=2)
    for k in range(3):
        rows = [table[cluster == c, k] for c in range(12)]
        drawn = (
            np.concatenate([rows[c] for c in np.random.default_rng(s).integers(0, 12, 12)])
            for s in range(4000)
        )
        spread = np.std([np.nanmean(part) for part in drawn])
        reach = -norm.ppf(expanded_tail(np.array([11]))[0])  # clusters with a value
        assert found[1][k] - found[0][k] == pytest.approx(2 * reach * spread, rel=0.12)
    once, copied = values(40), np.repeat(values(40), 5, axis=0)
    whole, again = (
        mean_intervals(once, texts=np.arange(40), seed=7),
        mean_intervals(copied, texts=np.repeat(np.arange(40), 5), seed=7),
    )
    np.testing.assert_allclose(again[1] - again[0], whole[1] - whole[0], rtol=0.15)
    order = np.random.default_rng(0).permutation(60)
    # The rows of a text are added in the order of the table, which moves last digits.
    np.testing.assert_allclose(
        mean_intervals(table[order], texts=cluster[order] * 7, seed=2), found, rtol=1e-13
    )


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(5)
    inside = 0
    for seed in range(300):
        low, high = mean_intervals(rng.exponential(size=(60, 1)), seed=seed, resamples=400)
        inside += bool(low[0] <= 1.0 <= high[0])
    assert 0.88 <= inside / 300 <= 0.98


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
