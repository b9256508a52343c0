import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from attnaudit.core.ragged import Ragged
from attnaudit.stats.kendall import kendall_tau
from tests.oracles.kendall import naive_kendall


def one(x, y):
    tau, p_value = kendall_tau(*(Ragged.from_rows([np.array(row, float)]) for row in (x, y)))
    return float(tau[0]), float(p_value[0])


@pytest.mark.parametrize("levels", [3, 1000, 10**9])
def test_long_rows_match_scipy(levels):
    """More pairs than 32 bits can count."""
    rng = np.random.default_rng(levels)
    x = rng.integers(0, levels, 70_000).astype(float)
    y = 0.01 * x + rng.integers(0, levels, 70_000)
    expected = np.array(kendalltau(x, y, method="asymptotic"))
    np.testing.assert_allclose(one(x.tolist(), y.tolist()), expected, rtol=0, atol=1e-12)


ROW = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=25)


@given(st.lists(ROW, min_size=1, max_size=4))
def test_any_row_is_that_of_comparing_every_pair(rows):
    """Undefined where there is no pair, or an argument is constant."""
    x, y = ([np.array([pair[k] for pair in row], float) for row in rows] for k in (0, 1))
    found = kendall_tau(Ragged.from_rows(x), Ragged.from_rows(y))
    expected = np.array([naive_kendall(*row) for row in zip(x, y, strict=True)])
    np.testing.assert_allclose(np.column_stack(found), expected, rtol=0, atol=1e-12)
