"""Does this corpus need attention? Everything trained with the attention frozen at 1/T (Wiegreffe & Pinter 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from attnaudit.core.papers import WIEGREFFE2019, Paper
from attnaudit.core.settings import setting
from attnaudit.plans.training import (
    Layout,
    Training,
    TrainingId,
    check_least,
    learned_attention,
    seeded,
    usual,
    without_scores,
)
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import Intervals, StudyFigure, StudyPanel
from attnaudit.results.measures import Measure
from attnaudit.results.words import figure, interval
from attnaudit.studies.over_seeds import (
    HARDLY,
    compare_models,
    compared,
    model_label,
    of_models,
    predictions,
    seeds_and_spread,
)
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.plans.spec import RunSpec

MODELS = ("base", "uniform")
_DIFFERENCE = "difference_f1_"


@dataclass(frozen=True)
class Uniform:
    """The model as it is against one that cannot choose where to look, trained alike with the same ``seeds``.

    The table has a row per model, seed and instance with the ``probabilities``. The summary has accuracy, F1 and ROC-AUC of both, and
    ``difference_<figure>_uniform``: uniform minus base, with an interval over seeds and instances, paired. A corpus where uniform does as
    well cannot decide anything about attention.
    """

    name: ClassVar[str] = "uniform"
    question: ClassVar[str] = "Is attention needed?"
    paper: ClassVar[Paper] = WIEGREFFE2019
    measures: ClassVar[tuple[Measure, ...]] = compared("the base model's")
    layout: ClassVar[Layout] = "models"
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 3}
    seeds: int = setting("Number of trainings (seeds) of each of the two models.", 5)
    seed: int = setting("Seed of the intervals; default: --seed.", 0)

    def __post_init__(self) -> None:
        check_least(self, seeds=1)

    def plan(self, base: RunSpec, corpus: Corpus) -> Sequence[Training]:
        learned_attention(self.name, base)
        return [
            training
            for k in range(self.seeds)
            for training in (usual(base, base.seed + k), evenly(base, base.seed + k))
        ]

    def __call__(self, traces: Mapping[TrainingId, Trace]) -> pl.DataFrame:
        ordered = sorted(traces, key=lambda training: (training.seed, MODELS.index(training.role)))
        return pl.concat(
            [predictions(training.role, training.seed, traces[training]) for training in ordered]
        )

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        return compare_models(self.name, table, against="base", seed=self.seed)

    @staticmethod
    def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
        for measure in [
            measure
            for study, measure in rows.rows
            if study == "uniform" and measure.startswith(_DIFFERENCE)
        ]:
            yield from _card_row(rows, measure.removeprefix(_DIFFERENCE))

    @staticmethod
    def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[StudyFigure]:
        titles = {"f1": "F1", "accuracy": "accuracy", "roc_auc": "ROC-AUC"}
        charts = {
            name: Intervals(of_models(summary, name, Uniform.measures), title)
            for name, title in titles.items()
        }
        panels = tuple(
            StudyPanel(
                titles[name],
                chart,
                f"uniform-{name}",
                f"{titles[name]} of both models with intervals",
            )
            for name, chart in charts.items()
        )
        caption = (
            f"The base model and the same model with uniform attention, trained alike with {seeds_and_spread(table)}. The numbers below "
            "have the paired differences."
        )
        yield StudyFigure("uniform", "What is lost without attention?", caption, panels)


def _card_row(rows: SummaryRows, model: str) -> Iterator[CardRow]:
    """What the uniform ``model`` shows, of all attention or of a transformer's layer."""
    row, base, even = (
        rows.get("uniform", name) for name in (f"{_DIFFERENCE}{model}", "f1_base", f"f1_{model}")
    )
    if row is None or base is None or even is None:
        return
    claim, how = None, model_label(model)
    needed = "attention" if model == "uniform" else how.replace("uniform", "learned")
    sentence = f"Retrained with {how}, the model reaches F1 {figure(even['value'])} instead of {figure(base['value'])}. "
    if row["low"] > -HARDLY:
        says = ", and says little about attention" if model == "uniform" else ""
        sentence += (
            f"This corpus hardly needs {needed} (a loss of {HARDLY} is outside the interval){says}."
        )
        claim = Claim(False, f"this corpus hardly needs {needed}")
    elif row["high"] < 0:
        alone = row["std"] is None
        chance = (
            "instances explain, although one seed says nothing about others"
            if alone
            else "seeds and instances explain"
        )
        sentence += f"The loss is beyond what {chance}: here nothing else replaces {needed}."
        claim = Claim(True, f"retrained with {how}, it predicts worse")
    else:
        sentence += "The interval contains both no loss and a relevant one: more seeds, or more test texts, are needed."
    yardstick = f"base model F1 {figure(base['value'])} {interval(base)}"
    yield card_row(
        Uniform.question,
        f"F1 with {how} minus F1 of the base model",
        row,
        yardstick,
        sentence,
        scale=(-1.0, 1.0),
        claim=claim,
    )


def evenly(base: RunSpec, seed: int) -> Training:
    """The same model with uniform attention."""
    spec = without_scores(seeded(base, seed))
    return Training(
        TrainingId("uniform", seed), replace(spec, model=replace(spec.model, attention="uniform"))
    )
