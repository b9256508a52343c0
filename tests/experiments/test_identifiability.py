from typing import Any, NamedTuple

import numpy as np
import pytest

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.identifiability import null_space
from attnaudit.experiments.identifiability.experiment import Identifiability
from attnaudit.experiments.identifiability.null_space import movements
from tests.oracles.identifiability import largest_distance, null_dimension, weight_range
from tests.traces import make_trace, trace_of


def on_a_line(zeros):
    """Readouts of few values: ties, tokens at the attended sum, all weight on one token, two tokens, equal readouts."""
    random = np.random.default_rng(9)
    lengths = [*random.integers(3, 7, 25), 2, 1, 3]
    rows = [random.random(size) * (random.random(size) >= zeros) for size in lengths]
    alpha = Ragged.from_rows([row + 1e-3 * np.eye(len(row))[0] for row in rows])
    relevance = random.integers(-2, 3, len(alpha.values)).astype(float)
    relevance[-3:] = 1.0
    weights = alpha.with_values(alpha.values / alpha.spread(alpha.sum()))
    weights.values[: lengths[0]] = np.eye(lengths[0])[1]
    return trace_of(weights, relevance)


KINDS = [{}, {"outputs": 2}, {"outputs": 3}, {"outputs": 3, "hidden": 4}]
TRACES = {str(kind): make_trace(20, (1, 7), seed=1, zeros=0.1, **kind) for kind in KINDS} | {
    "line": on_a_line(0.0),
    "line, zeros": on_a_line(0.4),
}


class Moved(NamedTuple):
    """`Movements` of a single row."""

    dimension: int
    reach: float
    upper: float
    least: np.ndarray
    most: np.ndarray
    ends: np.ndarray


@pytest.fixture(autouse=True)
def every_range(monkeypatch):
    monkeypatch.setattr(null_space, "RANGES", 20)


def movement(readout, alpha):
    of_rows = movements(Ragged.from_rows([readout]), Ragged.from_rows([alpha]))
    parts: list[Any] = [part[0] for part in of_rows]
    return Moved(*parts)


def ranges_of(trace, row):
    """Least and largest weight of the tokens, largest attention first, by enumeration."""
    tokens = np.argsort(-trace.alpha[row], kind="stable")
    return np.transpose([weight_range(trace, row, int(token)) for token in tokens])


@pytest.mark.parametrize("kind", TRACES)
def test_dimension_ranges_and_distance_are_those_of_enumeration(kind):
    trace, exact = TRACES[kind], 0
    table = Identifiability()(trace)
    for row in range(len(trace)):
        moved = movement(trace.readout.contribution[row], trace.alpha[row])
        assert table["null_dimension"][row] == moved.dimension == null_dimension(trace, row)
        np.testing.assert_allclose([moved.least, moved.most], ranges_of(trace, row), atol=1e-6)
        largest = largest_distance(trace, row)
        assert moved.reach <= largest + 1e-6 <= moved.upper + 2e-6
        exact += moved.reach > largest - 1e-6
    assert exact >= (16 if "outputs" in kind else len(trace))


def test_every_attention_at_the_largest_distance_has_the_same_sum():
    trace = make_trace(20, (1, 9), seed=10, zeros=0.1)
    for r, a in zip(trace.readout.contribution, trace.alpha, strict=True):
        moved = movement(r, a)
        assert moved.ends[0] @ r == pytest.approx(a @ r, abs=1e-9)
        assert 0.5 * np.abs(moved.ends[0] - a).sum() == pytest.approx(moved.reach, abs=1e-9)


def test_the_other_weights_of_a_saturated_row_are_not_lost():
    """Weights of 1e-20 beside one of 1: the sum differs from the readout of its token by less than rounding of either."""
    alpha = np.array([1.0, 3e-20, 1e-20])
    moved = movement(np.array([[1.0], [3.0], [2.0]]), alpha)
    assert moved.most == pytest.approx([1.0, 3.5e-20, 7e-20], rel=1e-9, abs=0.0)


def test_readouts_on_a_line_need_no_program(monkeypatch):
    """Whatever the width; the numbers are those of programs and of enumeration."""
    base = make_trace(10, (3, 9), seed=2)
    known = [ranges_of(base, row) for row in range(len(base))]
    monkeypatch.setattr("scipy.optimize.linprog", None)
    for row, (r, a) in enumerate(zip(base.readout.contribution, base.alpha, strict=True)):
        found = movement(r @ np.array([[0.6, -1.2, 0.3]]), a)
        np.testing.assert_allclose([found.least, found.most], known[row], atol=1e-6)
        assert found.reach == found.upper == pytest.approx(largest_distance(base, row), abs=1e-6)


def test_the_size_of_a_direction_does_not_matter():
    """A number of the readouts that is a thousandth or less of the others determines as much as these."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        readouts, alpha = rng.normal(size=(6, 3)), rng.dirichlet(np.ones(6))
        one, other = movement(readouts, alpha), movement(readouts * [1.0, 1e-3, 1e-4], alpha)
        assert one.dimension == other.dimension == 2
        np.testing.assert_allclose([other.least, other.most], [one.least, one.most], atol=1e-6)


def test_rounding_to_float32_is_no_direction():
    """Readouts that are equal but for their rounding do not determine the weights."""
    rng = np.random.default_rng(0)
    same = np.tile(rng.normal(size=4), (5, 1))
    rounded = same * (1.0 + rng.choice([-1, 1], same.shape) * 2.0**-25)
    alpha = np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    apart = same + 1e-4 * rng.normal(size=same.shape)
    for width, dimension in ((4, 0), (1, 3)):
        assert movement(rounded[:, :width], alpha).dimension == 4
        assert movement(apart[:, :width], alpha).dimension == dimension


def test_rows_too_large_for_programs_have_their_dimension(monkeypatch):
    monkeypatch.setattr(null_space, "LARGEST", 10)
    trace = make_trace(5, (6, 8), 3, seed=6)
    table = Identifiability()(trace)
    assert table["null_dimension"].to_list() == [null_dimension(trace, row) for row in range(5)]
    assert table["max_tvd_alpha"].null_count() == table["weight_range"].null_count() == 5


@pytest.mark.parametrize("bug", ["a sum forgotten", "coarse"])
def test_a_planted_bug_is_found(bug, monkeypatch):
    """One number of the attended sum is free, or a tolerance merges directions."""
    if bug == "coarse":
        monkeypatch.setattr(null_space, "ZERO", 0.3)
    else:
        honest = null_space._maximise
        monkeypatch.setattr(
            null_space, "_maximise", lambda goals, spanned, own: honest(goals, spanned[:, :-1], own)
        )
    with pytest.raises(AssertionError):
        test_dimension_ranges_and_distance_are_those_of_enumeration(str({"outputs": 2}))
