"""Traces that show another attention of the same function, and two functions that leave one trace."""

from functools import partial

import numpy as np
import pytest

from attnaudit.calibration.transform import permuted
from attnaudit.experiments import audit
from tests.calibration.twins import (
    by_earlier_words,
    by_last_word,
    features_of,
    probability,
    replaced,
    texts,
    trace_of,
)
from tests.traces import gaps, make_trace


@pytest.fixture(scope="module")
def trace():
    return make_trace(60, (4, 8), seed=2, zeros=0.2)


def contributions(trace):
    return trace.ragged("alpha").values[:, None] * trace.ragged("readout").values


def test_a_permuted_trace_is_of_the_same_function(trace):
    other = permuted(trace, 0)
    assert np.allclose(contributions(other), contributions(trace), atol=1e-5)
    for name in ("prediction", "gradient", "loo", "tokens", "instance"):
        assert other.table[name].equals(trace.table[name])
    rows = zip(other.alpha, trace.alpha, strict=True)
    assert np.mean([not np.allclose(*row, atol=1e-3) for row in rows]) > 0.9


def test_weights_stay_among_texts_of_one_length(trace):
    other = permuted(trace, 0)
    for length in range(4, 9):
        rows = np.flatnonzero(trace.alpha.lengths == length)
        before, after = (
            np.array(sorted(np.round(one.alpha[row], 3).tolist() for row in rows.tolist()))
            for one in (trace, other)
        )
        assert np.abs(before - after).max() < 2e-3


def test_neither_order_nor_other_rows_of_another_length_matter(trace):
    order = np.random.default_rng(0).permutation(len(trace))
    assert permuted(trace.take(order), 0).table.equals(permuted(trace, 0).take(order).table)
    rows = np.flatnonzero(trace.alpha.lengths == 6)
    assert permuted(trace.take(rows), 0).table.equals(permuted(trace, 0).take(rows).table)


def test_two_models_of_opposite_truth_leave_the_same_trace():
    rows = texts(24, 0)
    faithful, unfaithful = trace_of(by_last_word, rows), trace_of(by_earlier_words, rows)
    assert max(gaps(faithful, unfaithful, ("alpha", "readout", "loo", "gradient"))) < 1e-6
    assert np.array_equal(faithful.prediction, unfaithful.prediction)
    assert min(weights[-1] for weights in faithful.alpha) > 0.99
    for states, last in ((by_last_word, True), (by_earlier_words, False)):
        own, turned, kept = (
            np.array([probability(states, features_of(change(words))) > 0.5 for words in rows])
            for change in (list, partial(replaced, last=last), partial(replaced, last=not last))
        )
        assert (turned != own).all()
        assert (kept == own).all()


def test_so_no_experiment_tells_them_apart():
    """All but ranks of values that are equal: gradients differ in their last digits, and so may ties."""
    rows = texts(24, 0)
    first, second = (
        audit(trace_of(states, rows), ["permutation", "adversary", "ranges", "comprehensiveness"])
        for states in (by_last_word, by_earlier_words)
    )
    for name in first:
        one, other = (
            found[name].summary["value"].fill_null(-9).to_numpy() for found in (first, second)
        )
        assert np.allclose(one, other, atol=1e-6), name
