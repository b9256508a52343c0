"""The range of weights that each token can have with nearly the same output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from attnaudit.core.errors import TraceError
from attnaudit.core.ragged import Ragged
from attnaudit.experiments import audit
from attnaudit.experiments.adversary.exact import Slab, slab_within
from attnaudit.experiments.programs import Constraints, maximise
from attnaudit.experiments.ranges import experiment, half_spaces, line, search
from attnaudit.experiments.ranges.experiment import Ranges
from attnaudit.experiments.ranges.half_spaces import (
    SUBSETS,
    HalfSpaces,
    RowLogits,
    first_sets,
    line_below_tanh,
    outputs_within,
)
from attnaudit.experiments.ranges.line import ranges_in_slab
from attnaudit.trace import Trace
from attnaudit.trace.readout import Readout
from tests.oracles.adversary_several import predictions, within
from tests.oracles.ranges import mixtures_within, ranges_by_programs
from tests.tails import layer_trace, opaque
from tests.traces import make_trace, trace_of

PROVEN = 1e-9
SEVERAL: list[dict[str, Any]] = [
    {"outputs": 3}, {"outputs": 5, "candidates": True}, {"outputs": 8}, {"outputs": 1, "hidden": 3}, {"outputs": 3, "hidden": 4},
]  # fmt: skip


def ranges(trace: Trace, epsilon: float = 0.01) -> pl.DataFrame:
    return Ranges(epsilon=epsilon, share=1.0)(trace)


def lists(table: pl.DataFrame, name: str) -> list[np.ndarray]:
    return [np.array(row) for row in table[name].to_list()]


def change(trace: Trace, row: int, attention: np.ndarray) -> np.ndarray:
    """TVD of the outputs under several attentions from the model's own."""
    outputs = predictions(trace, row, np.vstack([trace.alpha[row], attention]))
    return within(outputs[1:], outputs[0])


def farthest_from_programs(trace: Trace, epsilon: float) -> float:
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
def test_one_logit_is_solved_as_by_linear_programs(outputs: int, epsilon: float):
    """1,000 random instances in all, of 1 to 15 tokens, some of them without any attention."""
    trace = make_trace(125, (1, 15), outputs, seed=outputs, zeros=0.2, candidates=False)
    assert farthest_from_programs(trace, epsilon) < PROVEN


@pytest.mark.parametrize("bug", ["own extreme", "no lower side", "wide slab"])
def test_a_planted_bug_is_found_by_the_programs(bug: str, monkeypatch: pytest.MonkeyPatch):
    """The token itself taken for one of the others, one side of the slab forgotten, a slab that is twice as wide."""

    def wrong_slab(readout: Readout, alpha: Ragged, epsilon: float) -> Slab:
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
def one_row(draw: st.DrawFn) -> Row:
    """Weights, readouts of any size and an offset, exact zeros and equal readouts among them."""
    size = draw(st.integers(1, 8))
    numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-30, 30))
    relevance = draw(st.lists(numbers, min_size=size, max_size=size))
    weights = draw(
        st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1.0)), min_size=size, max_size=size)
    )
    weights[draw(st.integers(0, size - 1))] += 1.0
    return [weight / sum(weights) for weight in weights], relevance, draw(st.floats(-5, 5))


def slab_of(row: Row, epsilon: float) -> tuple[Ragged, Slab]:
    alpha = Ragged.from_rows([row[0]])
    readout = Readout(alpha.with_values(np.array(row[1])[:, None]), np.array([[row[2]]]), "sigmoid")
    return alpha, slab_within(readout, alpha, epsilon)


@given(one_row(), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_the_own_weight_lies_within_and_ranges_grow_with_epsilon(
    row: Row, one: float, other: float
):
    narrow, wide = (ranges_in_slab(*slab_of(row, epsilon)) for epsilon in sorted((one, other)))
    alpha = np.array(row[0])
    for found in (narrow, wide):
        ordered = np.stack([0.0 * alpha, found.necessary, alpha, found.possible, 0.0 * alpha + 1.0])
        assert (np.diff(ordered, axis=0) >= 0.0).all()
    assert (wide.possible >= narrow.possible - 1e-12).all()
    assert (wide.necessary <= narrow.necessary + 1e-12).all()


@given(one_row(), st.floats(0.001, 0.5), st.randoms(use_true_random=False))
def test_the_order_of_tokens_does_not_matter(row: Row, epsilon: float, random: Random):
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


@pytest.mark.parametrize("epsilon", [0.003, 0.05, 0.3])
@pytest.mark.parametrize("classes", [2, 3, 4, 6, 9, 14])
def test_the_half_spaces_hold_every_output_allowed(classes: int, epsilon: float):
    rng = np.random.default_rng([classes, int(1000 * epsilon)])
    touched = []
    for _ in range(20):
        log_p = log_softmax(rng.normal(0, 2.0, classes))
        sets = first_sets(classes)
        if classes > SUBSETS:
            sets = np.vstack([sets, rng.random((30, classes)) < 0.5])
        held = half_spaces.outputs_within(log_p, epsilon, sets)
        change = rng.dirichlet(np.full(classes, 0.2), 300) - rng.dirichlet(
            np.full(classes, 0.2), 300
        )
        change *= (1 - 1e-6) * epsilon / (0.5 * np.abs(change).sum(axis=1, keepdims=True))
        allowed = np.exp(log_p) + change
        allowed = allowed[(allowed > 0).all(axis=1)]
        room = held.bound - (np.log(allowed) - log_p) @ held.direction.T
        assert room.min(initial=1.0) >= 0.0
        touched.append(room.min(initial=1.0))
    if classes <= SUBSETS and epsilon < 0.1:
        assert np.median(touched) < 0.2 * epsilon


@pytest.mark.parametrize("kind", SEVERAL)
def test_of_several_outputs_no_attention_goes_beyond_the_bounds_and_some_attention_has_what_was_found(
    kind: dict[str, Any],
):
    trace = make_trace(12, (2, 7), seed=7, **kind)
    witnesses, rng = recorded(trace, 0.03), np.random.default_rng(0)
    names = ("necessary_lower", "necessary", "possible", "possible_upper")
    table = ranges(trace, 0.03)
    found = [lists(table, name) for name in names]
    for row, alpha in enumerate(trace.alpha):
        lower, least, most, upper = (each[row] for each in found)
        assert (np.diff([lower, least, alpha, most, upper], axis=0) >= 0.0).all()
        drawn = rng.dirichlet(np.full(len(alpha), 0.5), 100)
        nearer = [alpha + share * (drawn - alpha) for share in (0.03, 0.1, 0.3)]
        tried = np.vstack([drawn, np.eye(len(alpha)), *nearer])
        allowed = tried[change(trace, row, tried) <= 0.03]
        assert (allowed <= upper + 1e-9).all()
        assert (allowed >= lower - 1e-9).all()
        shown = np.vstack([alpha, *witnesses[row]])
        np.testing.assert_allclose(shown.max(axis=0), most, atol=1e-12)
        np.testing.assert_allclose(shown.min(axis=0), least, atol=1e-12)
        assert change(trace, row, shown).max() <= 0.03 + 2e-9


@pytest.mark.parametrize("kind", SEVERAL)
def test_nothing_is_found_beyond_what_programs_bound(kind: dict[str, Any]):
    """`Bounds` hold what was found in any case; the programs' own bounds do without."""
    trace = make_trace(6, (2, 7), seed=7, **kind)
    for row, alpha in enumerate(trace.alpha):
        one, each = RowLogits.from_readout(trace.readout, alpha, row), np.eye(len(alpha))
        outer, _ = search.conditions(one, 0.03 + 1e-9)
        bounds = search.weight_bounds(one, 0.03, alpha)
        assert (maximise(each, outer, alpha).bound >= bounds.possible - 1e-9).all()
        assert (-maximise(-each, outer, alpha).bound <= bounds.necessary + 1e-9).all()


def recorded(trace: Trace, epsilon: float) -> list[np.ndarray]:
    """Of every row the attentions that its ranges rest on."""
    honest, found = search.attentions_within, []

    def recording(row: RowLogits, inner: Constraints, limit: float, other: np.ndarray):
        found.append(honest(row, inner, limit, other))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "attentions_within", recording)
        ranges(trace, epsilon)
    return found


@pytest.mark.parametrize("kind", SEVERAL)
def test_of_two_tokens_the_ranges_hold_those_of_a_grid(kind: dict[str, Any]):
    trace = make_trace(8, (2, 2), seed=8, **kind)
    table, gaps = ranges(trace, 0.05), []
    for row in range(len(trace)):
        allowed = mixtures_within(trace, row, 0.05)
        assert (lists(table, "possible_upper")[row] >= allowed.max(axis=0) - 1e-9).all()
        assert (lists(table, "necessary_lower")[row] <= allowed.min(axis=0) + 1e-9).all()
        gaps.append(np.abs(lists(table, "possible")[row] - allowed.max(axis=0)).max())
    assert np.median(gaps) < 0.01


@pytest.mark.parametrize("outputs", [3, 5])
def test_where_logits_are_linear_some_attention_comes_near_every_bound(outputs: int):
    table = ranges(make_trace(8, (4, 9), outputs, seed=21))
    for one, other in (("possible_upper", "possible"), ("necessary", "necessary_lower")):
        gaps = np.concatenate(lists(table, one)) - np.concatenate(lists(table, other))
        assert gaps.max() < 0.03
        assert gaps.mean() < 0.01


@pytest.mark.parametrize("outputs", [1, 2])
def test_behind_tanh_mixtures_of_two_tokens_are_found(outputs: int):
    """One logit decides, which a mixture on two sides of the model's own passes, however thin what is within ε."""
    trace = make_trace(8, (2, 6), seed=4, outputs=outputs, hidden=8)
    found = lists(ranges(trace, 0.01), "possible")
    most = [mixtures_within(trace, row, 0.01, steps=300).max(axis=0) for row in range(len(trace))]
    gaps = [(one - other).max() for one, other in zip(most, found, strict=True)]
    assert max(gaps) <= 0.1
    assert np.mean(gaps) < 0.01


def test_programs_of_two_classes_come_to_the_closed_form(monkeypatch: pytest.MonkeyPatch):
    trace = make_trace(30, (1, 12), 2, seed=9)
    exact = ranges(trace)
    monkeypatch.setattr(experiment, "one_logit_decides", lambda readout: False)
    solved = ranges(trace)
    for name, known in (("possible_upper", "possible"), ("necessary_lower", "necessary")):
        for one, other in zip(lists(solved, name), lists(exact, known), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
    assert np.nanmean((exact["mean_possible"] - solved["mean_possible"]).to_numpy()) < 0.01


def test_behind_tanh_the_linear_functions_are_never_above_the_logits():
    trace, rng = make_trace(15, (2, 8), 3, seed=12, hidden=5), np.random.default_rng(1)
    for row, alpha in enumerate(trace.alpha):
        one, direction = RowLogits.from_readout(trace.readout, alpha, row), rng.normal(size=(20, 3))
        relaxed = one.relaxed(HalfSpaces(direction, np.zeros(20)))
        tried = np.vstack([rng.dirichlet(np.full(len(alpha), 0.3), 200), np.eye(len(alpha)), alpha])
        moved = one.logits(tried @ one.single) - one.logits(alpha @ one.single)
        assert (tried @ relaxed.matrix.T - relaxed.limit <= moved @ direction.T + 1e-9).all()


@pytest.mark.parametrize("hidden", [None, 5])
def test_half_spaces_are_followed_to_first_order_at_the_own_attention(hidden: int | None):
    trace, rng = make_trace(5, (2, 8), 3, seed=12, hidden=hidden), np.random.default_rng(1)
    for row, alpha in enumerate(trace.alpha):
        one, direction = RowLogits.from_readout(trace.readout, alpha, row), rng.normal(size=(20, 3))
        tangent = one.tangent(HalfSpaces(direction, np.zeros(20)))
        step = 1e-5 * (rng.dirichlet(np.ones(len(alpha)), 10) - alpha)
        moved = one.logits((alpha + step) @ one.single) - one.logits((alpha - step) @ one.single)
        np.testing.assert_allclose(2.0 * step @ tangent.matrix.T, moved @ direction.T, atol=1e-10)


def tangents(p: np.ndarray, epsilon: float, *_: Any) -> HalfSpaces:
    """What is true to first order in ε, and not beyond: Σ over S of p_k (z_k − Σ p z) ≤ ε."""
    directions = [p * (inside - p @ inside) for inside in np.eye(len(p))]
    return HalfSpaces(np.array(directions), np.full(len(p), epsilon))


def narrower(log_p: np.ndarray, epsilon: float, sets: np.ndarray) -> HalfSpaces:
    return outputs_within(log_p, 0.5 * epsilon, sets)


def higher_line(*given: Any) -> tuple[Any, Any]:
    slope, offset = line_below_tanh(*given)
    return slope, offset + 0.3


BUGS: dict[str, tuple[str, Callable[..., Any], Callable[..., None], list[Any]]] = {
    "half of epsilon": (
        "search.outputs_within",
        narrower,
        test_nothing_is_found_beyond_what_programs_bound,
        SEVERAL[:1],
    ),
    "tangent for chord": (
        "half_spaces._of_sets",
        tangents,
        test_the_half_spaces_hold_every_output_allowed,
        [3, 0.3],
    ),
    "no offset of the line": (
        "half_spaces.line_below_tanh",
        higher_line,
        test_behind_tanh_the_linear_functions_are_never_above_the_logits,
        [],
    ),
    "witness not read out": (
        "search._first_within",
        lambda row, outside, *_: outside,
        test_of_several_outputs_no_attention_goes_beyond_the_bounds_and_some_attention_has_what_was_found,
        SEVERAL[:1],
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_of_several_outputs_is_found(bug: str, monkeypatch: pytest.MonkeyPatch):
    place, wrong, check, arguments = BUGS[bug]
    monkeypatch.setattr(f"attnaudit.experiments.ranges.{place}", wrong)
    with pytest.raises(AssertionError):
        check(*arguments)


def test_a_share_of_the_rows_is_drawn_by_the_seed_whatever_their_company():
    trace = make_trace(30, (2, 3), 3, seed=10)
    table = Ranges(share=0.3)(trace)
    drawn = table["possible"].is_not_null()
    assert 3 < drawn.sum() < 15
    assert drawn.equals(table["mean_possible"].is_not_null(), check_names=False)
    turned = np.random.default_rng(0).permutation(30)
    assert Ranges(share=0.3)(trace.take(turned)).equals(table[turned])
    other = Ranges(share=0.3, seed=1)(trace)["possible"].is_not_null()
    assert not other.equals(drawn)
    summary = Ranges().summarise(table.lazy()).filter(group="all", measure="mean_possible")
    assert summary.select("n", "undefined").row(0) == (drawn.sum(), 30 - drawn.sum())
    # Where one logit decides, all rows have their ranges.
    assert Ranges(share=0.3)(make_trace(20, (2, 5)))["possible"].null_count() == 0


def test_rows_whose_programs_would_take_too_long_have_no_range(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(experiment, "LARGEST", 12 * 16)
    trace = make_trace(20, (2, 7), 3, seed=11)
    table = ranges(trace)
    assert table["possible"].is_not_null().to_list() == (trace.alpha.lengths <= 4).tolist()


def test_tails_that_nothing_bounds_are_refused():
    for trace in (layer_trace(4), opaque(make_trace(4))):
        with pytest.raises(
            TraceError, match="does not apply: the attended sum goes through further layers"
        ):
            audit(trace, ["ranges"])
    assert "ranges" not in audit(opaque(make_trace(4)))
