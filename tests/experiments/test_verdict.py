"""Four answers, decided by one share, that do not depend on what should not matter."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

import attnaudit as aa
from attnaudit.core import read_json
from attnaudit.experiments.replacement import LIMIT, Replacement
from attnaudit.experiments.surrogate import Surrogate
from attnaudit.experiments.verdict import decide_verdict
from attnaudit.results import SUMMARY_SCHEMA, summary_row
from attnaudit.trace import Trace
from tests.report.runs import summary_of
from tests.traces import make_trace, trace_of, with_columns

COPIES, T, TEXTS = 60, 8, 40


def draw(lengths, rng):
    """Positions that the copies of each text lose."""
    return [
        [np.flatnonzero(rng.random(length) < share).tolist() or [0] for share in rng.random(COPIES)]
        for length in lengths
    ]


def traced(faithful, *, seed=0, texts=TEXTS, scale=1.0, words=2.0, columns=("loo",)):
    """A model of which one word decides; attention is on it in a share of the texts."""
    rng = np.random.default_rng(seed)
    decides = rng.integers(T, size=texts)
    attended = np.where(rng.random(texts) < faithful, decides, (decides + 1) % T)
    alpha = [np.where(np.arange(T) == place, 0.86, 0.02) for place in attended]
    lost = draw([T] * texts, rng)
    falls = [
        np.array([words * (place in copy) + 0.1 * rng.normal() for copy in own])
        for place, own in zip(decides, lost, strict=True)
    ]
    one = np.where(np.arange(T)[None] == decides[:, None], 0.5, 0.01)
    return trace_of(
        alpha,
        np.full(texts * T, scale),
        replaced=lost,
        replaced_prediction=[expit(scale * (1.0 - fall))[:, None] for fall in falls],
        **{name: one.tolist() for name in columns},
    )


def partly_replaced(texts, replaced):
    """A model with no verdict, whose words were replaced in the first of its texts only."""
    trace = traced(0.8, texts=400)
    names = ["replaced", "replaced_prediction"]
    table = trace.table.head(texts).with_columns(
        pl.when(pl.int_range(pl.len()) < replaced).then(pl.col(names)).name.keep()
    )
    return replace(trace, table=table)


def verdict_of(trace) -> Any:
    return decide_verdict(aa.audit(trace, "replacement").summary)


@pytest.mark.parametrize(
    ("faithful", "code"), [(1.0, "show"), (0.9, "show"), (0.1, "where"), (0.0, "where")]
)
def test_the_answer_follows_the_words_that_attention_marks(faithful, code):
    found = verdict_of(traced(faithful))
    assert (found.code, found.reason) == (code, "")
    assert found.low <= found.score <= found.high
    assert (found.low >= LIMIT) == (code == "show")


def test_evidence_against_the_prediction_may_be_attended():
    """Copies without such words are predicted with more confidence, and attention says which."""
    assert verdict_of(traced(1.0, words=-2.0)).code == "show"
    assert verdict_of(traced(0.0, words=-2.0)).code == "where"


def test_uniform_attention_marks_no_word():
    found = verdict_of(with_columns(traced(1.0), alpha=[[1 / T] * T] * TEXTS))
    assert (found.code, found.score) == ("where", pytest.approx(0.0, abs=1e-12))


def test_an_interval_with_the_limit_decides_nothing_and_more_texts_do():
    few = verdict_of(traced(0.7, texts=24))
    assert (few.code, few.reason) == ("none", "unclear")
    assert few.needed > 24
    assert verdict_of(traced(0.7, texts=600)).code == "show"


@pytest.mark.parametrize(
    ("texts", "replaced", "setting"),
    [(24, 24, None), (40, 24, None), (45, 24, 45), (300, 24, 50), (300, 10, 20)],
)
def test_words_are_replaced_in_more_texts_if_the_trace_has_enough(texts, replaced, setting):
    found = decide_verdict(
        aa.audit(partly_replaced(texts, replaced), ["replacement", "permutation"]).summary
    )
    assert (found.code, found.texts) == ("none", replaced)
    assert found.replacement_texts == setting


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"texts": 10}, "few"),
        ({"columns": ()}, "no_reference"),
        ({"words": 0.0, "texts": 400}, "no_words"),
        # That too few texts find no words does not show that there are none.
        ({"words": 0.0}, "unclear"),
    ],
)
def test_nothing_is_concluded_where_nothing_can_be_known(change, reason):
    found = verdict_of(traced(1.0, **change))
    assert (found.code, found.reason) == ("none", reason)
    assert found.score is None, "a share of a correlation that may be 0"
    assert (found.needed is not None) == (reason == "unclear")


@pytest.mark.parametrize(
    ("columns", "reference"),
    [(("gradient", "loo"), "loo"), (("gradient", "importance_x"), "gradient"), ((), None)],
)
def test_the_verdict_names_what_attention_is_compared_with(columns, reference):
    assert verdict_of(traced(1.0, columns=columns)).reference == reference


def test_several_sigmoid_outputs_have_no_copies_to_judge():
    """Logarithms of independent probabilities are no log-odds, and their scale would matter."""
    trace = make_trace(30, (3, 9), 2, copies=30)
    several = replace(trace, metadata=trace.metadata | {"activation": "sigmoid"})
    for experiment in (Replacement(), Surrogate()):
        assert experiment.refuses(trace) is None
        assert "several sigmoid outputs" in (experiment.refuses(several) or "")


def test_weights_by_themselves_and_a_model_that_learned_nothing_have_no_verdict():
    trace = traced(1.0)
    bare = replace(trace, table=trace.table.drop("replaced", "replaced_prediction"))
    assert decide_verdict(aa.audit(bare, "permutation").summary).reason == "no_replacement"
    chance = {"prediction__accuracy": (0.5, 0.4, 0.6), "prediction__majority": 0.5}
    known = aa.audit(trace, "replacement").summary
    assert decide_verdict(pl.concat([summary_of(**chance), known])).reason == "no_skill"


@pytest.mark.parametrize("scale", [0.3, 3.0, 10.0])
@pytest.mark.parametrize("faithful", [1.0, 0.75, 0.0])
def test_the_scale_of_the_logits_changes_no_verdict(scale, faithful):
    one, other = (verdict_of(traced(faithful, scale=factor)) for factor in (1.0, scale))
    assert other.code == one.code
    assert other.score == pytest.approx(one.score, abs=0.02)


def test_rows_of_one_token_change_no_verdict():
    trace = traced(0.9)
    short = traced(0.0, seed=1, texts=TEXTS)
    lists = ("tokens", "alpha", "readout", "loo")
    ones = short.table.with_columns(
        *(pl.col(name).list.head(1) for name in lists),
        instance=pl.col("instance") + TEXTS,
        replaced=pl.Series([[[0]] * COPIES] * TEXTS, dtype=short.table.schema["replaced"]),
    ).with_columns(alpha=pl.Series([[1.0]] * TEXTS, dtype=short.table.schema["alpha"]))
    both = Trace(pl.concat([trace.table, ones], how="diagonal_relaxed"), trace.metadata, trace.tail)
    with_ones, without = verdict_of(both.checked("here")), verdict_of(trace)
    assert (with_ones.score, with_ones.code) == (pytest.approx(without.score), without.code)


@pytest.mark.parametrize(
    ("overall", "b", "code"), [(0.6, 0.1, "mixed"), (0.1, 0.6, "mixed"), (0.9, 0.6, "show")]
)
def test_opposite_answers_make_a_mixed_verdict(overall, b, code):
    """Of two classes, or of a class and all texts."""
    shares = {"all": overall, "predicted:a": 0.9, "predicted:b": b}
    rows = [
        summary_row("replacement", f"replacement_{name}", one, one - 0.05, one + 0.05, n=50, group=group)
        for group, share in shares.items()
        for name, one in (("share", share), ("attention", 0.4), ("loo", 0.4))
    ]  # fmt: skip
    found = decide_verdict(pl.DataFrame(rows, schema=SUMMARY_SCHEMA))
    assert found.code == code
    codes = {name: own.code for name, own in found.classes.items()}
    assert codes == {"a": "show", "b": "where" if b < LIMIT else "none"}


def test_the_verdict_is_saved_and_is_an_attribute(tmp_path):
    results = aa.audit(traced(1.0), "replacement")
    assert results.verdict.code == "show"
    saved = read_json(results.save(tmp_path) / "verdict.json")
    assert saved == results.verdict.to_json()
    assert saved["score"] == pytest.approx(results.verdict.score)
