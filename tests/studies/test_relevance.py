"""Output relevance: what is read off a trace, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from attnaudit.core import InputError
from attnaudit.studies.dynamics.study import relevance
from tests.traces import make_trace, with_columns


def weighted_sums(trace, alpha):
    return alpha.with_values(alpha.values[:, None] * trace.readout.contribution.values).sum()


def other_attention(trace):
    """The same trace under attention turned round within every row, with what it then predicts."""
    turned = trace.alpha.with_values(np.concatenate([row[::-1] for row in trace.ragged("alpha")]))
    return with_columns(trace, alpha=turned)


@pytest.mark.parametrize("outputs", [1, 3])
def test_all_attention_on_a_position_adds_its_relevance_to_the_gold_logit(outputs):
    trace = make_trace(30, (1, 9), outputs, seed=1)
    found, label = relevance(trace), trace.array("label")
    for row in range(len(trace)):
        for t in range(len(trace.alpha[row])):
            moved = trace.alpha.with_values(trace.alpha.values.copy())
            moved[row][:] = np.arange(len(moved[row])) == t
            logits = weighted_sums(trace, moved)[row]
            gold = (
                logits[label[row]] if outputs > 1 else logits[0] if label[row] == 1 else -logits[0]
            )
            assert found[row][t] == pytest.approx(gold, abs=1e-12)


@pytest.mark.parametrize("outputs", [1, 3])
def test_it_does_not_depend_on_attention_or_on_other_rows(outputs):
    trace = make_trace(30, (1, 9), outputs, seed=2)
    np.testing.assert_array_equal(relevance(other_attention(trace)).values, relevance(trace).values)
    order = np.random.default_rng(0).permutation(30)
    np.testing.assert_array_equal(
        relevance(trace.take(order)).values, relevance(trace).take(order).values
    )


def test_a_column_of_its_own_goes_before_the_readout():
    trace = make_trace(10, (1, 9), importance=["relevance"], seed=3)
    np.testing.assert_array_equal(
        relevance(trace).values, trace.ragged("importance_relevance").values.astype(np.float64)
    )
    tail = make_trace(10, (1, 9), 3, hidden=4, importance=["relevance"], label=False, seed=3)
    assert relevance(tail).values.dtype == np.float64


def test_what_has_no_relevance_is_refused():
    """A tail, rows without a label, or several sigmoid outputs."""
    trace = make_trace(10, (1, 9), 3)
    several = replace(trace, metadata={**trace.metadata, "activation": "sigmoid"})
    unlabelled = make_trace(10, (1, 9), label=False)
    for refused in (make_trace(10, (1, 9), 3, hidden=4), unlabelled, several):
        with pytest.raises(InputError, match="a linear head and gold labels, or a column"):
            relevance(refused)
