"""What the study of dynamics says, against definitions worked out instance by instance; and what must not change it."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import kendalltau

from attnaudit.core.ragged import Ragged
from attnaudit.studies.dynamics.counts import CountModel
from attnaudit.studies.dynamics.measures import ABOVE_HABIT, ELSEWHERE, PAIRS, TO_REFERENCE
from attnaudit.studies.dynamics.study import (
    OTHERS,
    Dynamics,
    elsewhere_agreement,
    entropy_share,
    relevance,
)
from attnaudit.studies.dynamics.timing import timing_rows
from attnaudit.trace import concatenate
from attnaudit.training.probe import step_part
from tests.oracles.agreement import naive_agreement
from tests.oracles.dynamics import naive_elsewhere, naive_timing
from tests.studies.identity import identified, like
from tests.traces import make_trace, with_columns

LENGTHS = np.random.default_rng(5).integers(1, 8, 40)
STEPS = (0, 5, 20)
NAMES = ("watched-s3", "watched-s4", "watched-uniform-s9", "embedding-s3")


def all_splits(outputs):
    """A trace of train, dev and test, as a teacher leaves it."""
    more = [
        make_trace(80, (1, 8), outputs, k, split=name) for k, name in ((50, "train"), (51, "dev"))
    ]
    return concatenate([*more, make_trace(len(LENGTHS), LENGTHS, outputs)])


def some(study, outputs=1):
    base = make_trace(len(LENGTHS), LENGTHS, outputs, seed=0)
    found = {name: like(base, LENGTHS, k, outputs) if k else base for k, name in enumerate(NAMES)}
    for k, name in enumerate(NAMES[:3]):
        for step in STEPS:
            whole = like(base, LENGTHS, 10 + 10 * k + step, outputs)
            found[f"{name}/{step_part(step)}"] = whole.take(study.watched.rows(whole.instance))
    return {**found, "embedding-s3/teacher": all_splits(outputs)}


STUDY = Dynamics(seeds=2, steps=STEPS, probe=25)


@pytest.fixture(scope="module", params=[1, 3])
def traces(request):
    return some(STUDY, request.param)


@pytest.fixture(scope="module")
def table(traces):
    return STUDY(identified(traces))


@pytest.fixture(scope="module")
def summary(table):
    return STUDY.summarise(table)


@pytest.mark.slow
def test_every_pair_is_compared_row_by_row(traces, table):
    base, even, embedding = (traces[NAMES[k]] for k in (0, 2, 3))
    counts = CountModel.fit(traces["embedding-s3/teacher"])
    finished = {
        "reference": base.alpha,
        "uniform": relevance(even),
        "embedding": relevance(embedding),
        "logistic": counts.relevance(base),
    }
    for seed, step in ((3, 5), (4, 20), (4, None)):
        trace = traces[f"watched-s{seed}" if step is None else f"watched-s{seed}/{step_part(step)}"]
        rows = table.filter(pl.col("step").eq_missing(step), model="base", seed=seed)
        assert rows["instance"].to_list() == trace.instance.tolist()
        assert rows["chance"].to_list() == (1 / trace.alpha.lengths).tolist()
        assert rows["correct"].to_list() == (trace.predicted == trace.array("label")).tolist()
        own = {"alpha": trace.alpha, "relevance": relevance(trace), "loo": trace.ragged("loo")}
        for row, instance in enumerate(trace.instance):
            at = base.instance.tolist().index(instance)
            scores = {name: score[row] for name, score in own.items()}
            scores |= {name: score[at] for name, score in finished.items()}
            for u, v in (*PAIRS, *TO_REFERENCE):
                one, other = scores[u].tolist(), scores[v].tolist()
                assert rows[f"agreement_{u}_{v}"][row] == pytest.approx(naive_agreement(one, other))
                tau = np.array(kendalltau(one, other))[0] if len(one) > 1 else np.nan
                assert rows[f"tau_{u}_{v}"][row] == (None if np.isnan(tau) else pytest.approx(tau))


@pytest.mark.parametrize("queries", [1, 2, 4])
def test_habits_of_place_are_what_other_rows_of_the_kind_give(queries):
    """Of texts, and of gold tokens, whose target position counts too; in any order of the rows. The rarest kinds have no other row."""
    lengths = np.repeat(np.r_[np.random.default_rng(7).integers(1, 6, 70), 8], queries)
    trace = make_trace(len(lengths), lengths, 1, seed=2)
    instance, query = np.divmod(np.arange(len(lengths)), queries)
    places = {"query": query} if queries > 1 else {}
    trace = with_columns(trace, instance=instance, **places)
    score = relevance(make_trace(len(lengths), lengths, 1, seed=3))
    alpha, told = ([row.tolist() for row in part] for part in (trace.alpha, score))
    expected = naive_elsewhere(
        alpha, told, list(zip(instance.tolist(), query.tolist(), strict=True)), OTHERS
    )
    order = np.random.default_rng(0).permutation(len(lengths))
    found = elsewhere_agreement(trace.take(order), trace.alpha.take(order), score.take(order))
    assert [None if np.isnan(value) else value for value in found] == [
        expected[k] and pytest.approx(expected[k]) for k in order
    ]
    assert expected.count(None) == queries


def test_agreement_is_compared_with_habit_on_the_texts_that_have_one(table, summary):
    ours = table.filter(
        pl.col("model") == "base", pl.col("step").is_null(), pl.col(ELSEWHERE).is_not_null()
    )
    (gap,) = summary.filter(measure=ABOVE_HABIT, group="all").iter_rows(named=True)
    assert gap["value"] == pytest.approx((ours["agreement_alpha_uniform"] - ours[ELSEWHERE]).mean())


def test_the_summary_has_means_of_every_step_and_of_finished_models(
    traces, table, summary
):  # fmt: skip
    found = {(row["measure"], row["group"]): row for row in summary.iter_rows(named=True)}
    assert {group for _, group in found} == {"all", *(f"step:{step}" for step in STEPS)}
    at = table.filter(pl.col("model") == "base", pl.col("step") == 5)
    assert found["agreement_alpha_uniform", "step:5"]["value"] == pytest.approx(
        at["agreement_alpha_uniform"].mean()
    )
    assert found["agreement_alpha_uniform", "step:5"]["n"] == 25
    fresh = at.filter(seed=4)["agreement_reference_alpha"].mean()
    assert found["agreement_reference_alpha", "step:5"]["value"] == pytest.approx(fresh)
    finished = traces[NAMES[3]]
    assert found["accuracy_embedding", "all"]["value"] == pytest.approx(
        (finished.predicted == finished.array("label")).mean()
    )
    assert found["accuracy", "all"]["n"] == len(LENGTHS)
    for row in found.values():
        if row["low"] is not None:
            assert row["low"] - 1e-9 <= row["value"] <= row["high"] + 1e-9


def test_the_order_of_rows_changes_nothing(traces, table, summary):
    random = np.random.default_rng(0)
    orders = {length: random.permutation(length) for length in (len(LENGTHS), STUDY.probe)}
    moved = {
        name: trace.take(orders[len(trace)]) if len(trace) in orders else trace
        for name, trace in traces.items()
    }
    again = STUDY(identified(moved))
    keys = ["model", "seed", "step", "instance"]
    assert again.sort(keys, nulls_last=True).equals(table.sort(keys, nulls_last=True))
    assert STUDY.summarise(again).equals(summary)


def timed(seed, seeds=3, steps=(0, 10, 50), n=12):
    random = np.random.default_rng(seed)
    rows = [(s, step, i) for s in range(seeds) for step in steps for i in range(n)]
    frame = pl.DataFrame(rows, schema=["seed", "step", "instance"], orient="row")
    even = random.random(n) < 0.5
    return frame.with_columns(
        pl.Series("agreement_reference_alpha", (random.random(len(rows)) < 0.4).astype(float)),
        pl.Series("agreement_reference_uniform", np.tile(even, seeds * len(steps)).astype(float)),
        pl.Series("correct", random.random(len(rows)) < 0.7),
    )


def test_the_timing_is_that_of_the_first_step_that_gets_nearer():
    """Of all seeds and of each; some never get nearer."""
    undefined = set()
    for seed in range(6):
        frame = timed(seed).sort("seed", "step", "instance")
        parts = dict(frame.group_by("seed", "step", maintain_order=True))
        alpha, right = (
            {key: part[name].cast(float).to_list() for key, part in parts.items()}
            for name in ("agreement_reference_alpha", "correct")
        )
        even = parts[0, 0]["agreement_reference_uniform"].to_list()
        for chosen in ([0, 1, 2], [0], [1], [2]):
            expected = naive_timing(chosen, (0, 10, 50), alpha, even, right)
            rows = frame.filter(pl.col("seed").is_in(chosen)).sample(fraction=1, shuffle=True)
            found = {row["measure"]: row for row in timing_rows(STUDY, rows)}
            for name, value in expected.items():
                assert found[name]["value"] == (None if value is None else pytest.approx(value))
            assert found["xi_threshold"]["value"] == pytest.approx(np.mean(even))
            undefined.add(found["xi"]["undefined"])
    assert {0, 1} <= undefined


def test_where_no_step_gets_there_nothing_is_said_and_how_far_it_got_is():
    frame = timed(0).with_columns(
        agreement_reference_uniform=pl.lit(1.0), agreement_reference_alpha=pl.lit(0.25)
    )
    found = {row["measure"]: row for row in timing_rows(STUDY, frame)}
    for name in ("xi", "xi_step", "xi_early", "best_accuracy_minus_xi"):
        assert (found[name]["value"], found[name]["low"], found[name]["undefined"]) == (
            None,
            None,
            3,
        )
    assert (found["xi_reached"]["value"], found["xi_threshold"]["value"]) == (0.25, 1.0)
    assert found["best_accuracy"]["value"] is not None
    assert list(timing_rows(STUDY, frame.clear())) == []


def test_even_weights_have_all_the_entropy_and_one_position_none():
    rows = Ragged.from_rows(
        [
            np.full(7, 1 / 7),
            np.array([0.0, 1.0, 0.0]),
            np.array([1.0]),
            np.array([0.5, 0.5, 0.0, 0.0]),
        ]
    )
    assert entropy_share(rows)[[0, 1, 3]] == pytest.approx([1.0, 0.0, 0.5])
    assert np.isnan(entropy_share(rows)[2])


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_count_model_is_a_linear_model_of_shares_of_words(outputs):
    model, test = CountModel.fit(all_splits(outputs)), make_trace(40, LENGTHS, outputs, seed=0)
    said, right, label = model.relevance(test), model.correct(test), test.array("label")
    weight, offset = model.fitted.coef_, np.asarray(model.fitted.intercept_)
    for row in range(len(test)):
        places = [model.number.get(word) for word in test.tokens(row)]
        words = [np.zeros(len(offset)) if k is None else weight[:, k] for k in places]
        logits = offset + np.mean(words, axis=0)
        decided = int(logits[0] >= 0) if outputs == 1 else int(np.argmax(logits))
        assert right[row] == (decided == label[row])
        gold = [w[0] * (2 * label[row] - 1) if outputs == 1 else w[label[row]] for w in words]
        assert said[row].tolist() == pytest.approx(gold)
    assert right.mean() > 0.5
