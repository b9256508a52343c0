"""Does this corpus need attention? Everything trained with the attention frozen at 1/T (Wiegreffe & Pinter 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from attnaudit.results.measures import Measure
from attnaudit.studies.over_seeds import (
    compare_models,
    compared,
    predictions,
)
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.plans.spec import RunSpec

MODELS = ("base", "uniform")


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


def evenly(base: RunSpec, seed: int) -> Training:
    """The same model with uniform attention."""
    spec = without_scores(seeded(base, seed))
    return Training(
        TrainingId("uniform", seed), replace(spec, model=replace(spec.model, attention="uniform"))
    )
