import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from attnaudit.core.ragged import Ragged, concatenate

rows = st.lists(st.lists(st.integers(-9, 9), max_size=5), max_size=8)


@given(rows)
def test_every_operation_is_that_of_its_rows(lists):
    ragged = Ragged.from_rows(lists, dtype=np.int64)
    assert len(ragged) == len(lists)
    assert [row.tolist() for row in ragged] == lists
    assert ragged.lengths.tolist() == [len(row) for row in lists]
    assert ragged.sum().tolist() == [sum(row) for row in lists]
    assert ragged.row_of_value.tolist() == [k for k, row in enumerate(lists) for _ in row]
    assert ragged.spread(np.arange(len(lists))).tolist() == ragged.row_of_value.tolist()
    assert ragged.with_values(-ragged.values).sum().tolist() == [-sum(row) for row in lists]


@given(st.lists(st.lists(st.floats(-9, 9), min_size=1, max_size=5), min_size=1, max_size=8))
def test_the_largest_of_every_row(lists):
    assert Ragged.from_rows(lists, dtype=np.float64).max().tolist() == [max(row) for row in lists]


@given(rows, st.data())
def test_rows_are_taken_in_the_order_given(lists, data):
    ragged = Ragged.from_rows(lists, dtype=np.int64)
    order = data.draw(st.lists(st.sampled_from(range(len(lists))), max_size=10)) if lists else []
    assert [row.tolist() for row in ragged.take(np.array(order, dtype=np.int64))] == [
        lists[k] for k in order
    ]


@given(rows, st.integers(1, 12))
def test_blocks_hold_all_rows_in_order_and_no_more_than_asked(lists, positions):
    ragged = Ragged.from_rows(lists, dtype=np.int64)
    blocks = list(ragged.blocks(positions))
    assert [row for block in blocks for row in block.tolist()] == list(range(len(lists)))
    assert all(len(block) == 1 or ragged.take(block).lengths.sum() <= positions for block in blocks)


@given(st.lists(rows, min_size=1, max_size=4))
def test_parts_put_together_are_all_their_rows(parts):
    whole = concatenate([Ragged.from_rows(part, dtype=np.int64) for part in parts])
    assert [row.tolist() for row in whole] == [row for part in parts for row in part]


def test_values_may_have_columns():
    values = np.arange(12.0).reshape(6, 2)
    ragged = Ragged.from_lengths(values, [1, 0, 3, 2])
    np.testing.assert_array_equal(ragged.sum(), [[0, 1], [0, 0], [2 + 4 + 6, 3 + 5 + 7], [18, 20]])
    np.testing.assert_array_equal(ragged.take(np.array([3, 0])).values, values[[4, 5, 0]])


def test_an_empty_row_has_the_identity_of_what_is_reduced():
    assert Ragged.from_rows([[], [1.0, 2.0]], dtype=np.float64).sum().tolist() == [0.0, 3.0]
    assert Ragged.from_rows([[2.0, 3.0], []], dtype=np.float64).reduce(
        np.multiply
    ).tolist() == pytest.approx([6.0, 1.0])


def test_every_row_is_sorted_stably_with_nan_last():
    rng = np.random.default_rng(0)
    lengths = np.append(rng.integers(0, 40, 60), [0, 1, 900])
    values = rng.integers(0, 6, lengths.sum()).astype(float)
    values[rng.random(len(values)) < 0.1] = np.nan
    values[rng.random(len(values)) < 0.1] = np.inf
    rows = Ragged.from_lengths(values, lengths)
    expected = [np.argsort(row, kind="stable") + rows.offsets[i] for i, row in enumerate(rows)]
    np.testing.assert_array_equal(rows.argsort(), np.concatenate(expected))


@given(rows)
def test_equal_values_of_a_row_share_their_mean_rank(lists):
    ranks = Ragged.from_rows(lists, dtype=np.float64).ranks()
    assert [row.tolist() for row in ranks] == [rankdata(row).tolist() for row in lists]
