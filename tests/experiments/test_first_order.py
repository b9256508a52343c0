"""The small linear programs of the adversary's search, against scipy's solver."""

from __future__ import annotations

import numpy as np
import pytest

from attnaudit.experiments.adversary.first_order import linear_attention
from tests.oracles.first_order import naive_distance, naive_value

CASES = [(2, 12, 0.3), (3, 12, 0.3), (5, 12, 1.0), (9, 12, 0.3), (40, 12, 1.0), (101, 40, 0.3)]


def programs(classes: int, tokens: int, scale: float, rows: int = 12) -> list[np.ndarray]:
    """Log-odds, counts, outputs, slopes and limits of random rows; the box of every second is around an attention of its own."""
    rng = np.random.default_rng([classes, tokens])
    count = rng.integers(1, tokens + 1, rows)
    count[0] = tokens
    own = rng.dirichlet(np.ones(classes), rows)
    held = np.where(np.arange(tokens) < count[:, None], rng.random((rows, tokens)), 0.0)
    held /= held.sum(axis=1, keepdims=True)
    around = (np.arange(rows) % 2 == 1)[:, None]
    low, high = (
        np.where(around, np.maximum(held - 0.2, 0.0), 0.0),
        np.where(around, np.minimum(held + 0.2, 1.0), 1.0),
    )
    log_odds = scale * rng.normal(size=(rows, tokens, classes))
    return [
        log_odds,
        count,
        own,
        rng.normal(size=(rows, tokens)),
        rng.choice([0.003, 0.01, 0.05], rows),
        low,
        high,
    ]


def solved(given: list[np.ndarray]) -> np.ndarray:
    log_odds, count, own, slopes, limit, low, high = given
    return linear_attention(log_odds, count, own, slopes, limit, (low, high))


@pytest.mark.parametrize(("classes", "tokens", "scale"), CASES)
def test_value_is_that_of_the_whole_program(classes: int, tokens: int, scale: float):
    given = programs(classes, tokens, scale)
    weights, expected = solved(given), []
    for row, found in enumerate(weights):
        log_odds, count, own, slopes, limit, low, high = (values[row] for values in given)
        expected.append(
            naive_value(log_odds[:count], own, slopes[:count], limit, low[:count], high[:count])
        )
        if np.isnan(expected[-1]):
            assert np.isnan(found[:count]).all()
            continue
        assert found @ slopes == pytest.approx(expected[-1], abs=1e-6)
        assert found.sum() == pytest.approx(1.0)
        assert (found[count:] == 0.0).all()
        assert (found >= low - 1e-6).all()
        assert (found <= high + 1e-6).all()
        assert naive_distance(log_odds, own, found) <= limit + 1e-6
    assert 0 < np.isfinite(expected).sum() < len(expected)  # some have an attention, some have none


def test_a_row_alone_has_the_same_weights():
    """To the last digit, also without the places that longer rows need."""
    given = programs(9, 12, 0.3)
    weights, count = solved(given), given[1]
    for row, most in enumerate(count):
        log_odds, _, own, slopes, limit, low, high = (values[row : row + 1] for values in given)
        alone = solved(
            [
                log_odds[:, :most],
                count[row : row + 1],
                own,
                slopes[:, :most],
                limit,
                low[:, :most],
                high[:, :most],
            ]
        )
        assert np.array_equal(alone[0], weights[row, :most], equal_nan=True)
