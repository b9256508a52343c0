"""The verdict card says what the figures say, and no more."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from attnaudit.experiments import audit
from attnaudit.experiments.replacement import LIMIT
from attnaudit.report.card import verdict
from attnaudit.results import SUMMARY_SCHEMA, About, summary_row
from tests.report.heads import make_heads
from tests.report.runs import named, summary_of
from tests.traces import make_trace

ABOUT = About(corpus="sst", encoder="bilstm", attention="additive", seed=3)


def row_of(about: Any = ABOUT, **figures):
    (row,) = verdict(summary_of(**figures), about).rows
    return row


def around(value, half=0.01):
    return value, value - half, value + half


@pytest.mark.parametrize(
    ("value", "reference", "gap", "said"),
    [
        (0.35, 0.66, 0.31, "about half as well as"),
        (0.80, 0.60, -0.2, "better than"),
        (0.58, 0.60, 0.005, "about as well as"),
        (-0.20, 0.60, 0.8, "No agreement"),
        (0.005, 0.60, 0.6, "hardly at all"),
        (0.30, 0.005, -0.295, "no firm standard"),
    ],
)
def test_agreement_is_told_as_a_share_of_that_of_two_measures(value, reference, gap, said):
    """Agreement of attention with gradients, of gradients with leave-one-out, and the difference."""
    names = ("tau_gradient", "tau_gradient_loo", "tau_gradient_loo_minus_tau_gradient")
    figures = zip(names, map(around, (value, reference, gap)), strict=True)
    row = row_of(**named("correlation", dict(figures)))
    assert said in row.sentence
    assert f"{reference:.2f} [" in row.yardstick
    assert row.value == value


def test_agreement_without_a_defined_reference_claims_nothing():
    tau = {"value": 0.4, "low": 0.3, "high": 0.5, "undefined": 7}
    row = row_of(correlation__tau_loo=tau, correlation__tau_gradient_loo={})
    assert row.side == ""
    assert "τ is undefined for 7 texts" in row.sentence


@pytest.mark.parametrize(("upper", "loose"), [(0.05, False), (0.1, True), (None, False)])
def test_a_bound_above_what_was_found_is_compared_with_it(upper, loose):
    about = About.of({"experiments": {"adversary": {"epsilon": 0.05}}})
    bound = {} if upper is None else {"adversary__emax_jsd_upper": upper}
    row = row_of(about, adversary__emax_jsd=0.05, **bound)
    assert ("(upper bound)" in row.yardstick) == loose
    assert "ε = 0.05" in row.sentence


def test_copies_of_some_rows_do_not_count_all_rows():
    """As of a translator, whose 100 gold tokens are of fewer texts."""
    copies = {"value": 0.3, "n": 30, "texts": 20}
    figures = {"replacement__replacement_attention": copies, "correlation__tau_loo": 0.3}
    found = verdict(summary_of(**figures), ABOUT)
    assert found.counted.startswith("100 positions")
    assert any("words of 20 texts are" in row.sentence for row in found.rows)


GROUPS: tuple[str, ...] = ("all", "predicted:a", "predicted:b", "predicted:c")
FEW = 19  # instances, one less than a conclusion needs


def by_class(few=(), **figures):
    """A summary by group: ``experiment__measure``, value and half an interval.

    The groups in ``few`` have too few instances for a conclusion.
    """
    rows = []
    for name, own in figures.items():
        experiment, measure = name.split("__")
        for group, one in own.items():
            n = FEW if group in few else 50
            rows.append(summary_row(experiment, measure, *around(*one), n=n, group=group))
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


@pytest.mark.parametrize(
    ("attention", "random", "side", "said"),
    [
        (-0.02, 0.001, "against", "a probability of 90 % rises by 0.020 on average"),
        (0.02, 0.02, "", "too small for a conclusion"),
        (0.25, 0.04, "for", "falls by 0.250 on average"),
    ],
)
def test_tokens_are_needed_only_where_the_output_falls_more_than_without_random_ones(
    attention, random, side, said
):
    name = "matched_comprehensiveness"
    more = {f"attention_minus_{name}_random": attention - random}
    figures = {"attention": attention, "random": random, **more}
    row = row_of(**named("comprehensiveness", {f"{name}_{key}": figures[key] for key in figures}))
    assert row.side == side
    assert said in row.sentence


def test_erasure_and_ranges_describe():
    """When a decision flips hangs on fillers, and how free a weight is on the length of a text."""
    figures = {"area_attention": 0.2, "area_random": 0.1, "area_minimum": 0.9}
    row = row_of(**named("erasure", figures | {"never_minimum": 0.1, "never_attention": 0.1}))
    assert (row.side, row.figure) == ("", "0.20")
    free = {"mean_possible": 0.9, "top_necessary": 0.0, "any_necessary": 0.1}
    assert row_of(**named("ranges", free)).side == ""


def test_texts_of_one_word_are_counted():
    figures = {"median_delta_y": 0.3, "max_alpha": {"value": 0.4, "n": 90, "undefined": 10}}
    row = row_of(**named("permutation", figures))
    assert "Left out: 10 texts of one word" in row.sentence


def test_plausibility_compares_with_the_best_other_measure_and_with_chance():
    scores = {"attention": around(0.49), "gradient": 0.89, "loo": 0.66, "chance": 0.11}
    scores["attention_minus_precision_gradient"] = around(-0.4)
    row = row_of(**named("plausibility", {f"precision_{name}": scores[name] for name in scores}))
    assert "11 %: it finds them less well than gradients (0.89)" in row.sentence


@pytest.mark.parametrize("n", [FEW, FEW + 1])
def test_few_labelled_instances_are_too_few_to_judge_a_model_by(n):
    row = row_of(prediction__accuracy={"value": 0.5, "n": n}, prediction__roc_auc=0.0)
    assert ("worse than chance" in row.sentence) == (n > FEW)
    assert ("Too few to judge the model by" in row.sentence) == (n <= FEW)


def test_the_card_prints_figures_and_names_whatever_they_look_like():
    """Nothing of what is undefined."""
    console, about = Console(record=True, width=200), About(corpus="[red]x[/red]", encoder="cnn")
    verdict(summary_of(permutation__median_delta_y=around(0.35)), about).print(console)
    verdict(summary_of(adversary__emax_jsd={}, permutation__median_delta_y=float("nan"))).print(
        console
    )
    text = console.export_text()
    assert "on [red]x[/red]" in text
    assert "0.350 [0.340, 0.360]" in text
    assert "no experiment gave a number" in text


@pytest.mark.parametrize(
    ("metadata", "title"),
    [
        ({}, "this model on this trace"),
        ({"name": "Tickets", "model": {"name": "LSTM", "layers": 2}}, "Tickets: LSTM"),
        (
            {"name": "T", "model": "LSTM", "corpus": {"name": "m", "title": "Mail"}},
            "T: LSTM on Mail",
        ),
        ({"name": ["no text"], "model": 3}, "this model on this trace"),
        ({"name": "n" * 5000}, f"{'n' * 99}…"),
    ],
)
def test_a_trace_is_called_what_its_metadata_say(metadata, title):
    summary = summary_of(permutation__median_delta_y=0.3)
    assert verdict(summary, About.of({}, metadata)).title == title


@pytest.mark.parametrize(("reach", "shown"), [(0.0, "0.000"), (0.0004, "< 0.001"), (0.25, "0.25")])
def test_a_distance_that_is_not_0_is_not_shown_as_0(reach, shown):
    names = {"max_tvd_alpha": reach, "max_tvd_alpha_upper": reach, "identifiable": 0.5}
    row = row_of(**named("identifiability", names))
    assert row.figure == shown


def replaced(**groups):
    """Attention's share of leave-one-out, with half an interval, by group."""
    share = {name.replace("__", ":"): one for name, one in groups.items()}
    same = dict.fromkeys(share, (0.4, 0.01))
    names = {"attention": same, "loo": same, "share": share}
    return named("replacement", {f"replacement_{name}": names[name] for name in names})


def test_the_card_has_a_row_for_each_of_five_questions_and_folds_the_rest():
    measures = (
        *("prediction__f1_macro", "permutation__median_delta_y", "adversary__emax_jsd"),
        *("ranges__mean_possible", "ranges__any_necessary", "ranges__top_necessary"),
        "correlation__tau_loo",
        *("identifiability__max_tvd_alpha", "identifiability__identifiable"),
        *("replacement__replacement_attention", "replacement__replacement_loo"),
    )
    card = verdict(summary_of(**dict.fromkeys(measures, around(0.5))), ABOUT)
    expected = ["prediction", "replacement", "correlation", "permutation", "adversary"]
    assert [row.experiment for row in card.rows] == expected
    assert {row.experiment for row in card.further} == {"ranges", "identifiability"}


def test_every_row_has_the_sign_of_its_side():
    changes = {"matched_delta_y": (0.01, 0.001), "alpha_from_uniform": (0.5, 0.01)}
    shuffled = named("permutation", {name: {"all": changes[name]} for name in changes})
    card = verdict(by_class(**replaced(all=(0.9, 0.1)), **shuffled), ABOUT)
    assert [row.sign for row in card.rows] == ["✔", "✘"]
    console = Console(record=True, width=200)
    card.print(console)
    assert "✔ Does the output follow" in console.export_text()


SHOWN, WHERE = "may be shown as an explanation", "not why it predicts what it does"
SOME = {"predicted__a": (0.9, 0.1), "predicted__b": (0.1, 0.1)}


@pytest.mark.parametrize(
    ("share", "classes", "said", "sign"),
    [
        (0.9, {}, SHOWN, "✔"),
        (0.2, {}, WHERE, "✘"),
        (0.5, {}, "not enough texts to tell", "–"),
        (0.9, {"predicted__a": (0.5, 0.1)}, SHOWN, "✔"),
        (0.8, SOME, "for some predicted classes, not for others", "–"),
    ],
)
def test_the_line_on_top_and_the_row_that_decides_are_the_verdict(share, classes, said, sign):
    """The row has the share of the reference, not the correlation."""
    figures = replaced(all=(share, 0.1), **classes)
    card = verdict(by_class(**figures), ABOUT)
    assert said in card.lead.split("\n")[0]
    (row,) = card.rows
    assert (row.value, row.sign) == (share, sign)
    assert f"the limit, {LIMIT:g}" in row.yardstick
    assert "correlate 0.40 with the change" in row.sentence
    assert row.measure.endswith("leave-one-out")
    figures["replacement__replacement_gradient"] = figures.pop("replacement__replacement_loo")
    assert verdict(by_class(**figures), ABOUT).rows[0].measure.endswith("the gradient")


def test_the_line_on_top_gives_the_reason_that_holds():
    """Enough texts whose score has no interval are not called few, nor weak ones empty."""
    figures = replaced(all=(0.9, 0.1), predicted__a=(0.9, 0.1), predicted__b=(0.9, 0.1))
    summary = by_class(**figures)
    is_share = pl.col("measure") == "replacement_share"
    ends = pl.when(~is_share).then(pl.col("low", "high"))
    said = verdict(summary.with_columns(ends), ABOUT).lead
    assert "a few of 50 texts decide the score, so it has no interval" in said
    loo = figures["replacement__replacement_loo"]
    reasons = {0.01: "leave-one-out finds no words that matter", 0.05: "not enough texts"}
    for value, reason in reasons.items():
        weak = {"replacement__replacement_loo": dict.fromkeys(loo, (value, 0.02))}
        assert reason in verdict(by_class(**figures | weak), ABOUT).lead
    # A class that is recognised by what is absent has no words to attend to.
    weak = {"replacement__replacement_loo": loo | {"predicted:b": (0.0, 0.01)}}
    card = verdict(by_class(**figures | weak), ABOUT)
    assert SHOWN in card.lead
    assert card.verdict is not None
    assert card.verdict.classes["b"].reason == "no_words"


@pytest.mark.parametrize("texts", [10, 40])
def test_texts_with_several_heads_are_counted_once(texts):
    groups = dict.fromkeys(("all", "head__0.0", "head__0.1"), (0.9, 0.1))
    n = pl.when(group="all").then(2 * texts).otherwise(texts)
    summary = by_class(**replaced(**groups)).with_columns(n=n, texts=pl.lit(texts))
    card = verdict(summary.cast({"n": pl.Int64, "texts": pl.Int64}), ABOUT)
    said = card.lead if texts < 20 else card.rows[0].sentence
    assert f" {texts} texts" in said


@pytest.mark.parametrize(
    "trace",
    [make_trace(6, copies=30), make_trace(6, copies=30, label=False), make_heads(6, heads=12)],
    ids=["labels", "none", "heads"],
)
def test_no_claim_stands_above_rows_that_all_conclude_nothing(trace):
    card = verdict(audit(trace).summary, ABOUT)
    told = [row for row in (*card.rows, *card.further) if not row.of_model]
    assert len(told) > 3
    assert all(row.sentence.startswith("No conclusion") and not row.side for row in told)
    assert card.lead.startswith(("No conclusion", "Claim nothing"))
    assert card.verdict is not None
    assert (card.verdict.code, card.sure) == ("none", "")


def test_without_replaced_words_nothing_is_concluded_from_weights():
    card = verdict(summary_of(permutation__median_delta_y=around(0.5)), ABOUT)
    assert card.lead.startswith("No conclusion about heatmaps of this model: weights by themselves")
    assert card.to_json()["verdict"]["code"] == "none"


@pytest.fixture
def held_out(monkeypatch):
    """Replace the answers of held-out models, by their kind."""

    def replace(known):
        for place in ("experiments.verdict", "report.cards.lead"):
            monkeypatch.setattr(f"attnaudit.{place}.held_out", lambda kind: known.get(kind, {}))

    return replace


def test_the_card_says_how_often_its_answer_was_wrong(held_out):
    counts = {"faithful": {"show": 9, "where": 1}, "unfaithful": {"where": 20}}
    held_out({"classifiers": counts})
    for share, said in ((0.9, "0 % [0 %, 17 %] of 20 models"), (0.1, "45 %] of 10")):
        assert said in verdict(by_class(**replaced(all=(share, 0.1))), ABOUT).sure
    assert verdict(by_class(**replaced(all=(0.5, 0.1))), ABOUT).sure == ""


def test_a_transformer_has_the_error_rate_of_transformers(held_out):
    held_out({"transformers": {"unfaithful": {"show": 3, "where": 9}}})
    rows = by_class(**replaced(all=(0.9, 0.1)))
    head = rows.with_columns(group=pl.lit("head:3.0"))
    assert "25 % [5 %, 57 %] of 12 transformers" in verdict(pl.concat([rows, head]), ABOUT).sure
    assert verdict(rows, ABOUT).sure == ""


def test_classes_are_listed_where_a_common_mean_does_not_describe_them():
    seven = {name: 0.1 * k for k, name in enumerate("cadbfge")}
    for classes, said in (
        (dict(list(seven.items())[:3]), "c 0.00, a 0.10, d 0.20."),
        (seven, "c 0.00 to e 0.60, with 5 between."),
        ({"a": 0.15, "b": 0.21}, ""),
    ):
        values = {"all": 0.2} | {
            f"predicted:{name}": value for name, value in (classes | {"rare": 0.9}).items()
        }
        changes = {group: (value, 0.02) for group, value in values.items()}
        summary = by_class(("predicted:rare",), permutation__median_delta_y=changes)
        (row,) = verdict(summary, ABOUT).rows
        assert row.sentence.endswith(said)
        assert ("y predicted class" in row.sentence) == bool(said)


def test_classes_that_are_never_predicted_are_named():
    names = ("loan", "card", "mortgage", "insurance")
    trace = make_trace(80, (2, 8), outputs=4, class_names=names)
    some = trace.take(np.flatnonzero(trace.predicted < 2))
    about = About.of(None, some.metadata)
    row = verdict(audit(some, ["prediction", "permutation"]).summary, about).rows[0]
    assert "It never predicts mortgage or insurance. " in row.sentence
