"""Whether a model does better than a baseline that learns nothing: asked before anything is concluded from its attention.

A classifier is compared by accuracy with the share of the most frequent class, with one test at one level. A model of a rare class may rank
its instances well and yet decide for the frequent class every time: what is said of its decisions would be said of a constant, and
nothing is concluded from it either. Its ROC-AUC is among the figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnaudit.results.card import SummaryRows
from attnaudit.results.measures import Measure
from attnaudit.results.words import figure, interval

BASE = "base_"  # before the names of a study's rows of the models that it is about
CHANCE = 0.5  # ROC-AUC of scores that are independent of the label
OF_BASE = (
    Measure(
        "base_accuracy",
        "accuracy of the base models",
        "Mean accuracy of the ordinary models that the study is about.",
    ),
    Measure(
        "base_majority",
        "accuracy of always predicting the most frequent label",
        "Share of the most frequent label of test.",
    ),
    Measure(
        "base_roc_auc",
        "ROC-AUC of the base models",
        "Mean area under the ROC curve of the ordinary models that the study is about.",
    ),
    Measure(
        "base_roc_auc_chance",
        "ROC-AUC of random scores",
        "Area under the ROC curve of scores that are independent of the label.",
    ),
    Measure(
        "base_bleu",
        "BLEU of the base models",
        "Mean BLEU of the ordinary translators that the study is about, 0 to 100.",
    ),
    Measure(
        "base_bleu_copy",
        "BLEU of the copied source",
        "BLEU of the source texts taken as translations, 0 to 100.",
    ),
    Measure(
        "base_bleu_other",
        "BLEU against references of other pairs",
        "BLEU of the translations, each against the reference of another pair, 0 to 100.",
    ),
)
"""Measures of a study by which `no_skill` judges the models that it is about."""


@dataclass(frozen=True)
class Yardstick:
    """A ``score`` of models and its ``baselines``: the scores that they reach, and what each does."""

    score: str
    baselines: tuple[tuple[str, str], ...]
    label: str
    places: int


YARDSTICKS = (
    Yardstick(
        "accuracy", (("majority", "always predicting the most frequent label"),), "accuracy", 2
    ),
    Yardstick(
        "bleu",
        (("bleu_copy", "copying the source"), ("bleu_other", "its translations of other sources")),
        "BLEU",
        1,
    ),
)
OF_RUN = ("prediction", "translation")


def no_skill(rows: SummaryRows, experiment: str, prefix: str = "") -> str:
    """A sentence where the models of ``experiment`` do not exceed the baseline by more than their interval; empty where they do.

    The first of `YARDSTICKS` whose score and a baseline the summary has decides, by its best baseline: several scores would be as many
    chances of a false positive. Empty too where it has none: see `skill_unknown`.
    """
    judged = _judged(rows, experiment, prefix)
    if judged is None:
        return ""
    one, score, baselines = judged
    baseline, does = max(baselines)
    least = score["value"] if score["low"] is None else score["low"]
    if least > baseline:
        return ""
    reached = " ".join(
        filter(None, (figure(score["value"], one.places), interval(score, one.places)))
    )
    return (
        f"Claim nothing: the model is not shown to be better than {does} ({one.label} {reached}, baseline "
        f"{figure(baseline, one.places)}). Numbers are shown, conclusions are withheld."
    )


def no_skill_of_run(rows: SummaryRows) -> str:
    """`no_skill` of the model of a run, an audit or a translation."""
    return next(filter(None, (no_skill(rows, name) for name in OF_RUN)), "")


def skill_unknown(rows: SummaryRows) -> str:
    """A sentence where no score of the model of a run, an audit or a translation was measured; empty where one was."""
    if any(_judged(rows, name, "") for name in OF_RUN):
        return ""
    return (
        "Whether the model predicts better than the most frequent class is not known: its accuracy is not measured. "
        "The experiment prediction measures it where texts have labels."
    )


def _judged(
    rows: SummaryRows, experiment: str, prefix: str
) -> tuple[Yardstick, dict[str, Any], list[tuple[float, str]]] | None:
    """The first of `YARDSTICKS` that the summary has with a baseline, the row of its score, and what each baseline reaches and does."""
    for one in YARDSTICKS:
        score = rows.get(experiment, prefix + one.score)
        known = [
            (value, does)
            for name, does in one.baselines
            if (value := rows.value(experiment, prefix + name)) is not None
        ]
        if score is not None and known:
            return one, score, known
    return None
