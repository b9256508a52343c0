"""Sequences to copy: what each kind promises, drawn alike however they are asked for."""

import numpy as np
import pytest

from attnaudit.core import InputError
from attnaudit.corpora.planted.sequences import TARGETS, Sequences, right_positions

KINDS = (Sequences("permutations", 8, 8), Sequences("distinct", 5, 9), Sequences("iid", 9, 4))


@pytest.mark.parametrize("sequences", KINDS, ids=lambda one: one.kind)
def test_a_row_is_what_its_kind_says(sequences):
    rows = sequences.draw(0, "train", 0, 200)
    assert rows.shape == (200, sequences.length)
    assert set(rows.ravel()) == set(range(sequences.symbols))
    different = [len(set(row)) for row in rows.tolist()]
    assert all(count == sequences.length for count in different) == (sequences.kind != "iid")
    n = sequences.symbols
    assert set(sequences.pair(rows)[1].ravel()) == set(range(n, 2 * n))
    # Every symbol is as likely at every position.
    rows = sequences.draw(1, "train", 0, 6000)
    shares = np.stack([np.bincount(column, minlength=n) / len(rows) for column in rows.T])
    assert np.abs(shares - 1 / n).max() < 5 * (1 / n / len(rows)) ** 0.5


@pytest.mark.parametrize("sequences", KINDS, ids=lambda one: one.kind)
def test_a_row_depends_on_its_number_alone(sequences):
    whole = sequences.draw(3, "train", 0, 50)
    np.testing.assert_array_equal(sequences.draw(3, "train", 20, 7), whole[20:27])
    for other in (sequences.draw(4, "train", 0, 50), sequences.draw(3, "test", 0, 50)):
        assert (other != whole).any()


def test_targets_put_every_symbol_where_they_say():
    rows = np.arange(14).reshape(2, 7)
    assert {name: make(rows)[1].tolist() for name, make in TARGETS.items()} == {
        "copy": [7, 8, 9, 10, 11, 12, 13], "reverse": [13, 12, 11, 10, 9, 8, 7], "bigram_flip": [8, 7, 10, 9, 12, 11, 13],
    }  # fmt: skip
    for name, make in TARGETS.items():
        np.testing.assert_array_equal(make(rows), rows[:, right_positions(name, 7)])
        np.testing.assert_array_equal(make(make(rows)), rows)


@pytest.mark.parametrize("target", TARGETS)
def test_shared_symbols_end_both_sides_with_one_more(target):
    sequences = Sequences("distinct", 5, 9, shared=True)
    rows = sequences.draw(0, "train", 0, 20)
    np.testing.assert_array_equal(rows, Sequences("distinct", 5, 9).draw(0, "train", 0, 20))
    source, written = sequences.pair(rows, target)
    np.testing.assert_array_equal(source[:, :5], rows)
    np.testing.assert_array_equal(written[:, :5], TARGETS[target](rows))
    assert set(source[:, 5]) == set(written[:, 5]) == {9}
    assert (sequences.begin, sequences.vocabulary, sequences.positions) == (10, 11, 6)
    np.testing.assert_array_equal(written, source[:, sequences.right_positions(target)])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("permutation",), "did you mean permutations?"), (("permutations", 5, 6), "length 5 of 6 symbols; expected as many"),
        (("distinct", 7, 6), "length 7 of 6 symbols; expected no fewer"), (("iid", 0, 4), "1 or more"), (("iid", 4, 0), "1 or more"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told(wrong, told):
    with pytest.raises(InputError, match=told.replace("?", r"\?")):
        Sequences(*wrong)
