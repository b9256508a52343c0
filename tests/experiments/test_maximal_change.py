import numpy as np
import polars as pl
import pytest

from attnaudit.core.ragged import Ragged
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.maximal_change import search
from attnaudit.experiments.maximal_change.bounds import CLASSES, bound_from_ranges, change_bound
from attnaudit.experiments.maximal_change.experiment import MaximalChange
from attnaudit.experiments.through_tail import Outputs
from attnaudit.stats.measures import tvd
from attnaudit.trace import IdentityTail, Readout, TanhTail
from tests.oracles.maximal_change import change_under, sampled_change, single_changes, single_flips
from tests.tails import opaque
from tests.traces import make_trace, trace_of, with_columns

KINDS = [
    {"outputs": 1}, {"outputs": 2}, {"outputs": 3}, {"outputs": 4, "candidates": True}, {"outputs": 30}, {"outputs": 1, "hidden": 6},
    {"outputs": 3, "hidden": 6}, {"outputs": 30, "candidates": True}, {"outputs": 30, "candidates": True, "hidden": 2},
]  # fmt: skip


MIXED = trace_of([[0.0, 0.0, 1.0]], [[2.0, 5.0, -5.0], [2.0, -5.0, 5.0], [0.0, 5.0, 5.0]])
"""Two tokens for the second and the third class; half of each gives the first."""


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_no_single_token_and_no_sample_changes_the_output_more(kind):
    """With two classes a single token is the maximum and the bound; with an identity tail one flips if any attention does."""
    trace, identity = make_trace(25, (1, 8), seed=1, **kind), "hidden" not in kind
    table, two = MaximalChange()(trace), identity and kind["outputs"] < 3
    largest, upper = (table[name].to_numpy() for name in ("max_delta_y", "max_delta_y_upper"))
    bound = change_bound(Outputs.of(trace.readout, trace.alpha))
    assert (bound >= largest - 1e-12).all()
    assert (bound <= largest + 1e-12).all() or not two
    assert table["max_delta_y_proven"].all() or not two
    for row in range(len(trace)):
        alone, position = single_changes(trace, row), table["position"][row]
        assert largest[row] >= max(alone) - 1e-12
        assert largest[row] <= max(alone) + 1e-12 or not two
        assert upper[row] >= max(sampled_change(trace, row), largest[row]) - 1e-12
        assert alone[position] == pytest.approx(max(alone), abs=3e-6)
        assert table["token"][row] == trace.tokens(row)[position]
        assert table["flips"][row] >= single_flips(trace, row)
        assert table["flips"][row] == single_flips(trace, row) or not identity
    assert 0 < table["flips"].sum() < len(trace)
    single = table.filter(trace.alpha.lengths == 1)
    assert single["max_delta_y_upper"].to_numpy().max() <= 1e-6
    assert single["max_delta_y_proven"].all()


def test_a_token_of_small_change_flips():
    """Seven tokens change the output far more, all towards the predicted class."""
    for small in ([[0.02, 0.0, -0.5], [0.0, 0.02, -0.5]], [[0.02, 0.0, -0.5]]):
        readout = [*small, *([[4.0, 0.0, 0.0]] * 7)]
        trace = trace_of([np.eye(len(readout))[0]], readout)
        assert MaximalChange()(trace)["flips"].to_list() == [len(small) == 2]


@pytest.mark.parametrize("classes", [3, CLASSES, CLASSES + 6])
def test_the_bound_is_the_change_where_one_class_gains_what_each_other_loses(classes):
    """All attention is on a token that says nothing, and the other one lowers all logits but one by 3; behind tanh the bound is looser."""
    alpha, lowered = (
        Ragged.from_rows([[1.0, 0.0]]),
        np.array([[0.0] * classes, [0.0] + [-1.0] * (classes - 1)]),
    )
    gained = np.exp(3.0) / (np.exp(3.0) + classes - 1) - 1 / classes

    def bound(contribution, tail):
        readout = Readout(alpha.with_values(contribution), np.zeros((1, classes)), "softmax", tail)
        return float(change_bound(Outputs.of(readout, alpha))[0])

    assert bound(3.0 * lowered, IdentityTail()) == pytest.approx(gained, abs=1e-9)
    assert (
        gained - 1e-9
        <= bound(20.0 * lowered, TanhTail(3.0 * np.eye(classes), np.full(classes, -3.0)))
        < 1.0
    )


def test_rounding_never_takes_the_bound_of_many_classes_below_a_change():
    """The second token makes one class certain, or, behind tanh, unlikely: the bound is that change, with rounding on its safe side."""
    classes, alpha = CLASSES + 6, Ragged.from_rows([[1.0, 0.0]])
    for lead in (5.0, 20.0, 60.0):
        gaining = np.zeros((2, classes))
        gaining[1, 0] = lead
        losing = TanhTail(np.eye(classes, 1), np.zeros(classes))
        for contribution, tail in (
            (gaining, IdentityTail()),
            (np.array([[lead], [-lead]]), losing),
            (np.array([[-0.1], [lead]]), losing),
        ):
            offset = np.zeros((1, contribution.shape[1]))
            readout = Readout(alpha.with_values(contribution), offset, "softmax", tail)
            change = tvd(readout(alpha), readout(Ragged.from_rows([[0.0, 1.0]])))[0]
            bound = change_bound(Outputs.of(readout, alpha))[0]
            assert change - 1e-14 <= bound <= change + 1e-9


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
def test_behind_tanh_a_mixture_may_flip_where_no_token_does(bias):
    """Each token raises one of two units and lowers the other: the units are 1 and -0.76, and nearly 1 both under half of each."""
    tail = TanhTail(np.ones((1, 2)), np.array([bias]))
    trace = trace_of([[1.0, 0.0]], [[9.0, -1.0], [-1.0, 9.0]], tail=tail)
    assert not single_flips(trace, 0)
    assert MaximalChange()(trace)["flips"].to_list() == [bias == -1.0]


def test_a_mixture_may_change_the_output_more_than_any_token_does(monkeypatch):
    """Which a search of single tokens alone is found to miss."""
    half = change_under(MIXED, 0, np.array([0.5, 0.5, 0.0]))
    assert max(single_changes(MIXED, 0)) == pytest.approx(0.5, abs=0.01)
    assert half > 0.78
    table = MaximalChange()(MIXED)
    assert half - 1e-9 <= table["max_delta_y"][0] <= table["max_delta_y_upper"][0] <= 1.0
    monkeypatch.setattr(search, "one_logit_decides", lambda readout: True)
    assert MaximalChange()(MIXED)["max_delta_y"][0] < half - 0.1


@pytest.mark.parametrize("kind", [{"outputs": 1}, {"outputs": 3}, {"outputs": 3, "hidden": 6}])
def test_a_tail_in_disguise_gives_what_it_gives(kind):
    trace = make_trace(40, (1, 12), seed=5, **kind)
    known, hidden = MaximalChange()(trace), MaximalChange()(opaque(trace))
    np.testing.assert_allclose(hidden["max_delta_y"], known["max_delta_y"], atol=0.05)
    assert (hidden["max_delta_y_upper"] >= known["max_delta_y"] - 1e-12).all()
    assert hidden["position"].equals(known["position"])
    assert (known["flips"] | ~hidden["flips"]).all()
    single = hidden.filter(trace.alpha.lengths == 1)
    assert single["max_delta_y_upper"].to_numpy().max() <= 1e-6
    assert single["max_delta_y_proven"].all()


@pytest.mark.parametrize("classes", [3, CLASSES + 6])
def test_the_bound_of_logits_beyond_the_range_of_exp(classes):
    """Without a warning, which the tests take for an error: the probability of a class is 0 where its odds are e^-3000."""
    readout = 3000.0 * np.eye(classes)[[0, 0, 1]]
    table = MaximalChange()(trace_of([[0.5, 0.5, 0.0]], readout))
    assert table["max_delta_y"][0] == table["max_delta_y_upper"][0] == 1.0
    assert table["max_delta_y_proven"][0]


@pytest.mark.parametrize("hidden", [None, 6])
def test_special_tokens(hidden):
    """Without special tokens the change is that of the trace without these tokens, and null where there is no other."""
    base = make_trace(20, (1, 8), 1 if hidden is None else 3, seed=7, hidden=hidden)
    marks = [
        [row > 4 and t in (0, length - 1) for t in range(length)]
        for row, length in enumerate(base.alpha.lengths)
    ]
    table = MaximalChange()(with_columns(base, special=marks))
    for row, mark in enumerate(marks):
        found = table["max_delta_y_words"][row]
        words = np.array(single_changes(base, row))[~np.array(mark)]
        if all(mark) or not any(mark):
            assert found is None
        elif hidden is None:
            assert found == pytest.approx(words.max(), abs=1e-12)
        else:
            assert words.max() - 1e-12 <= found <= table["max_delta_y_upper"][row] + 1e-12
    summary = MaximalChange().summarise(table).filter(group="all", measure="max_delta_y_words")
    several = table.filter(~pl.col("one_word"))["max_delta_y_words"].count()
    assert summary["n"].item() == several < table["max_delta_y_words"].count() < len(base)


@pytest.mark.parametrize("least", [0.0, -0.01])
def test_a_class_that_is_as_likely_is_no_other_decision(least):
    """One sigmoid and two classes: all attention on the second token leaves both equally likely, or the other one more so."""
    one_logit = trace_of([[1.0, 0.0]], [2.0, least])
    two = trace_of([[1.0, 0.0]], [[2.0, 0.0], [least, 0.0]])
    for trace in (one_logit, two, opaque(one_logit)):
        assert MaximalChange()(trace)["flips"].to_list() == [least < 0.0]


def test_behind_a_network_a_class_leads_by_more_than_the_noise_of_two_probabilities():
    for lead in (1.5, 2.5):
        trace = trace_of([[1.0, 0.0]], [2.0, -2.0 * lead * TOLERANCE.network])
        assert MaximalChange()(opaque(trace))["flips"].to_list() == [lead > 2.0]


def test_more_special_tokens_than_are_mixed():
    """The eight largest changes are those of special tokens: the word's counts alone."""
    base = trace_of([[0.1] * 8 + [0.2], [0.5, 0.5]], [4.0, -4.0] * 4 + [0.1, 1.0, 2.0])
    table = MaximalChange()(with_columns(base, special=[[True] * 8 + [False], [True, False]]))
    expected = [single_changes(base, 0)[8], single_changes(base, 1)[1]]
    assert expected[0] < 0.1 < min(single_changes(base, 0)[:8])
    assert table["max_delta_y_words"].to_list() == pytest.approx(expected, abs=1e-12)
