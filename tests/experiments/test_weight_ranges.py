"""The range of weights that each token can have with nearly the same output."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnaudit.core import TraceError
from attnaudit.core.ragged import Ragged
from attnaudit.experiments import audit
from attnaudit.experiments.adversary.exact import slab_within
from attnaudit.experiments.ranges import experiment, line
from attnaudit.experiments.ranges.experiment import Ranges
from attnaudit.experiments.ranges.line import ranges_in_slab
from attnaudit.trace import Readout
from tests.oracles.ranges import ranges_by_programs
from tests.tails import layer_trace, opaque
from tests.traces import make_trace, trace_of

PROVEN = 1e-9


def ranges(trace, epsilon=0.01):
    return Ranges(epsilon=epsilon)(trace)


def lists(table, name):
    return [np.array(row) for row in table[name].to_list()]


def farthest_from_programs(trace, epsilon):
    """The largest difference of any weight from that of the linear programs."""
    table = ranges(trace, epsilon)
    least, most = zip(
        *(ranges_by_programs(trace, row, epsilon) for row in range(len(trace))), strict=True
    )
    pairs = (("possible", most), ("necessary", least))
    gaps = [np.concatenate(lists(table, name)) - np.concatenate(known) for name, known in pairs]
    return float(np.abs(gaps).max())


@pytest.mark.parametrize("epsilon", [0.001, 0.01, 0.1, 0.4])
@pytest.mark.parametrize("outputs", [1, 2])
def test_one_logit_is_solved_as_by_linear_programs(outputs, epsilon):
    """1,000 random instances in all, of 1 to 15 tokens, some of them without any attention."""
    trace = make_trace(125, (1, 15), outputs, seed=outputs, zeros=0.2, candidates=False)
    assert farthest_from_programs(trace, epsilon) < PROVEN


@pytest.mark.parametrize("bug", ["own extreme", "no lower side", "wide slab"])
def test_a_planted_bug_is_found_by_the_programs(bug, monkeypatch):
    """The token itself taken for one of the others, one side of the slab forgotten, a slab that is twice as wide."""

    def wrong_slab(readout, alpha, epsilon):
        slab = slab_within(readout, alpha, 2 * epsilon if bug == "wide slab" else epsilon)
        return (
            replace(slab, low=np.full_like(slab.low, -np.inf)) if bug == "no lower side" else slab
        )

    monkeypatch.setattr(experiment, "slab_within", wrong_slab)
    if bug == "own extreme":
        monkeypatch.setattr(line, "_alone", lambda alpha, marked: np.zeros_like(marked))
    assert farthest_from_programs(make_trace(20, (2, 6), seed=3), 0.05) > 1e-3


Row = tuple[list[float], list[float], float]


@st.composite
def one_row(draw):
    """Weights, readouts of any size and an offset, exact zeros and equal readouts among them."""
    size = draw(st.integers(1, 8))
    numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-30, 30))
    relevance = draw(st.lists(numbers, min_size=size, max_size=size))
    weights = draw(
        st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1.0)), min_size=size, max_size=size)
    )
    weights[draw(st.integers(0, size - 1))] += 1.0
    return [weight / sum(weights) for weight in weights], relevance, draw(st.floats(-5, 5))


def slab_of(row, epsilon):
    alpha = Ragged.from_rows([row[0]])
    readout = Readout(alpha.with_values(np.array(row[1])[:, None]), np.array([[row[2]]]), "sigmoid")
    return alpha, slab_within(readout, alpha, epsilon)


@given(one_row(), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_the_own_weight_lies_within_and_ranges_grow_with_epsilon(row, one, other):
    narrow, wide = (ranges_in_slab(*slab_of(row, epsilon)) for epsilon in sorted((one, other)))
    alpha = np.array(row[0])
    for found in (narrow, wide):
        ordered = np.stack([0.0 * alpha, found.necessary, alpha, found.possible, 0.0 * alpha + 1.0])
        assert (np.diff(ordered, axis=0) >= 0.0).all()
    assert (wide.possible >= narrow.possible - 1e-12).all()
    assert (wide.necessary <= narrow.necessary + 1e-12).all()


@given(one_row(), st.floats(0.001, 0.5), st.randoms(use_true_random=False))
def test_the_order_of_tokens_does_not_matter(row, epsilon, random):
    alpha, slab = slab_of(row, epsilon)
    order = random.sample(range(len(alpha.values)), len(alpha.values))
    turned = replace(slab, relevance=slab.relevance[order])
    there = ranges_in_slab(alpha.with_values(alpha.values[order]), turned)
    for one, other in zip(there, ranges_in_slab(alpha, slab), strict=True):
        np.testing.assert_allclose(one, other[order], atol=1e-9)


def test_degenerate_rows():
    """One token; equal readouts; a slab that no token leaves; one that only a single token is in; a saturated output."""
    alpha = [[1.0], [0.7, 0.2, 0.1], [0.5, 0.5], [1.0, 0.0, 0.0], [0.5, 0.5]]
    relevance = [3.0, 2.0, 2.0, 2.0, 0.001, -0.001, 0.0, 40.0, 50.0, 60.0, 80.0]
    table = ranges(trace_of(alpha, relevance))
    possible, necessary = (table[name].to_list() for name in ("possible", "necessary"))
    assert possible[:3] == [[1.0], [1.0, 1.0, 1.0], [1.0, 1.0]]
    assert necessary[:3] == [[1.0], [0.0, 0.0, 0.0], [0.0, 0.0]]
    edge = np.log(0.51 / 0.49)  # the logit of ŷ + ε, ŷ = ½
    assert possible[3] == pytest.approx([1.0, edge / 40, edge / 50], rel=1e-9)
    assert necessary[3] == pytest.approx([1 - edge / 40, 0.0, 0.0], rel=1e-9)
    assert possible[4] == [1.0, 1.0]
    assert table["mean_possible"][0] is None
    assert table["any_necessary"].to_list() == [None, False, False, True, False]
    assert table["top_necessary"][3] == pytest.approx(1 - edge / 40)


@pytest.mark.parametrize(
    "trace",
    [layer_trace(4), opaque(make_trace(4)), make_trace(4, outputs=3), make_trace(4, hidden=3)],
)
def test_more_than_one_logit_is_refused(trace):
    with pytest.raises(TraceError, match="ranges: more than two classes, or further layers"):
        audit(trace, ["ranges"])
    assert "ranges" not in audit(trace)
