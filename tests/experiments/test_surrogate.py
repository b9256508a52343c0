"""The sparse linear surrogate: against a general optimiser, planted truth, and what does not matter."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

import attnaudit as aa
from attnaudit.core.random import bits, stream_keys
from attnaudit.experiments.surrogate import Surrogate, fit_surrogate
from attnaudit.trace import Trace
from tests.oracles import replacement as copies_oracle
from tests.oracles import surrogate as oracle
from tests.oracles.scores import attention_on
from tests.traces import known, make_trace, random_attention, trace_of, with_columns

LEAD = "replacement_attention_minus_replacement_surrogate"


def draw(length, copies, rng):
    lost = rng.random((copies, length)) < np.resize([0.1, 0.3, 0.5, 0.7, 0.9], copies)[:, None]
    lost[:, 0] |= ~lost.any(axis=1)
    return lost


def positions(lost):
    return [np.flatnonzero(copy).tolist() for copy in lost]


@pytest.mark.parametrize(("length", "copies", "noise"), [(6, 60, 1.0), (20, 60, 0.5), (60, 40, 2.0)])  # fmt: skip
def test_the_fit_is_that_of_a_general_optimiser(length, copies, noise):
    rng = np.random.default_rng(length)
    for _ in range(3):
        lost = draw(length, copies, rng)
        lost[:, 3] = lost[:, 4]  # two pieces of a word
        lost[:, 5] = False
        fall = lost[:, :5] @ np.array([3.0, -2.0, 0.5, 1.0, 1.0]) + noise * rng.normal(size=copies)
        weights, base = fit_surrogate(lost, fall)
        expected = oracle.square_root_lasso(positions(lost), fall, length)
        assert np.array([*weights, base]) == pytest.approx(expected, abs=2e-4)
        assert weights[3] == weights[4]
        assert weights[5] == 0.0


def test_every_number_of_the_table():
    trace = make_trace(8, (2, 9), 3, seed=5, copies=40)
    table = Surrogate(seed=1)(trace)
    streams = stream_keys(1, "surrogate", trace.instance)
    for row in range(len(trace)):
        lost = trace.cell("replaced", row)
        runs = np.array(trace.cell("replaced_prediction", row))
        own, predicted = trace.prediction[row], int(trace.predicted[row])
        fall = np.round(-copies_oracle.log_odds(runs, predicted), 5)
        change = copies_oracle.matched_change(own, runs, predicted)
        order = np.argsort(bits(streams[row], np.arange(40))).tolist()
        alpha = trace.alpha[row]
        first = set(order[:20])
        r2, surrogate, attention = oracle.held_out(lost, fall, change, alpha, first)
        *weights, _ = oracle.square_root_lasso(lost, fall, len(alpha))
        found = table.row(row, named=True)
        assert found["weights"] == pytest.approx(weights, abs=2e-4)
        assert found["r2_held_out"] == pytest.approx(r2, abs=1e-3)
        assert found["surrogate_words"] == np.count_nonzero(found["weights"])
        assert found["attention_on_surrogate"] == known(attention_on(alpha, found["weights"]), 1e-9)
        # Ranks of sums that nearly tie depend on the last digits of the weights.
        assert found["replacement_surrogate"] == pytest.approx(surrogate, abs=0.05)
        assert found[LEAD] == pytest.approx(attention - surrogate, abs=0.05)


def planted(weights, alpha, scale=1.0, noise=0.0, copies=60):
    """A model of class "yes" whose log-odds are a sum over its words."""
    rng = np.random.default_rng(0)
    lost = [draw(len(row), copies, rng) for row in weights]
    logit = [
        scale * (3.0 - own @ row + noise * rng.normal(size=copies))
        for row, own in zip(weights, lost, strict=True)
    ]
    return trace_of(
        alpha,
        np.full(sum(map(len, weights)), 3.0 * scale),
        replaced=[positions(own) for own in lost],
        replaced_prediction=[expit(row)[:, None] for row in logit],
    )


@pytest.mark.parametrize(("length", "copies"), [(20, 60), (400, 240)])
def test_a_planted_sum_is_recovered_with_its_signs(length, copies):
    weights = np.zeros(length)
    weights[[2, 5, 9]] = 3.0, -2.0, 1.0
    alpha = np.abs(weights) / 6.0
    trace = planted([weights] * 8, [alpha] * 8, copies=copies)
    table = Surrogate()(trace)
    assert np.array(table["weights"].to_list()) == pytest.approx(np.tile(weights, (8, 1)), abs=1e-3)
    assert table["surrogate_words"].median() == 3  # log-odds are rounded, which may leave a trace
    assert (
        np.median(table["r2_held_out"].to_numpy()) > 0.9
    )  # half of the copies are not always enough
    share = Surrogate().summarise(table).filter(measure="surrogate_share", group="all")
    attention = np.mean(table[LEAD].to_numpy() + table["replacement_surrogate"].to_numpy())
    mean = np.mean(table["replacement_surrogate"].to_numpy())
    assert share["value"].item() == pytest.approx(attention / mean)
    expected = 14 / 36 - 1 / length
    assert table["attention_on_surrogate"].to_numpy() == pytest.approx(expected, abs=1e-3)


def test_words_that_do_nothing_have_no_weight():
    rng = np.random.default_rng(2)
    weights = [np.zeros(20)] * 50
    table = Surrogate()(planted(weights, [rng.dirichlet(np.ones(20))] * 50, noise=1.0))
    # λ lets about one of 20 pass by chance, and seldom more.
    assert np.mean(table["surrogate_words"].to_numpy()) < 1.0
    assert table["r2_held_out"].mean() == pytest.approx(0.0, abs=0.1)
    assert abs(np.mean(table["replacement_surrogate"].to_numpy())) < 0.05


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_weights_scale_with_the_logits_and_nothing_else_changes(scale):
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=7) for _ in range(20)]
    alpha = [rng.dirichlet(np.ones(7)) for _ in range(20)]
    one, other = (Surrogate()(planted(weights, alpha, factor, 0.5)) for factor in (1.0, scale))
    assert np.array(other["weights"].to_list()) == pytest.approx(
        scale * np.array(one["weights"].to_list()), abs=2e-3 * scale
    )
    for name in ("replacement_surrogate", LEAD, "r2_held_out", "attention_on_surrogate"):
        assert other[name].to_numpy() == pytest.approx(one[name].to_numpy(), abs=0.02), name


def test_attention_changes_only_what_is_said_of_attention():
    trace = make_trace(10, (2, 9), seed=4, copies=30)
    copies = {name: trace.table[name] for name in ("replaced", "replaced_prediction")}
    one, two = (
        Surrogate()(with_columns(trace_of(alpha, np.ones(len(alpha.values))), **copies))
        for alpha in (trace.alpha, random_attention(trace.alpha))
    )
    same = ["replacement_surrogate", "r2_held_out", "surrogate_words", "weights"]
    assert one.select(same).equals(two.select(same))
    assert not one["attention_on_surrogate"].equals(two["attention_on_surrogate"])


def silent_trace():
    """Texts of one word, without copies, with one copy, with an output that no copy changes; and two others."""
    trace = make_trace(6, [1, 5, 5, 5, 5, 5], seed=0, copies=30)
    lost, runs = (trace.table[name].to_list() for name in ("replaced", "replaced_prediction"))
    lost[1] = runs[1] = None
    lost[2], runs[2] = lost[2][:1], runs[2][:1]
    runs[3] = [runs[3][0]] * 30
    columns = {
        "replaced": pl.Series(lost, dtype=trace.table.schema["replaced"]),
        "replaced_prediction": pl.Series(runs, dtype=trace.table.schema["replaced_prediction"]),
    }
    return replace(trace, table=trace.table.with_columns(**columns)).checked("here")


def test_texts_that_say_nothing_have_no_surrogate():
    trace = silent_trace()
    table = Surrogate()(trace)
    assert table["weights"].is_null().to_list() == [True] * 3 + [False] * 3
    assert table["weights"][3].to_list() == [0.0] * 5
    assert table["r2_held_out"].is_null().to_list() == [True] * 4 + [False] * 2
    assert table["attention_on_surrogate"].is_null().to_list()[:4] == [True] * 4
    row = aa.audit(trace, "surrogate").summary.filter(measure="r2_held_out", group="all")
    assert row.select("n", "undefined").row(0) == (2, 1)


def test_the_heads_of_a_text_share_a_fit():
    trace = make_trace(5, (2, 8), seed=2, copies=30)
    heads = [trace.table.with_columns(head=pl.lit(k, pl.Int32)) for k in (0, 1)]
    table = Surrogate()(Trace(pl.concat(heads), trace.metadata | {"schema": 2}, trace.tail))
    first, second = (table.filter(head=k).drop("head") for k in (0, 1))
    assert first.equals(second)


def test_the_heatmap_shown_is_judged_in_place_of_attention():
    """Shown is attention itself here, so both have the same figures."""
    trace = make_trace(30, (4, 9), seed=2, copies=30)
    names = {"attention": Surrogate()(trace)}
    shown = with_columns(trace, importance_shown=trace.table["alpha"])
    names["shown"] = Surrogate()(shown)
    for pattern in ("replacement_{}_minus_replacement_surrogate", "{}_on_surrogate"):
        own, same = (table[pattern.format(name)] for name, table in names.items())
        assert own.to_numpy() == pytest.approx(same.to_numpy(), abs=1e-6, nan_ok=True)
    own, same = (Surrogate().summarise(table)["value"].to_list() for table in names.values())
    assert own == pytest.approx(same, abs=1e-6, nan_ok=True)
