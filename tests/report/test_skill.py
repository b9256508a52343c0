"""No conclusion from a model that learned nothing, and one line on top of each card that follows from its rows."""

import re
from unittest.mock import MagicMock

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from sklearn.metrics import roc_auc_score

from attnaudit.core import write_json
from attnaudit.experiments import EXPERIMENTS, facts
from attnaudit.experiments.findings import Finding
from attnaudit.experiments.prediction import Prediction
from attnaudit.recipes.translator import translation_rows
from attnaudit.report.card import verdict
from attnaudit.report.cards.card import WITHHELD, card_row
from attnaudit.report.cards.lead import of_studies
from attnaudit.report.cards.skill import no_skill, no_skill_of_run
from attnaudit.report.run_page import write_report
from attnaudit.report.study_page import study_card, write_studies
from attnaudit.results import SUMMARY_SCHEMA, About, SummaryRows
from attnaudit.results.measures import BASE
from attnaudit.studies import EVERY_STUDY
from attnaudit.studies.base import base_models, base_rows
from attnaudit.studies.uniform import Uniform
from tests.report.runs import named, summary_of, write_run
from tests.studies.identity import identified, identity
from tests.studies.test_numbers import some
from tests.traces import make_trace, with_columns

ABOUT = About(corpus="sst", encoder="bilstm", attention="additive")
SHUFFLED = {"permutation__matched_delta_y": (0.3, 0.29, 0.31)}
AT_CHANCE = {"prediction__accuracy": (0.52, 0.48, 0.56), "prediction__majority": 0.51}
LEARNED = {"prediction__accuracy": (0.9, 0.8, 1.0), "prediction__majority": 0.5}
REVERSED = {"prediction__accuracy": (0.1, 0.05, 0.2), "prediction__majority": 0.5}


def test_a_run_at_the_majority_class_keeps_its_figures_and_draws_no_conclusion():
    card = verdict(summary_of(**AT_CHANCE, **SHUFFLED), ABOUT)
    quality, shuffled = card.rows
    assert card.lead.startswith("Claim nothing")
    assert "(accuracy 0.52 [0.48, 0.56], baseline 0.51)" in card.lead
    assert shuffled.sentence == WITHHELD
    assert (shuffled.figure, shuffled.interval) == ("0.300", "[0.290, 0.310]")
    assert "Correct on 52 %" in quality.sentence
    console = Console(record=True, width=160)
    card.print(console)
    assert "Claim nothing" in console.export_text()
    assert card.to_json()["lead"] == card.lead


@pytest.mark.parametrize(("n", "texts"), [(19, None), (20, None), (400, 19), (400, 20)])
def test_few_instances_carry_no_conclusion(n, texts):
    """Each measure by its own number: of heads a text counts once."""
    shuffled = {"value": 0.3, "low": 0.3, "high": 0.3, "n": n, "texts": texts}
    card = verdict(summary_of(**LEARNED, permutation__matched_delta_y=shuffled), ABOUT)
    few = (texts or n) < 20
    assert card.rows[1].sentence.startswith(f"No conclusion from {texts or n} texts") is few
    assert (card.rows[1].side == "") is few
    assert "Correct on 90 %" in card.rows[0].sentence


def test_a_model_worse_than_chance_is_called_so():
    (row,) = verdict(summary_of(**REVERSED, prediction__roc_auc=(0.03, 0.0, 0.1)), ABOUT).rows
    assert "worse than chance (ROC-AUC 0.03 [0.00, 0.10], chance 0.50): the labels" in row.sentence


@pytest.mark.parametrize("matched", ["order", "name"])
def test_classes_that_were_assumed_and_are_predicted_worse_than_chance_may_be_exchanged(matched):
    model = {"name": "Bert", "matched": matched, "outputs": {"LABEL_0": "neg", "LABEL_1": "pos"}}
    about = About(corpus="mine", class_names=("neg", "pos"), metadata={"model": model})
    assumed = matched != "name"
    for high, worse in ((0.2, True), (0.55, False)):
        card = verdict(summary_of(**REVERSED, prediction__roc_auc=(0.1, 0.02, high)), about)
        assert ("classes assumed: LABEL_0 is neg, LABEL_1 is pos" in card.subtitle) is assumed
        said = "State them in the order of the outputs (--set collect.classes=…)"
        assert (said in card.rows[0].sentence) is (worse and assumed)


@pytest.mark.parametrize("rows", [LEARNED, {}])
def test_a_model_that_learned_something_and_a_trace_without_labels_are_concluded_from(rows):
    card = verdict(summary_of(**rows, **SHUFFLED), ABOUT)
    assert card.rows[-1].side
    assert card.notices == ()
    assert ("accuracy is not measured" in card.lead) is (not rows)


@pytest.mark.parametrize("learned", [True, False])
def test_a_model_that_always_predicts_the_frequent_class_is_not_concluded_from(learned):
    label = np.arange(2000) % 20 == 0
    score = 0.3 * np.random.default_rng(0).random(2000) + 0.1 * (label & learned)
    columns = {
        "instance": np.arange(2000),
        "label": label.astype(np.int32),
        "correct": ~label,
        "probabilities": score[:, None].tolist(),
    }
    summary = Prediction().summarise(pl.DataFrame(columns))
    found = SummaryRows.of(summary)
    assert found.value("prediction", "accuracy") == found.value("prediction", "majority")
    assert "always predicting the most frequent label" in no_skill_of_run(found)
    said = "It does rank texts better than chance (ROC-AUC"
    assert (said in verdict(summary, ABOUT).rows[0].sentence) is learned


@pytest.mark.parametrize(
    ("low", "other", "told"),
    [
        (0.1, 0.0, "copying the source (BLEU 0.3 [0.1, 0.5], baseline 0.2)"),
        (0.25, 0.0, ""),
        (0.25, 0.28, "its translations of other sources (BLEU 0.3 ["),
    ],
)
def test_a_translator_is_compared_with_the_copied_source_and_with_other_translations(
    low, other, told
):
    scores = {"bleu": (0.3, low, 0.5), "bleu_copy": 0.2, "bleu_other": other}
    rows = summary_of(**named("translation", scores))
    notice = no_skill_of_run(SummaryRows.of(rows))
    assert told in notice
    assert bool(notice) is bool(told)


def test_the_copied_source_has_its_bleu():
    pairs = MagicMock(target=("a b c d e", "f g h i j"))
    pairs.__len__.return_value = 2
    written = [
        {"source": "a b c d e", "translation": "x"},
        {"source": "k l m n o", "translation": "y"},
    ]
    losses = {"loss": 1.0, "token_accuracy": 0.0, "unknown": 0.0, "tokens": 2}
    rows = {row["measure"]: row["value"] for row in translation_rows(pairs, written, losses)}
    assert rows["bleu_copy"] == pytest.approx(50, abs=5)
    assert 0 <= max(rows["bleu"], rows["bleu_other"]) < 1


SCORES = dict.fromkeys(("uniform__f1_macro_base", "uniform__f1_macro_uniform"), (0.5, 0.4, 0.6))
UNIFORM = SCORES | {"uniform__difference_f1_macro_uniform": (0.0, -0.01, 0.01)}


def test_a_study_of_models_that_learned_nothing_draws_no_conclusion():
    known = study_card(summary_of(**UNIFORM), ABOUT)
    assert "hardly needs attention" in known.rows[0].sentence
    # A corpus that says little about attention is no evidence against it.
    assert known.rows[0].side == ""
    assert "Nothing in the studies speaks for or against" in known.lead
    base = {"base_accuracy": (0.5, 0.45, 0.55), "base_majority": 0.5}
    base |= {"base_roc_auc": (0.8, 0.75, 0.85)}  # ranking alone is not enough
    figures = named("uniform", base)
    card = study_card(summary_of(**UNIFORM, **figures), ABOUT)
    assert card.rows[0].sentence == WITHHELD
    assert card.lead.startswith("Study uniform: Claim nothing")


def test_the_base_of_a_study_is_measured_over_seeds_and_instances():
    names = ("base-s0", "uniform-s0", "base-s1", "uniform-s1")
    traces = identified(dict(zip(names, some(), strict=True)))
    rows = {row["measure"]: row for row in base_rows(Uniform(seeds=2), traces)}
    bases = [traces[identity(name)] for name in ("base-s0", "base-s1")]
    label = bases[0].array("label")
    expected = {
        "accuracy": np.mean([np.mean(one.predicted == label) for one in bases]),
        "majority": np.bincount(label).max() / len(label),
        "roc_auc": np.mean([roc_auc_score(label, one.prediction[:, -1]) for one in bases]),
    }
    for name, value in expected.items():
        row = rows[f"base_{name}"]
        assert row["value"] == pytest.approx(value)
        if name in ("accuracy", "roc_auc"):
            assert row["low"] < row["value"] < row["high"]
        else:
            assert [row[end] for end in ("low", "high", "std")] == [None] * 3


def test_a_base_without_an_error_is_judged_as_the_run_of_it_is():
    """24 of 25 instances are of one class: that all 25 are right is no better than chance."""
    trace, label = make_trace(25), (np.arange(25) == 0).astype(np.int32)
    trace = with_columns(trace, label=label, prediction=label[:, None].astype(np.float32))
    rows = base_rows(Uniform(seeds=2), identified({"base-s0": trace, "base-s1": trace}))
    base = SummaryRows.of(pl.DataFrame(list(rows), schema=SUMMARY_SCHEMA))
    run = SummaryRows.of(Prediction().summarise(Prediction()(trace)))
    ours, theirs = base.rows["uniform", "base_accuracy"], run.rows["prediction", "accuracy"]
    assert ours["value"] == theirs["value"] == 1.0
    assert ours["low"] <= theirs["low"] < base.value("uniform", "base_majority") == 0.96
    assert "accuracy 1.00 [0.8" in no_skill(base, "uniform", BASE)


def test_studies_add_nothing_to_the_audit_of_a_model_that_learned_nothing(tmp_path):
    """Not even one whose own models did learn something, as that of deceiving models."""
    values = {"mass_bilstm_0": 0.6, "mass_bilstm_1": 0.1, "accuracy_bilstm_0": 0.9}
    values |= {"accuracy_bilstm_1": 0.9, "accuracy_bilstm_removed": 0.5}
    hides = named("deceive", {name: (one, one - 0.05, one + 0.05) for name, one in values.items()})
    for name, rows in (("deceive", hides), ("audit", AT_CHANCE | SHUFFLED)):
        write_json(tmp_path / name / "summary.json", summary_of(**rows).to_dicts())
        write_json(tmp_path / name / "spec.json", {"corpus": {"name": "sst"}, "model": {}})
    page = write_studies(tmp_path, {}).read_text()
    (row,) = study_card(summary_of(**hides), ABOUT).rows
    assert "its attention hides what it uses" in row.sentence
    assert "Claim nothing" in page
    assert "hides" not in page
    assert "Claim only" not in page


def test_a_study_of_restricted_answers_is_judged_by_accuracy():
    one = make_trace(40, outputs=4, candidates=True, seed=1)
    rows = base_rows(Uniform(seeds=1), identified({"base-s0": one, "uniform-s0": one}))
    assert {row["measure"] for row in rows} == {"base_accuracy", "base_majority"}


@pytest.mark.parametrize(
    ("study", "names", "expected"),
    [
        ("adversary", "base-s1 base-s0 uniform-s0 adversary-0.1-s1", "base-s0"),
        ("seeds", "base-s1 base-s0", "base-s0 base-s1"),
        ("deceive", "deceive-embedding-0-s0 deceive-bilstm-0-s0 removed-bilstm-s0", "deceive-bilstm-0-s0"),
        ("dynamics", "watched-s0 watched-s0/steps/00010 watched-uniform-s1", "watched-s0"),
        ("guide", "guide-uniform-s0 guide-learned-s0", ""),
    ],
)  # fmt: skip
def test_which_models_a_study_is_about(study, names, expected):
    found = base_models(study, map(identity, names.split()))
    assert found == list(map(identity, expected.split()))


FOR_Y = Finding("e", "m", "for", "high"), "y"
AGAINST_X = Finding("e", "m", "against", "low"), "x"


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ([(None, "")], "Nothing in the studies speaks for or against"),
        ([AGAINST_X], "Studies speak against heatmaps of m as explanations of its predictions: x."),
        ([FOR_Y], "Studies speak for heatmaps of m as explanations of its predictions: y."),
        ([FOR_Y, AGAINST_X, AGAINST_X], "explain its predictions.\nFor: y.\nAgainst: x."),
    ],
)
def test_the_line_of_studies_follows_from_their_rows(claims, told):
    rows = [
        card_row("?", "m", {"value": 0.5}, "–", "", finding=one, clause=clause)
        for one, clause in claims
    ]
    assert told in of_studies(rows, "m")


def test_every_measure_has_a_description():
    stated = [one for name in EXPERIMENTS for one in facts(name).measures]
    stated += [one for study in EVERY_STUDY.values() for one in study.measures]
    assert [one.name for one in stated if not one.meaning] == []


def test_every_measure_of_a_page_is_explained(tmp_path):
    folder = write_run(tmp_path, make_trace(60, (2, 12), seed=1), experiments=["permutation"])
    page = write_report(folder).read_text()
    card = page[page.index('id="verdict"') :].partition("</section>")[0]
    assert card.count('<p class="measure"><a class="term"') == card.count('<p class="measure">') > 0
    linked = dict(re.findall(r'href="#(term-\d+)"><abbr title="([^"]+)"', page))
    defined = page[page.index('<dl class="definitions">') :]
    assert dict(re.findall(r'<div id="(term-\d+)">.*<dd>(.+?)</dd>', defined)) == linked != {}
