from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import expit, softmax

from attnaudit.core.ragged import Ragged
from attnaudit.experiments import audit
from attnaudit.experiments.maximal_change import search
from attnaudit.experiments.maximal_change.bounds import (
    CLASSES,
    bound_from_ranges,
    change_bound,
)
from attnaudit.experiments.maximal_change.experiment import MaximalChange
from attnaudit.experiments.through_tail import Outputs
from attnaudit.trace import Trace
from attnaudit.trace.readout import Readout
from attnaudit.trace.tails import IdentityTail, Tail, TanhTail
from tests.oracles.maximal_change import change_under, sampled_change, single_changes, single_flips
from tests.tails import layer_trace, opaque
from tests.traces import make_trace, sigmoid_rows

KINDS: list[dict[str, Any]] = [
    {"outputs": 1}, {"outputs": 2}, {"outputs": 3}, {"outputs": 4, "candidates": True}, {"outputs": 30}, {"outputs": 1, "hidden": 6},
    {"outputs": 3, "hidden": 6},
]  # fmt: skip


def softmax_rows(alpha: list[float], readout: list[list[float]]) -> Trace:
    """One row of a softmax over as many classes as the readouts have numbers."""
    contribution = np.array(readout, np.float32)
    weights = np.array(alpha)
    prediction = softmax(weights @ contribution.astype(np.float64))
    return Trace.from_arrays(
        activation="softmax", class_names=[f"class {c}" for c in range(contribution.shape[1])], instance=[0],
        tokens=[[f"w{t}" for t in range(len(alpha))]], alpha=[weights.astype(np.float32)], readout=[contribution],
        offset=np.zeros((1, contribution.shape[1]), np.float32), prediction=prediction[None].astype(np.float32),
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_no_single_token_and_no_sample_changes_the_output_more(kind: dict[str, Any]):
    trace = make_trace(25, (1, 8), seed=1, **kind)
    table = MaximalChange()(trace)
    for row in range(len(trace)):
        alone, largest = single_changes(trace, row), table["max_delta_y"][row]
        assert largest >= max(alone) - 1e-12
        assert table["max_delta_y_upper"][row] >= max(sampled_change(trace, row), largest) - 1e-12
        assert alone[table["position"][row]] == pytest.approx(max(alone), abs=3e-6)
        assert table["token"][row] == trace.tokens(row)[table["position"][row]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("disguised", [False, True])
def test_nothing_changes_where_there_is_one_token(kind: dict[str, Any], disguised: bool):
    trace = make_trace(6, [1, 3, 1, 1, 2, 1], seed=2, **kind)
    alone = trace.alpha.lengths == 1
    table = MaximalChange()(opaque(trace) if disguised else trace).filter(alone)
    assert table["max_delta_y_upper"].to_numpy().max() <= 1e-6
    assert table["max_delta_y_proven"].all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_alone(kind: dict[str, Any]):
    """Before what was found counts. With two classes and an identity tail it is the maximum."""
    trace = make_trace(40, (1, 8), seed=12, **kind)
    bound = change_bound(Outputs.of(trace.readout, trace.alpha))
    largest = MaximalChange()(trace)["max_delta_y"].to_numpy()
    assert (bound >= largest - 1e-12).all()
    if kind in KINDS[:2]:
        np.testing.assert_allclose(bound, largest, atol=1e-12)


def test_a_token_of_small_change_flips():
    """Seven tokens change the output far more, all towards the predicted class."""
    trace = softmax_rows(
        [1.0] + [0.0] * 8, [[0.02, 0.0, -0.5], [0.0, 0.02, -0.5], *([[4.0, 0.0, 0.0]] * 7)]
    )
    assert MaximalChange()(trace)["flips"].to_list() == [True]
    without = softmax_rows([1.0] + [0.0] * 7, [[0.02, 0.0, -0.5], *([[4.0, 0.0, 0.0]] * 7)])
    assert MaximalChange()(without)["flips"].to_list() == [False]


@pytest.mark.parametrize("classes", [3, CLASSES, CLASSES + 6])
def test_the_bound_is_the_change_where_one_class_gains_what_each_other_loses(classes: int):
    """All attention is on a token that says nothing, and the other one lowers all logits but one by 3; behind tanh the bound is looser."""
    alpha, lowered = (
        Ragged.from_rows([[1.0, 0.0]]),
        np.array([[0.0] * classes, [0.0] + [-1.0] * (classes - 1)]),
    )
    gained = np.exp(3.0) / (np.exp(3.0) + classes - 1) - 1 / classes

    def bound(contribution: np.ndarray, tail: Tail) -> float:
        readout = Readout(alpha.with_values(contribution), np.zeros((1, classes)), "softmax", tail)
        return float(change_bound(Outputs.of(readout, alpha))[0])

    assert bound(3.0 * lowered, IdentityTail()) == pytest.approx(gained, abs=1e-9)
    assert (
        gained - 1e-9
        <= bound(20.0 * lowered, TanhTail(3.0 * np.eye(classes), np.zeros(classes)))
        < 1.0
    )


def test_the_bound_is_of_any_number_of_classes_that_lose_and_some_that_gain():
    """By the definition, of random ranges and candidates: of three classes that can each lose 0.1 no more than two do."""
    rng = np.random.default_rng(0)
    own, allowed = rng.dirichlet(np.ones(5), 50), rng.random((50, 5)) < 0.7
    low, high = own * rng.random((50, 5)), own + (1.0 - own) * rng.random((50, 5))
    for row, bound in enumerate(bound_from_ranges(own, low, high, allowed)):
        loss, gain = (np.sort(part[row, allowed[row]])[::-1] for part in (own - low, high - own))
        of_each = [min(loss[:k].sum(), gain[: len(gain) - k].sum()) for k in range(1, len(loss))]
        assert bound == pytest.approx(max(of_each, default=0.0), abs=1e-12)
    third = np.full((1, 3), 1 / 3)
    assert bound_from_ranges(
        third, third - 0.1, third + 0.5, np.ones((1, 3), bool)
    ) == pytest.approx([0.2])


@pytest.mark.parametrize("bias", [-1.0, -2.5])
def test_behind_tanh_a_mixture_may_flip_where_no_token_does(bias: float):
    """Each token raises one of two units and lowers the other: the units are 1 and -0.76, and nearly 1 both under half of each."""
    tail = TanhTail(np.ones((1, 2)), np.array([bias]))
    contribution = np.array([[9.0, -1.0], [-1.0, 9.0]], np.float32)
    trace = Trace.from_arrays(
        activation="sigmoid", class_names=["no", "yes"], instance=[0], tokens=[["a", "b"]], alpha=[np.array([1.0, 0.0], np.float32)],
        readout=[contribution], offset=np.zeros((1, 2), np.float32), tail=tail,
        prediction=expit(tail(contribution[:1].astype(np.float64), np.arange(1))).astype(np.float32),
    )  # fmt: skip
    assert not single_flips(trace, 0)
    assert MaximalChange()(trace)["flips"].to_list() == [bias == -1.0]


@pytest.mark.parametrize("kind", KINDS[:2])
def test_with_two_classes_single_tokens_are_the_maximum(kind: dict[str, Any]):
    trace = make_trace(30, (1, 8), seed=2, **kind)
    table = MaximalChange()(trace)
    assert table["max_delta_y_proven"].all()
    for row in range(len(trace)):
        assert table["max_delta_y"][row] == pytest.approx(
            max(single_changes(trace, row)), abs=1e-12
        )
        assert sampled_change(trace, row) <= table["max_delta_y"][row] + 1e-12


@pytest.mark.parametrize("kind", KINDS[:5])
def test_with_an_identity_tail_some_attention_flips_if_and_only_if_a_single_token_does(
    kind: dict[str, Any],
):
    trace = make_trace(30, (1, 6), seed=3, **kind)
    flips = MaximalChange()(trace)["flips"]
    assert flips.to_list() == [single_flips(trace, row) for row in range(len(trace))]
    assert 0 < flips.sum() < len(trace)


def test_a_mixture_may_change_the_output_more_than_any_token_does():
    """Two tokens for the second and the third class; half of each gives the first."""
    trace = softmax_rows([0.0, 0.0, 1.0], [[2.0, 5.0, -5.0], [2.0, -5.0, 5.0], [0.0, 5.0, 5.0]])
    table = MaximalChange()(trace)
    assert max(single_changes(trace, 0)) == pytest.approx(0.5, abs=0.01)
    assert change_under(trace, 0, np.array([0.5, 0.5, 0.0])) > 0.78
    assert table["max_delta_y"][0] >= change_under(trace, 0, np.array([0.5, 0.5, 0.0])) - 1e-9
    assert table["max_delta_y"][0] <= table["max_delta_y_upper"][0] <= 1.0


def test_single_tokens_alone_are_found_to_fall_short(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "one_logit_decides", lambda readout: True)
    trace = softmax_rows([0.0, 0.0, 1.0], [[2.0, 5.0, -5.0], [2.0, -5.0, 5.0], [0.0, 5.0, 5.0]])
    assert (
        MaximalChange()(trace)["max_delta_y"][0]
        < change_under(trace, 0, np.array([0.5, 0.5, 0.0])) - 0.1
    )


def test_the_bound_is_the_maximum_where_one_class_gains_all():
    """Three classes: what the loser of the best single token loses is proven."""
    trace = make_trace(80, (2, 10), 3, seed=4)
    assert MaximalChange()(trace)["max_delta_y_proven"].sum() > 40


@pytest.mark.parametrize("kind", [{"outputs": 1}, {"outputs": 3}, {"outputs": 3, "hidden": 6}])
def test_a_tail_in_disguise_gives_what_it_gives(kind: dict[str, Any]):
    trace = make_trace(40, (1, 12), seed=5, **kind)
    known, hidden = MaximalChange()(trace), MaximalChange()(opaque(trace))
    np.testing.assert_allclose(hidden["max_delta_y"], known["max_delta_y"], atol=0.05)
    assert (hidden["max_delta_y_upper"] >= known["max_delta_y"] - 1e-12).all()
    assert hidden["position"].equals(known["position"])
    assert (known["flips"] | ~hidden["flips"]).all()


@pytest.mark.parametrize("outputs", [1, 3])
def test_through_a_layer_of_a_transformer(outputs: int):
    trace = layer_trace(25, (1, 10), outputs, seed=1)
    table = MaximalChange()(trace)
    for row in range(len(trace)):
        assert table["max_delta_y"][row] >= max(single_changes(trace, row)) - 1e-5
        assert sampled_change(trace, row, 100) <= table["max_delta_y"][row] + 0.02
    order = np.random.default_rng(0).permutation(len(trace))
    np.testing.assert_allclose(
        MaximalChange()(trace.take(order))["max_delta_y"],
        table["max_delta_y"].to_numpy()[order],
        atol=1e-5,
    )


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch):
    trace = opaque(make_trace(30, (1, 12), 3, seed=6, hidden=6))
    whole = MaximalChange()(trace)
    monkeypatch.setattr("attnaudit.experiments.through_tail.NUMBERS", 100)
    assert MaximalChange()(trace).equals(whole)


def test_the_bound_of_logits_beyond_the_range_of_exp():
    """Without a warning, which the tests take for an error: the probability of a class is 0 where its odds are e^-3000."""
    table = MaximalChange()(
        softmax_rows([0.5, 0.5, 0.0], [[3000.0, 0.0, 0.0], [3000.0, 0.0, 0.0], [0.0, 3000.0, 0.0]])
    )
    assert table["max_delta_y"][0] == table["max_delta_y_upper"][0] == 1.0
    assert table["max_delta_y_proven"][0]


def test_tokens_that_all_say_the_same_change_nothing():
    table = MaximalChange()(
        sigmoid_rows(Ragged.from_rows([[1.0], [0.2, 0.8], [0.1, 0.2, 0.7]]), np.full(6, 1.5))
    )
    np.testing.assert_allclose(table["max_delta_y"], 0.0, atol=1e-12)
    assert table["flips"].to_list() == [False, False, False]
    assert table["position"].to_list() == [0, 0, 0]


@pytest.mark.parametrize("hidden", [None, 6])
def test_special_tokens(hidden: int | None):
    """Without special tokens the change is that of the trace without these tokens, and null where there is no other."""
    base = make_trace(20, (1, 8), 1 if hidden is None else 3, seed=7, hidden=hidden)
    marks = [
        [row > 4 and t in (0, length - 1) for t in range(length)]
        for row, length in enumerate(base.alpha.lengths)
    ]
    trace = Trace(
        base.table.with_columns(pl.Series("special", marks, pl.List(pl.Boolean))),
        base.metadata,
        base.tail,
    )
    table = MaximalChange()(trace)
    for row, mark in enumerate(marks):
        alone = [
            change
            for change, special in zip(single_changes(base, row), mark, strict=True)
            if not special
        ]
        if not alone or not any(mark):
            assert table["max_delta_y_words"][row] is None
        elif hidden is None:
            assert table["max_delta_y_words"][row] == pytest.approx(max(alone), abs=1e-12)
        else:
            assert (
                max(alone) - 1e-12
                <= table["max_delta_y_words"][row]
                <= table["max_delta_y_upper"][row] + 1e-12
            )
    summary = MaximalChange().summarise(table)
    assert summary.filter(pl.col("measure") == "max_delta_y_words", pl.col("group") == "all")[
        "n"
    ].item() < len(trace)


@pytest.mark.parametrize("least", [0.0, -0.01])
def test_a_class_that_is_as_likely_is_no_other_decision(least: float):
    """One sigmoid and two classes: all attention on the second token leaves both equally likely, or the other one more so."""
    one_logit = sigmoid_rows(Ragged.from_rows([[1.0, 0.0]]), np.array([2.0, least]))
    for trace in (
        one_logit,
        softmax_rows([1.0, 0.0], [[2.0, 0.0], [least, 0.0]]),
        opaque(one_logit),
    ):
        assert MaximalChange()(trace)["flips"].to_list() == [least < 0.0]


def test_more_special_tokens_than_are_mixed():
    """The eight largest changes are those of special tokens: the word's counts alone."""
    base = sigmoid_rows(
        Ragged.from_rows([[0.1] * 8 + [0.2], [0.5, 0.5]]),
        np.array([4.0, -4.0] * 4 + [0.1, 1.0, 2.0]),
    )
    marks = pl.Series("special", [[True] * 8 + [False], [True, False]])
    table = MaximalChange()(Trace(base.table.with_columns(marks), base.metadata, base.tail))
    expected = [single_changes(base, 0)[8], single_changes(base, 1)[1]]
    assert expected[0] < 0.1 < min(single_changes(base, 0)[:8])
    assert table["max_delta_y_words"].to_list() == pytest.approx(expected, abs=1e-12)


def test_a_word_alone_is_mixed_with_no_special_token():
    """The mixture that changes the output is of two special tokens; the model's own attention is on the only word."""
    base = softmax_rows([0.0, 0.0, 1.0], [[2.0, 5.0, -5.0], [2.0, -5.0, 5.0], [0.0, 5.0, 5.0]])
    marks = pl.Series("special", [[True, True, False]])
    table = MaximalChange()(Trace(base.table.with_columns(marks), base.metadata, base.tail))
    assert table["max_delta_y"][0] > 0.78
    assert table["max_delta_y_words"][0] == pytest.approx(0.0, abs=1e-12)


def test_the_summary_and_the_card():
    results = audit(make_trace(40, (2, 10), seed=8), ["permutation", "maximal_change"])
    assert results["maximal_change"].summary.filter(group="all")["measure"].to_list() == [
        "max_delta_y", "max_delta_y_upper", "max_delta_y_proven", "flips",
    ]  # fmt: skip
