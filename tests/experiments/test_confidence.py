"""What decides depends neither on confidence, nor on length, nor on texts of one word."""

from functools import cache, partial

import numpy as np
import polars as pl
import pytest
from scipy.optimize import brentq

from attnaudit.experiments import audit, make_experiment, refusal
from attnaudit.experiments.confidence import at_same_confidence
from attnaudit.experiments.findings import (
    AGAINST,
    FOR,
    NEITHER,
    agreement,
    comprehensiveness,
    furthest,
    largest_change,
    shuffling,
)
from attnaudit.results import SummaryRows
from tests.tails import opaque
from tests.traces import make_trace, trace_of, with_columns

RULES = {
    "shuffling": shuffling,
    "gradient": partial(agreement, score="gradient"),
    "loo": partial(agreement, score="loo"),
    "largest_change": largest_change,
    "furthest": furthest,
    "comprehensiveness": comprehensiveness,
}
COLUMNS = ("gradient", "loo", "label", "split")
DECIDE = ("permutation", "adversary", "maximal_change", "comprehensiveness", "correlation")


def judged(trace):
    """Side, code and value of every finding that a trace has."""
    names = [name for name in DECIDE if refusal(make_experiment(name), trace) is None]
    rows = SummaryRows.of(audit(trace, names).summary)
    found = {name: rule(rows) for name, rule in RULES.items()}
    return {
        name: (one.side, one.code, rows.value(*one.figure) or 0.0)
        for name, one in found.items()
        if one is not None
    }


def sides(trace):
    return {name: side for name, (side, _, _) in judged(trace).items()}


def scaled(trace, factor):
    """The same model with other logits, and the same importance columns."""
    readout = trace.readout
    kept = {name: trace.table[name] for name in (*COLUMNS, "instance") if trace.has(name)}
    made = trace_of(
        trace.alpha,
        factor * readout.contribution.values,
        factor * readout.offset,
        class_names=trace.class_names,
    )
    return with_columns(made, **kept)


@cache
def judged_scaled(outputs, factor):
    return judged(scaled(make_trace(80, (3, 25), outputs, seed=2, sharpness=2.5), factor))


def with_single_words(trace, number):
    """The same rows, and as many of one word as told, whose outputs are all different."""
    readout, alpha = trace.readout, trace.alpha
    width = readout.offset.shape[1]
    words = np.random.default_rng(1).normal(0, 2, (number, width))
    made = trace_of(
        [*alpha, *np.ones((number, 1))],
        np.concatenate([readout.contribution.values, words]),
        np.concatenate([readout.offset, np.zeros((number, width))]),
        class_names=trace.class_names,
    )
    more = {name: [*trace.table[name].to_list(), *[[0.5]] * number] for name in ("gradient", "loo")}
    return with_columns(made, **more)


def one_word_decides(weight, copies=1, n=60, length=20):
    """Words share a weight and decide alone; those of a class speak for it, fillers for none."""
    rng = np.random.default_rng(0)
    alpha = np.full((n, length), (1.0 - weight) / (length - copies))
    alpha[:, :copies] = weight / copies
    readout = rng.normal(0, 0.3, (n, length))
    readout[:, :copies] = np.where(np.arange(n) % 2, 4.0, -4.0)[:, None]
    return trace_of(list(alpha), readout.reshape(-1))


@pytest.mark.parametrize("outputs", [1, 2, 5])
def test_the_predicted_class_has_the_confidence_that_a_root_finder_gives(outputs):
    trace = make_trace(40, (1, 12), outputs, seed=4, candidates=outputs == 5)
    matched = at_same_confidence(trace)
    assert matched is not None
    decided = matched.decided
    prediction = matched.readout(trace.alpha)[decided]
    both = np.hstack([1 - prediction, prediction]) if outputs == 1 else prediction
    np.testing.assert_allclose(both.max(axis=1), 0.9, atol=1e-9)
    own = trace.prediction[decided]
    logits = np.log(np.hstack([1 - own, own]) if outputs == 1 else np.maximum(own, 1e-300))
    factor = (matched.readout.offset / trace.readout.offset)[decided, 0]
    for row, scores in enumerate(logits):
        allowed = scores[scores > -600] - scores.max()
        root = brentq(lambda k, s=allowed: 1 / np.exp(k * s).sum() - 0.9, 1e-6, 1e6)
        assert factor[row] == pytest.approx(root, rel=1e-3), "the trace's outputs are float32"


def test_rows_that_are_undecided_or_behind_a_tail_have_no_confidence_to_match():
    trace = trace_of([[0.5, 0.5], [0.5, 0.5]], [1.0, -1.0, 1.0, 2.0])
    matched = at_same_confidence(trace)
    assert matched is not None
    assert np.isnan(matched.of_decided(np.ones(2))).tolist() == [True, False]
    assert at_same_confidence(make_trace(4, hidden=3)) is None
    assert at_same_confidence(opaque(make_trace(4))) is None


@pytest.mark.parametrize("outputs", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("factor", [0.1, 0.3, 3.0, 10.0])
def test_no_side_depends_on_the_scale_of_the_logits(outputs, factor):
    own, other = judged_scaled(outputs, 1.0), judged_scaled(outputs, factor)
    assert own.keys() == other.keys() >= {"shuffling", "comprehensiveness", "largest_change"}
    for name, (side, code, value) in own.items():
        assert other[name][:2] == (side, code)
        assert other[name][2] == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize("outputs", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_texts_of_one_word_change_no_figure(outputs):
    trace = make_trace(80, (3, 25), outputs, seed=2, sharpness=2.5)
    own, other = judged(trace), judged(with_single_words(trace, 80))
    assert own.keys() == other.keys()
    for name, (side, _, value) in own.items():
        assert other[name][0] == side
        assert other[name][2] == pytest.approx(value, abs=1e-7), name


def test_texts_of_one_word_are_in_no_mean_and_counted():
    """One word among special tokens is one word."""
    base = make_trace(6, [1, 3, 3, 4, 5, 2])
    special = [[False], [True, False, True], [True, False, False], [False] * 4, [True] * 5, [True, False]]  # fmt: skip
    trace = with_columns(base, special=special)
    summary = audit(trace, (*DECIDE, "ranges")).summary.filter(group="all")
    assert summary.filter(pl.col("measure") != "shuffles")["n"].max() == 2
    assert summary.filter(measure="max_alpha").select("n", "undefined").row(0) == (2, 4)


@pytest.mark.parametrize("length", [10, 500])
def test_uniform_attention_to_diffuse_evidence_takes_no_side(length):
    rng = np.random.default_rng(0)
    alpha = np.full((100, length), 1.0 / length)
    trace = trace_of(list(alpha), rng.normal(0.5, 1.0, 100 * length))
    assert set(sides(trace).values()) == {NEITHER}


@pytest.mark.parametrize("weight", [0.9, 0.99])
def test_one_word_that_decides_alone_and_has_the_weight_speaks_for_attention(weight):
    """Once it is gone the decision hangs on the signs of fillers, which is no evidence."""
    found = sides(one_word_decides(weight))
    assert AGAINST not in found.values()
    assert [found[name] for name in ("shuffling", "comprehensiveness", "furthest")] == [FOR] * 3


@pytest.mark.parametrize("copies", [2, 3, 4])
def test_equally_attended_reasons_are_not_evidence_against_attention(copies):
    """JSD((½, ½), (1, 0)) is 0.216, more than a quarter of ln 2."""
    found = judged(one_word_decides(0.96, copies))
    assert found["furthest"][0] == NEITHER
    assert AGAINST not in {side for side, _, _ in found.values()}


def test_words_that_others_replace_are_evidence_against_attention():
    """The same with equal readouts of all words: any of them could have all of the weight."""
    trace = one_word_decides(0.96)
    sign = np.where(np.arange(len(trace)) % 2, 4.0, -4.0)
    same = trace_of(trace.alpha, trace.alpha.spread(sign))
    assert {sides(same)[name] for name in ("furthest", "largest_change")} == {AGAINST}
