from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from attnaudit.core.ragged import Ragged
from attnaudit.stats.kendall import kendall_tau
from tests.oracles.kendall import naive_kendall


def one(x: list[float], y: list[float]) -> tuple[float, float]:
    tau, p_value = kendall_tau(
        Ragged.from_rows([np.array(x, float)]), Ragged.from_rows([np.array(y, float)])
    )
    return float(tau[0]), float(p_value[0])


def rows_with_ties(seed: int, lengths: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [
        (
            rng.integers(0, rng.integers(1, t + 2), t).astype(float),
            rng.normal(size=t).round(rng.integers(0, 3)),
        )
        for t in lengths
    ]


def test_many_rows_with_ties_match_scipy():
    rows = rows_with_ties(0, np.random.default_rng(1).integers(3, 80, 400))
    tau, p_value = kendall_tau(
        Ragged.from_rows([x for x, _ in rows]), Ragged.from_rows([y for _, y in rows])
    )
    expected = np.array([kendalltau(x, y, method="asymptotic") for x, y in rows])
    np.testing.assert_allclose(np.column_stack([tau, p_value]), expected, rtol=0, atol=1e-12)
    assert np.isnan(tau).any()
    assert not np.isnan(tau).all()


@pytest.mark.parametrize("levels", [3, 1000, 10**9])
def test_long_rows_match_scipy(levels: int):
    """More pairs than 32 bits can count."""
    rng = np.random.default_rng(levels)
    x = rng.integers(0, levels, 70_000).astype(float)
    y = 0.01 * x + rng.integers(0, levels, 70_000)
    expected = np.array(kendalltau(x, y, method="asymptotic"))
    np.testing.assert_allclose(one(x.tolist(), y.tolist()), expected, rtol=0, atol=1e-12)


def test_comparing_every_pair_gives_the_same():
    for x, y in rows_with_ties(2, np.array([2, 2, 3, 3, 4, 5, 6, 9, 17, 33])):
        np.testing.assert_allclose(
            one(x.tolist(), y.tolist()), naive_kendall(x, y), rtol=0, atol=1e-12
        )


@pytest.mark.parametrize(
    ("x", "y"),
    [([], []), ([1.0], [2.0]), ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), ([1.0, 2.0], [0.5, 0.5])],
)
def test_no_pair_or_a_constant_argument_is_undefined(x: list[float], y: list[float]):
    assert all(math.isnan(number) for number in one(x, y))


def test_two_tokens_are_never_significant():
    tau, p_value = one([1, 2], [5, 7])
    assert tau == 1
    assert p_value == pytest.approx(math.erfc(1 / math.sqrt(2)))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=25))
def test_symmetric_and_odd(pairs: list[tuple[int, int]]):
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    tau, p_value = one(x, y)
    np.testing.assert_allclose(one(y, x), (tau, p_value), atol=1e-14)
    np.testing.assert_allclose(one(x, [-b for b in y]), (-tau, p_value), atol=1e-14)
