"""Segments as positions: sums of weights, weighted means of readouts, and what does not add up."""

from typing import Any

import numpy as np
import pytest

from attnaudit.core import TraceError
from attnaudit.core.ragged import Ragged
from attnaudit.experiments import audit
from attnaudit.trace import Trace, aggregate
from tests.traces import make_trace


def segmented(seed=0, outputs=3, **options):
    """A trace and segments that need not be neighbours, some without any attention."""
    trace = make_trace(12, (1, 15), outputs, seed, zeros=0.5, importance=("own",), **options)
    rng = np.random.default_rng(seed)
    rows = []
    for length in trace.alpha.lengths.tolist():
        group = rng.integers(0, 4, length)
        rows.append(np.unique(group, return_inverse=True)[1].astype(np.int32))
    return trace, Ragged.from_rows(rows)


@pytest.mark.parametrize("hidden", [None, 5])
@pytest.mark.parametrize("outputs", [1, 3])
def test_counterfactuals_that_keep_proportions_inside_segments_are_exact(outputs, hidden):
    """Naive: spread each segment's new weight over its tokens, and ask the trace itself."""
    trace, group = segmented(outputs=outputs, hidden=hidden)
    coarse = aggregate(trace, group)
    rng = np.random.default_rng(1)
    other = coarse.alpha.with_values(rng.exponential(size=len(coarse.alpha.values)))
    other = other.with_values(other.values / other.spread(other.sum()))
    fine = []
    for alpha, own, weights in zip(trace.alpha, group, other, strict=True):
        totals = np.bincount(own, alpha)
        size = np.bincount(own)
        share = np.where(totals[own] > 0, alpha / np.maximum(totals[own], 1e-300), 1 / size[own])
        fine.append(share * weights[own])
    expected = trace.readout(Ragged.from_rows(fine))
    assert np.abs(coarse.readout(other) - expected).max() < 1e-6
    assert np.abs(coarse.prediction - trace.prediction).max() == 0


def test_weights_and_scores_add_up_and_rationales_are_any():
    trace, group = segmented()
    coarse = aggregate(trace, group)
    for row, own in enumerate(group):
        assert coarse.alpha[row] == pytest.approx(np.bincount(own, trace.alpha[row]), abs=1e-6)
        score = trace.ragged("importance_own")[row]
        assert coarse.ragged("importance_own")[row] == pytest.approx(np.bincount(own, score))
        marks = np.array(trace.cell("rationale", row))
        assert coarse.cell("rationale", row) == [
            bool(marks[own == k].any()) for k in np.unique(own)
        ]
        words = np.array(trace.tokens(row), dtype=object)
        assert coarse.tokens(row) == [" ".join(words[own == k]) for k in np.unique(own)]


def test_leave_one_out_stays_only_if_it_is_that_of_segments():
    trace, group = segmented()
    assert not aggregate(trace, group).has("loo")
    shared = [np.arange(own.max() + 1.0)[own] for own in group]
    given: dict[str, Any] = {**trace.table.to_dict(), "loo": shared}
    own = Trace.from_arrays(activation="softmax", class_names=trace.class_names, **given)
    coarse = aggregate(own, group)
    assert all(np.array_equal(one, np.arange(len(one))) for one in coarse.ragged("loo"))


def test_copies_stay_that_replace_whole_segments():
    trace, group = segmented(copies=40)
    coarse = aggregate(trace, group)
    for row, own in enumerate(group):
        found = zip(coarse.cell("replaced", row) or [], coarse.cell("replaced_prediction", row) or [],
                    strict=True)  # fmt: skip
        expected = []
        for lost, run in zip(
            trace.cell("replaced", row), trace.cell("replaced_prediction", row), strict=True
        ):
            whole = [k for k in np.unique(own) if {*np.flatnonzero(own == k)} <= {*lost}]
            if sum(own[p] in whole for p in range(len(own))) == len(lost):
                expected.append((whole, run))
        assert [(list(a), list(b)) for a, b in found] == expected


def test_one_token_a_segment_changes_nothing():
    trace = make_trace(10, (2, 9), 2, copies=20)
    group = Ragged.from_rows([np.arange(n) for n in trace.alpha.lengths.tolist()])
    names = [[f"s{k}" for k in range(n)] for n in trace.alpha.lengths.tolist()]
    given: dict[str, Any] = trace.table.to_dict()
    own = Trace.from_arrays(
        activation="softmax", class_names=trace.class_names, group=group, group_names=names, **given
    )
    coarse = aggregate(own)
    assert coarse.tokens(0) == names[0]
    experiments = ("permutation", "replacement", "correlation")
    one, other = (audit(part, experiments).summary for part in (trace, coarse))
    assert one.equals(other)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: [rows[0][:-1], *rows[1:]], "one a token"),
        (lambda rows: [rows[0] + 1, *rows[1:]], "all of 0 to"),
    ],
)
def test_wrong_segments_are_refused(change, expected):
    trace, group = segmented()
    with pytest.raises(TraceError, match=rf"column group, instance 0 \(row 0\).*{expected}"):
        aggregate(trace, Ragged.from_rows(change([np.array(row) for row in group])))
    with pytest.raises(TraceError, match="no column group"):
        aggregate(trace)
