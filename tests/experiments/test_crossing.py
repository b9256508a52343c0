"""Where the adversary's model of outputs comes within ε, against the outputs computed point by point."""

from __future__ import annotations

import numpy as np
import pytest

from attnaudit.experiments.adversary.curves import Curves, crossing_of
from tests.oracles.crossing import naive_crossing

LIMIT = 0.05


def curves(classes: int, bend: float, rows: int = 60) -> list[np.ndarray]:
    """Segments between outputs on two sides of that of every row, some of which pass it by, and that output."""
    rng = np.random.default_rng([classes, int(bend)])
    own = rng.dirichlet(np.ones(classes), rows)
    before = 0.7 * rng.normal(size=own.shape)
    behind = 0.3 * rng.random((rows, 1)) * rng.normal(size=own.shape) - before
    return [np.log(own) + before, behind - before, bend * rng.normal(size=own.shape), own]


@pytest.mark.parametrize("bend", [0.0, 0.3, 5.0, 1e3, 1e5])
@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_first_point_within_epsilon_is_that_of_every_point_looked_at(classes: int, bend: float):
    given = curves(classes, bend)
    expected = np.array([naive_crossing(*row, limit=LIMIT) for row in zip(*given, strict=True)])
    found = np.column_stack(crossing_of(Curves(*given[:3]), given[3], LIMIT))
    passed_by = expected[:, 2] > 0.0
    assert np.allclose(found[~passed_by], expected[~passed_by], rtol=0.0, atol=1e-9)
    # outputs of two classes move straight, so that many cells miss by the same, and a rounding decides for one
    assert np.allclose(
        found[passed_by, 2], expected[passed_by, 2], rtol=0.0, atol=1e-3 if classes == 2 else 1e-9
    )
    if (
        bend == 0.3 and classes > 2
    ):  # between outputs of two classes on two sides lies that of the row
        assert 0 < passed_by.sum() < len(passed_by)


def test_outputs_that_are_no_numbers_end_the_search_for_their_segment_alone():
    given = curves(3, 0.3)
    expected = np.column_stack(crossing_of(Curves(*given[:3]), given[3], LIMIT))
    given[0][5] = np.nan
    found = np.column_stack(crossing_of(Curves(*given[:3]), given[3], LIMIT))
    assert np.array_equal(np.delete(found, 5, axis=0), np.delete(expected, 5, axis=0))
