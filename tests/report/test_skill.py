"""No conclusion from a model that learned nothing, and one line on top of each card that follows from its rows."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from sklearn.metrics import roc_auc_score

from attnaudit.experiments import EXPERIMENTS, audit, facts
from attnaudit.experiments.prediction import Prediction
from attnaudit.experiments.verdict import Finding
from attnaudit.recipes.translator import translation_rows
from attnaudit.report.card import verdict
from attnaudit.report.cards.card import WITHHELD, Claim, card_row
from attnaudit.report.cards.lead import claimed
from attnaudit.report.cards.skill import no_skill, no_skill_of_run
from attnaudit.report.run_page import write_report
from attnaudit.report.study_page import study_card, study_numbers, write_studies
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.about import About
from attnaudit.results.measures import BASE, OF_BASE
from attnaudit.results.summary import SummaryRows
from attnaudit.stats.bleu import bleu, bleu_counts, bleu_of_others
from attnaudit.studies import EVERY_STUDY
from attnaudit.studies.base import base_models, base_rows
from attnaudit.studies.uniform import Uniform
from tests.report.runs import summary_of, write_run
from tests.studies.identity import identified, identity
from tests.studies.test_numbers import some
from tests.traces import make_trace

ABOUT = About(corpus="sst", encoder="bilstm", attention="additive")
SHUFFLED = {"permutation__median_delta_y": {"value": 0.3, "low": 0.29, "high": 0.31}}
AT_CHANCE = {
    "prediction__accuracy": {"value": 0.52, "low": 0.48, "high": 0.56},
    "prediction__f1": {"value": 0.5, "low": 0.45, "high": 0.55},
    "prediction__majority": {"value": 0.51},
}


def test_a_run_at_the_majority_class_keeps_its_figures_and_draws_no_conclusion() -> None:
    card = verdict(summary_of(**AT_CHANCE, **SHUFFLED), ABOUT)
    quality, shuffled = card.rows
    assert (
        "not shown to be better than always predicting the most frequent label (accuracy 0.52 [0.48, 0.56], baseline 0.51)"
        in card.lead
    )
    assert card.lead.startswith("Claim nothing")
    assert shuffled.sentence == WITHHELD
    assert (shuffled.figure, shuffled.interval) == ("0.300", "[0.290, 0.310]")
    assert "Correct on 52 %" in quality.sentence
    console = Console(record=True, width=160)
    card.print(console)
    assert "Claim nothing" in console.export_text()
    assert "Claim nothing" in card.to_json()["lead"]


def test_few_instances_carry_no_conclusion() -> None:
    """Each measure by its own number: of heads a text counts once."""
    quality = {
        "prediction__accuracy": {"value": 0.9, "low": 0.8, "high": 1.0},
        "prediction__majority": {"value": 0.5},
    }
    for n, texts, enough in (
        (19, None, False),
        (20, None, True),
        (400, 19, False),
        (400, 20, True),
    ):
        shuffled = {
            "permutation__median_delta_y": {
                "value": 0.3,
                "low": 0.3,
                "high": 0.3,
                "n": n,
                "texts": texts,
            }
        }
        card = verdict(summary_of(**quality, **shuffled), ABOUT)
        said = f"No conclusion from {texts or n} instances: 20 or more are needed."
        assert (card.rows[1].sentence == said) is not enough
        assert (card.rows[1].side == "") is not enough
        assert card.lead.startswith("No conclusion about heatmaps of this model") is not enough
        assert "Correct on 90 %" in card.rows[0].sentence


def test_a_model_worse_than_chance_is_called_so() -> None:
    quality = {
        "prediction__accuracy": {"value": 0.1, "low": 0.05, "high": 0.2},
        "prediction__majority": {"value": 0.5},
    }
    (row,) = verdict(
        summary_of(**quality, prediction__roc_auc={"value": 0.03, "low": 0.0, "high": 0.1}), ABOUT
    ).rows
    assert (
        "That is worse than chance (ROC-AUC 0.03 [0.00, 0.10], chance 0.50): the labels"
        in row.sentence
    )


@pytest.mark.parametrize("matched", ["order", "number", "name"])
def test_classes_that_were_assumed_and_are_predicted_worse_than_chance_may_be_exchanged(
    matched: str,
) -> None:
    model = {"name": "Bert", "matched": matched, "outputs": {"LABEL_0": "neg", "LABEL_1": "pos"}}
    about = About(corpus="mine", class_names=("neg", "pos"), metadata={"model": model})
    accuracy = {"prediction__accuracy": {"value": 0.1, "low": 0.05, "high": 0.2}}
    worse, chance = (
        {"prediction__roc_auc": {"value": 0.1, "low": low, "high": high}}
        for low, high in ((0.02, 0.2), (0.05, 0.55))
    )
    said = "the names may be exchanged. State them in the order of the outputs (--set collect.classes=…)."
    for rows, expected in ((accuracy | worse, True), (accuracy | chance, False), (accuracy, True)):
        card = verdict(summary_of(**rows), about)
        (row,) = card.rows
        assert ("classes assumed: LABEL_0 is neg, LABEL_1 is pos" in card.subtitle) is (
            matched != "name"
        )
        assert (said in row.sentence) is (expected and matched != "name")


@pytest.mark.parametrize(
    "rows",
    [
        {
            "prediction__accuracy": {"value": 0.8, "low": 0.7, "high": 0.9},
            "prediction__majority": {"value": 0.51},
        },
        {},
    ],
)
def test_a_model_that_learned_something_and_a_trace_without_labels_are_concluded_from(
    rows: dict,
) -> None:
    card = verdict(summary_of(**rows, **SHUFFLED), ABOUT)
    assert "shuffled" in card.rows[-1].sentence
    assert card.notices == ()
    assert ("is not known: its accuracy is not measured" in card.lead) is (not rows)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("learned", [True, False])
def test_a_model_that_always_predicts_the_frequent_class_is_not_concluded_from(
    outputs: int, learned: bool
) -> None:
    rng, classes = np.random.default_rng(0), max(outputs, 2)
    label = np.where(rng.random(2000) < 0.05, rng.integers(1, classes, 2000), 0)
    score = (
        np.full((2000, classes), 0.1)
        + 0.2 * rng.random((2000, classes))
        + 2.0 * (np.arange(classes) == 0)
    )
    score += 0.15 * learned * (label[:, None] == np.arange(classes))
    score /= score.sum(axis=1, keepdims=True)
    rows = pl.DataFrame(
        {
            "instance": np.arange(2000),
            "label": label.astype(np.int32),
            "correct": score.argmax(axis=1) == label,
            "probabilities": (score[:, 1:] if outputs == 1 else score).tolist(),
        }
    )
    summary = Prediction().summarise(rows)
    found = SummaryRows.of(summary)
    assert found.value("prediction", "accuracy") == found.value("prediction", "majority")
    assert (
        "not shown to be better than always predicting the most frequent label"
        in no_skill_of_run(found)
    )
    if learned:
        assert (
            "It does rank instances better than chance (ROC-AUC"
            in verdict(summary, ABOUT).rows[0].sentence
        )


@pytest.mark.parametrize(
    ("low", "told"),
    [
        (0.1, "not shown to be better than copying the source (BLEU 0.3 [0.1, 0.5], baseline 0.2)"),
        (0.25, ""),
    ],
)
def test_a_translator_is_compared_with_the_copied_source(low: float, told: str) -> None:
    rows = summary_of(
        translation__bleu={"value": 0.3, "low": low, "high": 0.5},
        translation__bleu_copy={"value": 0.2},
    )
    assert told in no_skill_of_run(SummaryRows.of(rows))
    assert bool(no_skill_of_run(SummaryRows.of(rows))) is bool(told)


def test_a_translator_that_writes_the_same_for_every_source_has_learned_nothing() -> None:
    names = ("translation__bleu", "translation__bleu_copy", "translation__bleu_other")
    figures = ({"value": 0.3, "low": 0.25, "high": 0.35}, {"value": 0.0}, {"value": 0.28})
    notice = no_skill_of_run(SummaryRows.of(summary_of(**dict(zip(names, figures, strict=True)))))
    assert "not shown to be better than its translations of other sources (BLEU 0.3 [" in notice
    texts = [f"{one} b c d {one} f g {one}" for one in "xyzw"]
    others = bleu_of_others(texts, texts)
    assert others is not None
    assert others < 60 < bleu(bleu_counts(texts, texts).sum(axis=0))
    assert bleu_of_others(["a b c d e"] * 4, ["a b c d e"] * 4) == pytest.approx(100)


def test_the_copied_source_has_its_bleu() -> None:
    pairs: Any = ParallelPairs()
    written = [
        {"source": "a b c d e", "translation": "x"},
        {"source": "k l m n o", "translation": "y"},
    ]
    summary = translation_rows(
        pairs, written, {"loss": 1.0, "token_accuracy": 0.0, "unknown": 0.0, "tokens": 2}
    )
    rows = {row["measure"]: row["value"] for row in summary}
    assert rows["bleu_copy"] == pytest.approx(50, abs=5)
    assert rows["bleu"] < 1
    assert 0 <= rows["bleu_other"] < 1


class ParallelPairs:
    """As much of parallel texts as BLEU reads."""

    target = ("a b c d e", "f g h i j")

    def __len__(self) -> int:
        return len(self.target)


def study_summary(**figures: tuple[float, float, float]) -> pl.DataFrame:
    rows = {
        f"uniform__{name}": {"value": value, "low": low, "high": high}
        for name, (value, low, high) in figures.items()
    }
    return summary_of(**rows)


UNIFORM = {
    "difference_f1_uniform": (0.0, -0.01, 0.01),
    "f1_base": (0.5, 0.4, 0.6),
    "f1_uniform": (0.5, 0.4, 0.6),
}


def test_a_study_of_models_that_learned_nothing_draws_no_conclusion_and_an_old_summary_does() -> (
    None
):
    old = study_card(study_summary(**UNIFORM), ABOUT)
    assert "hardly needs attention" in old.rows[0].sentence
    assert old.lead.startswith("Nothing below speaks for or against"), "nor is that claimed"
    base = {"base_accuracy": (0.5, 0.45, 0.55), "base_majority": (0.5, 0.5, 0.5)}
    base |= {
        "base_roc_auc": (0.8, 0.75, 0.85),
        "base_roc_auc_chance": (0.5, 0.5, 0.5),
    }  # ranking alone is not enough
    card = study_card(study_summary(**UNIFORM, **base), ABOUT)
    assert card.rows[0].sentence == WITHHELD
    assert card.lead.startswith("Study uniform: Claim nothing")
    assert "hardly" not in card.lead


def test_the_base_of_a_study_is_measured_over_seeds_and_instances() -> None:
    traces = identified(
        dict(zip(("base-s0", "uniform-s0", "base-s1", "uniform-s1"), some(), strict=True))
    )
    rows = {row["measure"]: row for row in base_rows(Uniform(seeds=2), traces)}
    first, second = (traces[identity(name)] for name in ("base-s0", "base-s1"))
    label = first.array("label")
    assert rows["base_accuracy"]["value"] == pytest.approx(
        np.mean([np.mean(one.predicted == label) for one in (first, second)])
    )
    assert rows["base_majority"]["value"] == pytest.approx(np.bincount(label).max() / len(label))
    auc = [roc_auc_score(label, one.prediction[:, -1]) for one in (first, second)]
    assert rows["base_roc_auc"]["value"] == pytest.approx(np.mean(auc))
    assert rows["base_roc_auc_chance"]["value"] == 0.5
    assert (
        rows["base_accuracy"]["low"]
        < rows["base_accuracy"]["value"]
        < rows["base_accuracy"]["high"]
    )
    assert [
        rows[name][end]
        for name in ("base_majority", "base_roc_auc_chance")
        for end in ("low", "high", "std")
    ] == [None] * 6
    summary = pl.DataFrame(
        [*Uniform().summarise(Uniform()(traces)).to_dicts(), *rows.values()], schema=SUMMARY_SCHEMA
    )
    assert OF_BASE[0].label in [one.row[1] for one in study_numbers("uniform", summary)]


def test_a_base_without_an_error_is_judged_as_the_run_of_it_is() -> None:
    """24 of 25 instances are of one class: that all 25 are right is no better than chance."""
    trace, label = make_trace(25), np.arange(25) == 0
    for name, values in (
        ("label", label.astype(np.int32)),
        ("prediction", label[:, None].astype(np.float32).tolist()),
    ):
        column = pl.Series(name, values, trace.table.schema[name])
        trace = replace(trace, table=trace.table.with_columns(column))
    rows = {
        row["measure"]: row
        for row in base_rows(Uniform(seeds=2), identified({"base-s0": trace, "base-s1": trace}))
    }
    (run,) = (
        Prediction()(trace)
        .pipe(Prediction().summarise)
        .filter(group="all", measure="accuracy")
        .to_dicts()
    )
    assert rows["base_accuracy"]["value"] == run["value"] == 1.0
    assert rows["base_accuracy"]["low"] <= run["low"] < rows["base_majority"]["value"] == 0.96
    assert "accuracy 1.00 [0.8" in no_skill(
        SummaryRows.of(pl.DataFrame([*rows.values()], schema=SUMMARY_SCHEMA)), "uniform", BASE
    )


def test_studies_add_nothing_to_the_audit_of_a_model_that_learned_nothing(tmp_path: Path) -> None:
    """A study whose own models did learn something, as that of deceiving models, gives no verdict of the base either."""
    figures = (
        ("mass_bilstm_0", 0.6),
        ("mass_bilstm_1", 0.1),
        ("accuracy_bilstm_0", 0.9),
        ("accuracy_bilstm_1", 0.9),
        ("accuracy_bilstm_removed", 0.5),
    )
    hides = {
        f"deceive__{name}": {"value": value, "low": value - 0.05, "high": value + 0.05}
        for name, value in figures
    }
    for name, rows in (("deceive", hides), ("audit", AT_CHANCE | SHUFFLED)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(json.dumps(summary_of(**rows).to_dicts()))
        (tmp_path / name / "spec.json").write_text(
            json.dumps({"corpus": {"name": "sst"}, "model": {}})
        )
    page = write_studies(tmp_path, {}).read_text(encoding="utf-8")
    assert (
        "its attention hides what it uses"
        in study_card(summary_of(**hides), ABOUT).rows[0].sentence
    )
    assert "Claim nothing" in page
    assert "hides" not in page
    assert "Claim only" not in page


def test_a_study_of_restricted_answers_is_judged_by_accuracy() -> None:
    one, other = (make_trace(40, outputs=4, candidates=True, seed=seed) for seed in (1, 1))
    rows = {
        row["measure"]
        for row in base_rows(Uniform(seeds=1), identified({"base-s0": one, "uniform-s0": other}))
    }
    assert rows == {"base_accuracy", "base_majority"}


@pytest.mark.parametrize(
    ("study", "names", "expected"),
    [
        ("adversary", ["base-s1", "base-s0", "uniform-s0", "adversary-0.1-s1"], ["base-s0"]),
        ("seeds", ["base-s1", "base-s0"], ["base-s0", "base-s1"]),
        (
            "deceive",
            [
                "deceive-embedding-0-s0",
                "deceive-bilstm-0-s0",
                "deceive-bilstm-1-s0",
                "removed-bilstm-s0",
            ],
            ["deceive-bilstm-0-s0"],
        ),
        (
            "dynamics",
            ["watched-s0", "watched-s0/steps/00010", "watched-uniform-s1", "embedding-s0"],
            ["watched-s0"],
        ),
        ("guide", ["guide-uniform-s0", "guide-learned-s0"], []),
    ],
)
def test_which_models_a_study_is_about(study: str, names: list[str], expected: list[str]) -> None:
    assert base_models(study, map(identity, names)) == list(map(identity, expected))


FOR_Y = Claim(Finding("e", "m", "for", "high"), "y")
AGAINST_X = Claim(Finding("e", "m", "against", "low"), "x")


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        (
            [],
            "Claim only that heatmaps of this model show where it puts weight, not why it predicts what it does: nothing below shows",
        ),
        ([AGAINST_X], "not why it predicts what it does: x."),
        (
            [FOR_Y],
            "may be shown as one explanation of its predictions, not as the only one: y.",
        ),
        (
            [FOR_Y, AGAINST_X, AGAINST_X],
            "disagree on whether that explains its predictions.\nFor: y.\nAgainst: x.",
        ),
    ],
)
def test_the_line_on_top_follows_from_the_rows(claims: list[Claim], told: str) -> None:
    assert told in claimed(
        [card_row("?", "m", {"value": 0.5}, "–", "", claim=claim) for claim in claims]
    )


def test_every_measure_has_a_description() -> None:
    stated = [
        *(one for name in EXPERIMENTS for one in facts(name).measures),
        *(one for study in EVERY_STUDY.values() for one in study.measures),
    ]
    assert [one.name for one in stated if not one.meaning] == []


def test_results_without_an_interval_show_none() -> None:
    results, console = (
        audit(make_trace(30, (2, 8)), ["prediction"]),
        Console(record=True, width=160),
    )
    results.show(console)
    assert "undefined to undefined" not in console.export_text() + repr(results)
    json.dumps(results.summary.to_dicts())


def test_every_measure_of_a_page_is_explained(tmp_path: Path) -> None:
    folder = write_run(tmp_path, make_trace(60, (2, 12), seed=1), experiments=["permutation"])
    page = write_report(folder).read_text(encoding="utf-8")
    card = page[page.index('id="verdict"') : page.index('class="key"')]
    assert card.count('<p class="measure"><a class="term"') == card.count('<p class="measure">') > 0
    linked = dict(re.findall(r'href="#(term-\d+)"><abbr title="([^"]+)"', page))
    defined = page[page.index('<dl class="definitions">') :]
    assert dict(re.findall(r'<div id="(term-\d+)">.*<dd>(.+?)</dd>', defined)) == linked != {}


def test_erasure_compares_rankings_over_the_same_instances() -> None:
    result = audit(make_trace(200, (1, 12), seed=3), ["erasure"])["erasure"]
    names = [name for name in result.table.columns if name.startswith("removed_")]
    common = result.table.drop_nulls(names)
    rows = SummaryRows.of(result.summary).rows
    assert 0 < common.height < 200
    for name in names:
        row = rows["erasure", f"common_{name}"]
        assert row["n"] == common.height
        assert row["value"] == pytest.approx(common[name].mean())
        assert row["value"] >= rows["erasure", "common_removed_minimum"]["value"]
