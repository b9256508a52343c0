"""Experiments through a tail that no kernel computes: compared with the compiled way, with the papers' loops, and with themselves."""

import numpy as np
import polars as pl
import pytest

from attnaudit.core.ragged import Ragged
from attnaudit.experiments import audit
from attnaudit.experiments.adversary.exact import unconstrained_bound
from attnaudit.experiments.adversary.experiment import Adversary, divergence
from attnaudit.experiments.adversary.search import bounded_attention
from attnaudit.experiments.comprehensiveness import Comprehensiveness
from attnaudit.experiments.erasure import removal
from attnaudit.experiments.erasure.curves import MINIMUM, RANKINGS, flip_curves
from attnaudit.experiments.erasure.experiment import Erasure
from attnaudit.experiments.erasure.removal import Rows, Walks
from attnaudit.stats.measures import jsd_terms
from attnaudit.trace import LinearTail, Trace
from tests.oracles.adversary_several import sampled_adversary
from tests.oracles.erasure import flips, naive_first_flip, weight_gradient
from tests.oracles.readout import naive_prediction, naive_tvd
from tests.tails import layer_trace, opaque
from tests.traces import make_trace, trace_of, with_columns

KINDS = [
    {"outputs": 1},
    {"outputs": 3, "candidates": True},
    {"outputs": 1, "hidden": 6},
    {"outputs": 3, "hidden": 6},
]


def with_gradient(trace):
    """With the column ``alpha_gradient``, in double precision."""
    gradient = Ragged.from_rows([weight_gradient(trace, row) for row in range(len(trace))])
    return with_columns(trace, alpha_gradient=gradient)


def by_weight(trace):
    """The positions of each row, largest attention first."""
    return [np.argsort(-alpha, kind="stable").tolist() for alpha in trace.alpha]


def assert_equal(found, expected, columns):
    for name in columns:
        one, other = (table[name].cast(pl.Float64).to_numpy() for table in (found, expected))
        np.testing.assert_allclose(one, other, atol=1e-9, equal_nan=True, err_msg=name)


def test_a_linear_tail_gives_what_its_logits_give(tmp_path):
    """Gradients of weights included, which no column of the trace has; from a file as from memory."""
    expected, odd = (
        make_trace(30, (1, 20), 3, seed=1),
        np.array([[2.0, 1, 0], [0, 4, 0], [1, 0, 1]]),
    )
    given = expected.readout.contribution
    parts = given.with_values(given.values @ np.linalg.inv(odd).T)
    offset = (expected.readout.offset - 1.0) @ np.linalg.inv(odd).T
    made = trace_of(expected.alpha, parts.values, offset, LinearTail(odd, np.ones(3)))
    made.write(tmp_path)
    trace = Trace.read(tmp_path)
    assert (trace.metadata["tail"], trace.metadata["schema"]) == ("linear", 1)
    np.testing.assert_allclose(trace.readout(trace.alpha), expected.prediction, atol=1e-5)
    found, logits = Erasure()(trace), Erasure()(expected)
    names = [f"{kind}_{name}" for kind in ("removed", "mass") for name in RANKINGS]
    assert "removed_gradient" in names
    assert_equal(found, logits, names)
    some = trace.readout.of_classes(np.tile([2, 0], (30, 1)), np.zeros((30, 2)))
    assert some is not None
    two = expected.prediction[:, [2, 0]]
    np.testing.assert_allclose(some(trace.alpha), two / two.sum(axis=1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_removals_and_falls_are_those_of_the_same_tail_as_a_formula(kind):
    trace = with_gradient(make_trace(30, (1, 20), seed=1, zeros=0.1, **kind))
    found, expected = Erasure()(opaque(trace)), Erasure()(trace)
    names = [
        name
        for name in expected.columns
        if name.startswith(("removed_", "mass_", "flip_", "delta_", "never_"))
    ]
    assert_equal(
        found, expected, [name for name in names if "minimum" not in name and "order" not in name]
    )
    longer = trace.alpha.lengths > 1
    orders = [table.filter(longer)["by_order"].explode() for table in (found, expected)]
    np.testing.assert_array_equal(orders[0], orders[1])
    found, expected = Comprehensiveness()(opaque(trace)), Comprehensiveness()(trace)
    names = [
        name
        for name in expected.columns
        if name.startswith(("comprehensiveness", "sufficiency")) and "_at_" not in name
    ]
    assert_equal(found, expected, names)


def test_a_long_row_is_searched_in_steps_and_between_them(monkeypatch):
    """With few steps the first flip is found between two of them, where one flip is the first of a run of flips."""
    trace = opaque(make_trace(12, (20, 30), seed=4, sharpness=0.5))
    rows = Rows(trace.readout, trace.alpha)
    walks = Walks(rows, trace.alpha.descending()[None], keep=False)
    exact = walks.first(rows.flips)
    monkeypatch.setattr(removal, "STEPS", 6)
    coarse = walks.first(rows.flips)
    order = by_weight(trace)
    assert exact.tolist() == [
        naive_first_flip(trace, row, order[row]) or 0 for row in range(len(trace))
    ]
    lasting = [
        row
        for row in range(len(trace))
        if all(flips(trace, row, order[row][:k]) for k in range(exact[row], len(order[row])))
    ]
    assert len(lasting) > 3
    assert coarse[lasting].tolist() == exact[lasting].tolist()


def test_a_ranking_without_its_gradient_is_unknown_and_does_not_count_as_one_that_never_flips():
    result = audit(opaque(make_trace(30, (2, 12), seed=5)), ["erasure"])["erasure"]
    unknown = ["removed_gradient", "never_gradient_attention", "times_minimum_gradient"]
    assert result.table.select(unknown).null_count().row(0) == (30, 30, 30)
    rows = {row["measure"]: row for row in result.summary.filter(group="all").iter_rows(named=True)}
    for name in ("never", "area"):
        assert rows[f"{name}_gradient"]["value"] is None
    known = flip_curves(
        result.table, {"random": "r", "attention": "a", "gradient": "g", MINIMUM: "m"}
    )
    assert set(known["name"]) == {"r", "a", "m"}


@pytest.mark.parametrize("epsilon", [0.01, 0.05])
def test_the_adversary_of_two_classes_falls_short_of_the_exact_one_by_the_room_for_noise(epsilon):
    trace = make_trace(50, (1, 20), seed=6)
    exact, found = (
        Adversary(epsilon=epsilon)(trace)["emax_jsd"].to_numpy(),
        Adversary(epsilon=epsilon)(opaque(trace)),
    )
    assert (found["delta_y"] <= epsilon).all()
    assert (found["emax_jsd"].to_numpy() <= exact + 1e-9).all()
    np.testing.assert_allclose(found["emax_jsd"], exact, atol=2e-3)
    np.testing.assert_allclose(
        found["emax_jsd_upper"], unconstrained_bound(trace.alpha), atol=1e-12
    )


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_adversary_through_a_layer_of_a_transformer(outputs):
    """Within ε for the true tail, never above its bound, and no sample differs more."""
    trace = layer_trace(15, (1, 10), outputs, seed=2, strength=0.3)
    table = Adversary(epsilon=0.05)(trace)
    for row in range(len(trace)):
        attention = table["alpha"][row].to_numpy()
        moved = naive_tvd(
            naive_prediction(trace, row, attention), naive_prediction(trace, row, trace.alpha[row])
        )
        assert moved <= 0.05 + 1e-5
        assert attention.sum() == pytest.approx(1.0)
        assert attention.min() >= 0.0
        assert sampled_adversary(trace, row, 0.05, samples=300) <= table["emax_jsd"][row] + 0.01
    assert (table["emax_jsd"] <= table["emax_jsd_upper"]).all()
    assert table["certified"].sum() > 1


@pytest.mark.slow
def test_several_classes_need_mixtures(monkeypatch):
    """Programs find mixtures of several tokens where no pair is within ε."""
    trace = make_trace(25, (6, 15), 4, seed=8)
    exact, readout = Adversary()(trace)["emax_jsd"].mean(), opaque(trace).readout
    found = divergence(bounded_attention(readout, trace.alpha, 0.01).attention, trace.alpha).mean()
    assert isinstance(exact, float)
    assert exact - 0.01 < found <= exact + 1e-9

    monkeypatch.setattr(
        "attnaudit.experiments.adversary.search.best_weights", lambda task, box: None
    )
    assert (
        divergence(bounded_attention(readout, trace.alpha, 0.01).attention, trace.alpha).mean()
        < exact - 0.05
    )


@pytest.mark.parametrize(
    "bug", ["not rescaled", "kept for removed", "worth of the first token only"]
)
def test_a_planted_bug_is_found(bug, monkeypatch):
    trace = make_trace(25, (2, 8), seed=10)
    if bug == "worth of the first token only":
        monkeypatch.setattr(
            "attnaudit.experiments.adversary.state.divergence",
            lambda one, other: jsd_terms(one.values, other.values)[one.offsets[:-1]],
        )
        exact = Adversary(epsilon=0.05)(trace)["emax_jsd"].to_numpy()
        assert (
            Adversary(epsilon=0.05)(opaque(trace))["emax_jsd"].to_numpy() < exact - 2e-3
        ).sum() > 3
        return
    honest_measure, honest_sums = Rows.measure, removal.added_up

    def not_rescaled(self, left, rows, measure):
        whole = np.column_stack([left[:, :-1], left[:, -1] > 0.0])
        return honest_measure(self, whole, rows, measure)

    if bug == "kept for removed":
        monkeypatch.setattr(
            removal,
            "added_up",
            lambda rows, terms, orders, backwards: honest_sums(rows, terms, orders, not backwards),
        )
    else:
        monkeypatch.setattr(Rows, "measure", not_rescaled)
    found = Erasure()(opaque(trace))["removed_attention"] * trace.alpha.lengths
    expected = [naive_first_flip(trace, row, order) for row, order in enumerate(by_weight(trace))]
    assert sum(one != other for one, other in zip(found.round(6), expected, strict=True)) > 3
