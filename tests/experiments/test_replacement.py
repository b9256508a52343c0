"""The replacement score: against the textbook's formula, and what it must not depend on."""

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

import attnaudit as aa
from attnaudit.core import TraceError
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.copies import Copies, copies_of, partial_spearman
from attnaudit.experiments.replacement import Replacement
from attnaudit.experiments.verdict import decide_verdict, rank_scores
from attnaudit.results import SummaryRows
from tests.experiments.test_surrogate import silent_trace
from tests.experiments.test_verdict import draw
from tests.oracles.replacement import naive_score
from tests.traces import make_trace, trace_of, with_columns


def linear_trace(weight, alpha, scale=1.0):
    """A model whose log-odds fall by the weights of the words that are replaced."""
    lost = draw(map(len, weight), np.random.default_rng(0))
    logit = [scale * (2.0 - np.array([w[copy].sum() for copy in own])) for w, own in zip(weight, lost, strict=True)]  # fmt: skip
    contribution = np.full(sum(map(len, weight)), 2.0 * scale)
    return trace_of(alpha, contribution, replaced=lost, replaced_prediction=[expit(row)[:, None] for row in logit])  # fmt: skip


@pytest.mark.parametrize("outputs", [1, 4])
def test_it_is_the_partial_rank_correlation_of_the_textbook(outputs):
    trace = make_trace(12, (2, 15), outputs, seed=3, copies=40, importance=("rollout",))
    table = Replacement()(trace)
    for row in range(len(trace)):
        for name, column in (
            ("attention", "alpha"),
            ("loo", "loo"),
            ("rollout", "importance_rollout"),
        ):
            score = trace.alpha[row] if column == "alpha" else trace.ragged(column)[row]
            expected = naive_score(trace, row, score.astype(float))
            assert table[f"replacement_{name}"][row] == pytest.approx(expected, abs=1e-9)


def test_attention_on_the_words_that_decide_gets_1_and_on_others_about_0():
    rng = np.random.default_rng(0)
    weight = [rng.dirichlet(np.full(9, 0.3)) for _ in range(40)]
    faithful = Replacement()(linear_trace(weight, weight))["replacement_attention"]
    assert faithful.to_numpy() == pytest.approx(1.0, abs=0.02)
    elsewhere = Replacement()(linear_trace(weight, [np.roll(row, 1) for row in weight]))
    assert abs(elsewhere["replacement_attention"].to_numpy().mean()) < 0.3
    uniform = Replacement()(linear_trace(weight, [np.full(9, 1 / 9)] * 40))
    assert (uniform["replacement_attention"] == 0.0).all()


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_the_scale_of_the_logits_does_not_matter(scale):
    rng = np.random.default_rng(1)
    weight = [rng.dirichlet(np.full(7, 2.0)) for _ in range(20)]
    alpha = [rng.dirichlet(np.full(7, 2.0)) for _ in range(20)]
    one, other = (
        Replacement()(linear_trace(weight, alpha, factor))["replacement_attention"].to_numpy()
        for factor in (1.0, scale)
    )
    assert other == pytest.approx(one, abs=0.02)


def test_texts_that_say_nothing_have_no_score():
    trace = silent_trace()
    scores = Replacement()(trace)["replacement_attention"]
    assert scores.is_null().to_list() == [True] * 4 + [False] * 2
    summary = aa.audit(trace, "replacement").summary
    row = summary.filter(measure="replacement_attention", group="all")
    # The text without copies was not asked; the other three are undefined.
    assert row.select("n", "undefined").row(0) == (2, 3)


def test_rows_without_copies_do_not_move_the_intervals():
    """Texts in three rows each; the first half has no copies."""
    table = Replacement()(make_trace(40, (4, 9), seed=0, copies=20))
    heads = pl.concat([table.with_columns(head=pl.lit(k, pl.Int32)) for k in range(3)])
    untested = heads.with_columns(
        pl.when(pl.col("instance") >= 20).then(column).alias(column) for column in table.columns[3:]
    )
    alone = Replacement().summarise(heads.filter(pl.col("instance") >= 20))
    assert Replacement().summarise(untested).equals(alone)


def test_special_tokens_are_no_words():
    trace = make_trace(5, [6] * 5, seed=2, copies=30)
    lost = [
        [[t for t in copy if t] or [1] for copy in row] for row in trace.table["replaced"].to_list()
    ]
    trace = with_columns(trace, special=[[True, *[False] * 5]] * 5, replaced=lost)
    score = Replacement()(trace)["replacement_attention"][0]
    weights = np.where(np.arange(6) == 0, 0.0, trace.alpha[0])
    assert score == pytest.approx(naive_score(trace, 0, weights), abs=1e-9)


def correlation(lost, score, change):
    """Of one text, whose copies lose some positions."""
    number = np.arange(1)
    copied = [
        Ragged.from_lengths(values, [len(lost)]) for values in (change, change, change[:, None])
    ]
    replaced = Ragged.from_rows([np.flatnonzero(copy) for copy in lost])
    copies = Copies(number, number + lost.shape[1], replaced, *copied)
    return partial_spearman(copies, Ragged.from_rows([score])).item()


def test_sums_in_another_order_are_the_same_sum():
    lost = np.array([[1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 1]] * 3, bool)
    score = np.array([0.1, 0.2, 0.3, 0.1])
    change = np.tile([2.0, 2.0, 1.0, 1.5], 3)
    backwards = correlation(lost[:, ::-1], score[::-1], change)
    assert correlation(lost, score, change) == pytest.approx(backwards, abs=1e-12)


def test_the_size_of_a_score_does_not_matter():
    """Leave-one-out of a certain prediction may be 1e-15 at every word."""
    rng = np.random.default_rng(4)
    lost, score = rng.random((60, 9)) < 0.4, rng.random(9)
    change = lost @ score + rng.normal(size=60)
    own = correlation(lost, score, change)
    for size in (1e-30, 1e-15, 1e6):
        assert correlation(lost, size * score, change) == pytest.approx(own, abs=1e-12)
    assert correlation(lost, 0.0 * score, change) == 0.0


@pytest.mark.parametrize(
    ("column", "value", "parts"),
    [
        ("replaced", [[[0, 7]]] * 3, ("column replaced", "instance 0", "7", "below the length")),
        ("replaced", [[[-1]]] * 3, ("column replaced", "-1")),
        ("replaced", [[[0]], [[0], [1]], [[0]]], ("column replaced_prediction", "instance 1")),
        ("replaced_prediction", [[[0.5, 0.5]]] * 3, ("2 numbers a copy", "1, as prediction has")),
        ("replaced_prediction", [[[np.nan]]] * 3, ("replaced_prediction", "finite")),
        ("replaced_prediction", None, ("replaced alone", "or neither")),
    ],
)  # fmt: skip
def test_columns_that_break_the_schema_are_refused(column, value, parts):
    good = {"replaced": [[[0]]] * 3, "replaced_prediction": [[[0.5]]] * 3}
    columns = {name: one for name, one in (good | {column: value}).items() if one is not None}
    with pytest.raises(TraceError) as error:
        trace_of([np.full(3, 1 / 3)] * 3, np.ones(9), **columns)
    assert all(part in str(error.value) for part in parts), str(error.value)


def test_a_prediction_that_float32_rounds_to_1_keeps_its_log_odds():
    """The log-odds of a text are 2, and 24, of which float32 leaves a probability of 1."""
    weight = [np.random.default_rng(2).dirichlet(np.full(7, 2.0))]
    one, other = (
        [own.change for _, own in copies_of(linear_trace(weight, weight, scale), np.array([True]))]
        for scale in (1.0, 12.0)
    )
    np.testing.assert_allclose(one, other, atol=1e-3)


HEADS = 3


def of_heads(weight, scores, seed=0, **metadata):
    """Texts under several heads of random attention, with scores that the heads share."""
    rng = np.random.default_rng(seed)
    every = [row for row in weight for _ in range(HEADS)]
    trace = linear_trace(weight, weight)
    columns = {
        **{name: [row for row in rows for _ in range(HEADS)] for name, rows in scores.items()},
        "instance": np.repeat(np.arange(len(weight)), HEADS),
        "layer": np.zeros(len(every), np.int32),
        "head": np.tile(np.arange(HEADS, dtype=np.int32), len(weight)),
        "replaced": [row for row in trace.table["replaced"] for _ in range(HEADS)],
        "replaced_prediction": [
            row.to_numpy() for row in trace.table["replaced_prediction"] for _ in range(HEADS)
        ],
    }
    alpha = [rng.dirichlet(np.ones(len(row))) for row in every]
    readout = np.full(sum(map(len, every)), 2.0)
    return trace_of(alpha, readout, **columns, metadata=metadata)


def noisy(weight, noise, seed):
    rng = np.random.default_rng(seed)
    rows = [row + noise * rng.dirichlet(np.full(len(row), 0.3)) for row in weight]
    return [(row / row.sum()).astype(np.float32) for row in rows]


def weights(texts=40, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.dirichlet(np.full(8, 0.3)) for _ in range(texts)]


def test_the_heatmap_shown_is_judged_once_for_each_text():
    weight = weights()
    scores = {"loo": weight, "importance_shown": noisy(weight, 2.0, 1)}
    table = Replacement()(of_heads(weight, scores))
    alone = linear_trace(weight, scores["importance_shown"])
    expected = Replacement()(alone)["replacement_attention"].to_numpy()
    for head in range(HEADS):
        own = table.filter(head=head)["replacement_shown"].to_numpy()
        assert own == pytest.approx(expected, abs=1e-9)
    summary = Replacement().summarise(table)
    row = summary.filter(measure="replacement_shown", group="all").row(0, named=True)
    one = Replacement().summarise(Replacement()(alone))
    once = one.filter(measure="replacement_attention", group="all").row(0, named=True)
    assert row["texts"] == len(weight)
    assert [row[end] for end in ("value", "low", "high")] == pytest.approx(
        [once[end] for end in ("value", "low", "high")]
    )
    measures = set(summary.filter(group="all")["measure"])
    assert "replacement_shown_minus_replacement_loo" in measures
    assert "replacement_attention_minus_replacement_loo" not in measures
    assert set(summary.filter(group="head:0.1")["measure"]) == {
        "replacement_attention",
        "replacement_shown_minus_replacement_attention",
    }
    decided = decide_verdict(SummaryRows.of(summary))
    share = summary.filter(measure="replacement_share", group="all")["value"].item()
    assert share == pytest.approx(once["value"] / table["replacement_loo"].mean())
    assert (decided.score, decided.texts) == (share, len(weight))


def ranked(texts, noise, seed=0):
    weight = weights(texts, seed)
    scores = {
        "loo" if name == "loo" else f"importance_{name}": noisy(weight, size, 1000 + 100 * seed + k)
        for k, (name, size) in enumerate(noise.items())
    }
    table = Replacement()(of_heads(weight, scores, seed))
    found = rank_scores(SummaryRows.of(Replacement().summarise(table)))
    assert found is not None
    return found


def test_a_better_heatmap_is_named_and_random_scores_are_only_a_yardstick():
    found = ranked(60, {"loo": 1.0, "shown": 3.0, "good": 0.1, "random": 0.0})
    assert list(found.scores) == ["random", "good", "loo", "shown"]
    assert found.better == "good"
    assert ranked(60, {"loo": 3.0, "shown": 0.1, "rollout": 3.0}).better is None


def test_too_few_texts_show_no_better_heatmap():
    assert ranked(12, {"loo": 0.0, "shown": 9.0}).better is None


@pytest.mark.slow
def test_the_best_of_many_equal_scores_is_rarely_called_better():
    """At 95 % of each, one of six would be in about one trial of eight."""
    noise = dict.fromkeys(("loo", "shown", *"abcde"), 2.0)
    wrong = [ranked(25, noise, seed).better is not None for seed in range(60)]
    assert sum(wrong) <= 5
