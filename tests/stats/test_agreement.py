import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnaudit.core import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.stats.agreement import agreement, chance_agreement, top_count, top_overlaps
from tests.oracles.agreement import naive_agreement, naive_chance


def one(u, v, percent=5):
    first, second = (Ragged.from_rows([np.array(x, float)]) for x in (u, v))
    return float(agreement(first, second, percent)[0])


PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6)


@given(PAIRS, st.sampled_from([1, 5, 20, 34, 50, 99, 100]))
def test_every_way_to_break_the_ties_counts_alike(pairs, percent):
    u, v = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    assert one(u, v, percent) == pytest.approx(naive_agreement(u, v, percent), abs=1e-12)


@pytest.mark.parametrize("u", [[1, 2, 3, 4, 5], [1, 1, 0, 0, 1], [2, 2, 2, 2, 2]])
@pytest.mark.parametrize(
    ("v", "percent"), [([1, 2, 3, 4, 5], 5), ([1, 1, 1, 4, 4], 50), ([3, 3, 3, 3, 3], 30)]
)
def test_chance_is_the_mean_over_every_shuffle(u, v, percent):
    assert chance_agreement(np.array([len(v)]), percent)[0] == pytest.approx(
        naive_chance(u, v, percent), abs=1e-12
    )


def test_the_order_of_positions_and_of_rows_changes_nothing():
    rng = np.random.default_rng(1)
    rows = [rng.integers(0, 5, (2, t)).astype(float) for t in rng.integers(1, 60, 100)]
    moved = [rng.permutation(row, axis=1) for row in rows[::-1]]
    (u, v), others = (
        [Ragged.from_rows([row[k] for row in part]) for k in (0, 1)] for part in (rows, moved)
    )
    expected, again = agreement(u, v), agreement(others[0], others[1])
    np.testing.assert_allclose(again[::-1], expected, rtol=0, atol=1e-15)


def test_the_top_is_counted_in_whole_numbers():
    assert top_count(np.array([1, 20, 21, 40, 41, 140])).tolist() == [1, 1, 2, 2, 3, 7]
    assert top_count(np.array([100]), 7)[0] == 7 != math.ceil(0.07 * 100)
    assert one([1.0], [5.0]) == 1.0


def test_a_row_without_positions_is_undefined():
    empty = Ragged.from_rows([np.zeros(0), np.ones(2)])
    assert np.isnan(agreement(empty, empty)).tolist() == [True, False]
    assert np.isnan(chance_agreement(np.array([0, 2]))).tolist() == [True, False]


@pytest.mark.parametrize("percent", [0, 101])
def test_a_share_that_is_none_is_refused(percent):
    with pytest.raises(InputError, match=rf"top: {percent} %; expected 1 to 100 %"):
        one([1.0], [1.0], percent)


def test_tops_of_many_rows_by_themselves_and_together():
    random = np.random.default_rng(3)
    lengths = np.append(random.integers(0, 40, 80), [0, 1, 2, 0])
    scores = [Ragged.from_lengths(random.normal(size=lengths.sum()), lengths) for _ in range(3)]
    alone = [
        top_overlaps([score.take(np.array([row])) for score in scores], 25) for row in range(84)
    ]
    together = np.array(top_overlaps(scores, 25))
    np.testing.assert_array_equal(np.concatenate(alone, axis=1), together)
