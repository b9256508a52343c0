"""Can another attention reach the same predictions? Trained to predict as the base does, and attend elsewhere (Wiegreffe & Pinter 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import polars as pl
from jaxtyping import Int

from attnaudit.core.errors import InputError
from attnaudit.core.papers import WIEGREFFE2019, Paper
from attnaudit.core.settings import setting
from attnaudit.experiments.adversary.experiment import (
    Adversary,
    divergence,
)
from attnaudit.plans.training import (
    Layout,
    Training,
    TrainingId,
    check_least,
    learned_attention,
    one_attention,
    same_instances,
    seeded,
    usual,
    without_scores,
)
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.measures import Measure
from attnaudit.stats.bootstrap import means_over_seeds
from attnaudit.stats.measures import LN2, predicted_class, tvd
from attnaudit.studies.over_seeds import by_model, by_seed, f1_row, mean_rows, seeds_row
from attnaudit.studies.uniform import evenly
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.plans.spec import RunSpec

_KINDS = {
    "base": "seed",
    "uniform": "uniform",
    "adversary": "adversary",
}  # of a training's role, in the order of the table
EPSILONS = (0.005, 0.01, 0.02, 0.05, 0.1)


@dataclass(frozen=True)
class ModelAdversary:
    """One model for all instances, for each λ of ``strengths``: ``mean TVD(ŷ, ŷ_base) − λ · mean KL(α ‖ α_base)``, without labels.

    Trained until ``patience`` epochs give no better loss on dev, ``epochs`` at most, with ``seeds`` seeds each. ``scaling`` and
    ``divergence`` are those of `training.settings.Adversary`. They are compared with ``controls`` models that differ from the base only
    in the seed, one with uniform attention, and the adversaries found for each instance separately on the frozen base, at the `EPSILONS`.

    The table has a row per model and instance: ``kind`` (adversary, seed, uniform, frozen), ``strength`` (λ, or ε of the frozen), ``seed``,
    ``tvd`` of the prediction and ``jsd`` of the attention to the base's, ``flipped`` where the decision is another, ``label``, and the
    ``predicted`` class. The summary has the means of the first three, F1, and ``area``: that under the curve of the largest mean JSD
    within a mean TVD, up to ``limit``, as a share of what there could be.
    """

    name: ClassVar[str] = "adversary"
    question: ClassVar[str] = "Can attention be moved?"
    paper: ClassVar[Paper] = WIEGREFFE2019
    measures: ClassVar[tuple[Measure, ...]] = (
        Measure("tvd", "mean TVD of the output", "Total variation distance of the output from the base's, 0 to 1."),
        Measure("jsd", "mean JSD of attention", "Jensen-Shannon divergence of the attention from the base's, at most ln 2."),
        Measure("flipped", "share of flipped decisions", "Share of instances whose predicted class is not the base's."),
        Measure("f1", "F1", "Harmonic mean of precision and recall, of class 1 of two, else the mean over classes."),
        Measure("area", "area under the curve of JSD within TVD",
                "Largest mean JSD within each mean TVD up to the limit, as a share of the largest possible area."),
    )  # fmt: skip
    layout: ClassVar[Layout] = "models"
    quick: ClassVar[Mapping[str, Any]] = {
        "strengths": (1e-3, 1e-2),
        "controls": 1,
        "epochs": 30,
        "patience": 5,
    }
    strengths: tuple[float, ...] = setting(
        "Weights λ of the divergence; one adversary for each.", (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
    )
    seeds: int = setting("Number of trainings (seeds) of each adversary.", 1)
    controls: int = setting(
        "Number of models that differ from the base model in the seed alone.", 2
    )
    scaling: Literal["mean", "released"] = setting(
        "Scale of the TVD in the loss; released: half, as in the authors' code.", "mean"
    )
    divergence: Literal["forward", "reversed"] = setting(
        "Direction of the divergence; forward: KL(α ‖ α_base).", "forward"
    )
    limit: float = setting("Largest mean TVD that the area under the curve covers.", 0.1)
    patience: int = setting(
        "Stop an adversary after this many epochs without a better dev loss.", 10
    )
    epochs: int = setting(
        "Largest number of epochs of an adversary; default: training.epochs, if given.", 200
    )
    seed: int = setting("Seed of the intervals; default: --seed.", 0)

    def __post_init__(self) -> None:
        if not self.strengths or min(self.strengths) < 0:
            raise InputError(
                "study",
                "setting adversary.strengths (λ)",
                str(list(self.strengths)),
                "one or more numbers from 0 up",
            )
        check_least(self, seeds=1, controls=0, patience=1, epochs=1)
        if not 0 < self.limit <= 1:
            raise InputError(
                "study", "setting adversary.limit", str(self.limit), "a distance above 0, up to 1"
            )

    def plan(self, base: RunSpec, corpus: Corpus) -> Sequence[Training]:
        learned_attention(self.name, base)
        one_attention(self.name, base)
        first = usual(base, base.seed)
        controls = [usual(base, base.seed + k) for k in range(1, self.controls + 1)]
        adversaries = [
            self.against(first, base, strength, base.seed + k)
            for k in range(1, self.seeds + 1)
            for strength in self.strengths
        ]
        return [first, *controls, evenly(base, base.seed), *adversaries]

    def against(self, first: Training, base: RunSpec, strength: float, seed: int) -> Training:
        """A model trained against the training ``first``."""
        from attnaudit.training.settings import Adversary as Objective

        objective = Objective(strength, self.scaling, self.divergence)
        spec = without_scores(seeded(base, seed))
        training = replace(spec.training, epochs=self.epochs, patience=self.patience, select="loss")
        variant = "-".join(
            name for name in (self.scaling, self.divergence) if name in ("released", "reversed")
        )
        identity = TrainingId("adversary", seed, variant, strength)
        return Training(identity, replace(spec, training=training, objective=objective), first)

    def __call__(self, traces: Mapping[TrainingId, Trace]) -> pl.DataFrame:
        def place(training: TrainingId) -> tuple[int, int, int]:
            """The base first, which has the least seed of its role; then the controls, uniform attention, and the adversaries."""
            strength = 0 if training.strength is None else self.strengths.index(training.strength)
            return list(_KINDS).index(training.role), training.seed, strength

        ordered = {training: traces[training] for training in sorted(traces, key=place)}
        same_instances(ordered)
        (_, base), *others = ordered.items()
        models = [
            _compared(base, trace, _KINDS[training.role], training.strength, training.seed)
            for training, trace in others
        ]
        return pl.concat([*models, *(_frozen(base, epsilon, self.seed) for epsilon in EPSILONS)])

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        rows: list[Mapping[str, Any]] = []
        curve = []
        for label, _, part in by_model(table, "kind"):
            rows += mean_rows(self.name, label, part, ("tvd", "jsd", "flipped"), self.seed)
            rows.append(f1_row(self.name, f"f1_{label}", part, self.seed))
            if label.startswith("adversary_"):
                values = by_seed(part, ("tvd", "jsd"))
                curve.append((values.mean(axis=(1, 2)), means_over_seeds(values, self.seed)))
        points = np.array([point for point, _ in curve])
        areas = np.array(
            [
                self.area(resampled)
                for resampled in np.array([one for _, one in curve]).swapaxes(0, 1)
            ]
        )
        rows.append(
            seeds_row(
                self.name,
                "area",
                np.array([self.area(points)]),
                areas,
                table["instance"].n_unique(),
            )
        )
        return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)

    def area(self, points: np.ndarray) -> float:
        """Of points (mean TVD, mean JSD): the largest JSD within each TVD, averaged over TVD from 0 to ``limit``, over ln 2."""
        reached, best, before = 0.0, 0.0, 0.0
        for moved, apart in points[np.argsort(points[:, 0], kind="stable")]:
            if moved >= self.limit:
                break
            reached += (moved - before) * best
            best, before = max(best, apart), moved
        return float((reached + (self.limit - before) * best) / (self.limit * LN2))


def _compared(
    base: Trace, other: Trace, kind: str, strength: float | None, seed: int
) -> pl.DataFrame:
    moved, apart = tvd(base.prediction, other.prediction), divergence(base.alpha, other.alpha)
    return _rows(base, kind, strength, seed, other.predicted, tvd=moved, jsd=apart)


def _frozen(base: Trace, epsilon: float, seed: int) -> pl.DataFrame:
    """Every instance's own adversary, the model as it is."""
    found = Adversary(epsilon=epsilon, seed=seed)(base)
    moved, apart = (found[name].fill_null(np.nan).to_numpy() for name in ("delta_y", "emax_jsd"))
    predicted = predicted_class(np.array(found["prediction"].to_list()))
    return _rows(base, "frozen", epsilon, seed, predicted, tvd=moved, jsd=apart)


def _rows(
    base: Trace, kind: str, strength: float | None, seed: int, predicted: Int[np.ndarray, " n"], **measured: np.ndarray
) -> pl.DataFrame:  # fmt: skip
    measured |= {
        "flipped": base.predicted != predicted,
        "label": base.array("label"),
        "predicted": predicted,
    }
    names = {
        "kind": pl.lit(kind),
        "strength": pl.lit(strength, dtype=pl.Float64),
        "seed": pl.lit(seed, dtype=pl.Int64),
    }
    return pl.DataFrame({"instance": base.instance, **measured}).select(
        *(value.alias(name) for name, value in names.items()), pl.all()
    )
