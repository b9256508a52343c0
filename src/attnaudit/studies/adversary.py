"""Can another attention reach the same predictions? (Wiegreffe & Pinter 2019, §5)."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import polars as pl

from attnaudit.core.papers import WIEGREFFE2019
from attnaudit.core.settings import setting
from attnaudit.corpora.corpus import Corpus
from attnaudit.experiments.adversary.experiment import Adversary, divergence
from attnaudit.experiments.prediction import Prediction
from attnaudit.experiments.rows import vector_column
from attnaudit.plans.spec import RunSpec
from attnaudit.plans.training import Training, seeded, usual
from attnaudit.results import Measure
from attnaudit.stats.bootstrap import means_over_seeds
from attnaudit.stats.measures import LN2, predicted_class, tvd
from attnaudit.studies.over_seeds import SummaryRows, by_model, by_seed, means, scores, seeds_row
from attnaudit.studies.study import (
    Study,
    Traces,
    labelled,
    same_instances,
    stack,
    trace_rows,
    without_scores,
)
from attnaudit.studies.uniform import evenly
from attnaudit.training.settings import Adversary as Objective
from attnaudit.training.settings import TrainingSettings

KINDS = {"base": "seed", "uniform": "uniform", "adversary": "adversary"}  # by role of the training
EPSILONS = (0.005, 0.01, 0.02, 0.05, 0.1)


@dataclass(frozen=True)
class ModelAdversary(Study):
    """Train one model for all instances to predict as the base does and attend elsewhere.

    For each λ the loss is ``mean TVD(ŷ, ŷ_base) − λ · mean KL(α ‖ α_base)``, without labels. The
    trained models are compared with ``controls``, which differ from the base in the seed only, with
    uniform attention, and with adversaries of single instances on the frozen base.

    The table has a row per model and instance: ``kind`` (adversary, seed, uniform, frozen),
    ``strength`` (λ, or the ε of frozen), ``seed``, ``tvd`` of the prediction and ``jsd`` of the
    attention to the base's, whether the decision ``flipped``, ``label``, ``predicted`` class and
    ``probabilities``.
    The summary has the means of the first three, F1, and the ``area`` under the curve of JSD within
    TVD.
    """

    name = "adversary"
    question = "Can attention be moved?"
    paper = WIEGREFFE2019
    measures = (
        Measure(
            "tvd",
            "mean TVD of the output",
            "Total variation distance of the output from the base's, 0 to 1.",
        ),
        Measure(
            "jsd",
            "mean JSD of attention",
            "Jensen-Shannon divergence of the attention from the base's, at most ln 2.",
        ),
        Measure(
            "flipped",
            "share of flipped decisions",
            "Share of texts whose predicted class is not the base's.",
        ),
        Prediction.measures[1],
        Measure(
            "area",
            "area under the curve of JSD within TVD",
            "Largest mean JSD within each mean TVD up to the limit, as a share of the largest "
            "possible area.",
        ),
    )
    quick: ClassVar = {"strengths": (1e-3, 1e-2), "controls": 1, "epochs": 30, "patience": 5}
    strengths: tuple[float, ...] = setting(
        "Weights λ of the divergence; one adversary for each.", (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
    )
    seeds: int = setting("Number of trainings (seeds) of each adversary.", 1, least=1)
    controls: int = setting(
        "Number of models that differ from the base model only in the seed.", 2, least=0
    )
    limit: float = setting(
        "Largest mean TVD that the area under the curve covers.", 0.1, above=0, most=1
    )
    patience: int = setting(
        "Stop an adversary after this many epochs without a better dev loss.", 10, least=1
    )
    epochs: int = setting(
        "Largest number of epochs of an adversary; default: training.epochs, if given.",
        200,
        least=1,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_strengths(self.strengths)

    def trainings(self, base: RunSpec, corpus: Corpus) -> list[Training]:
        """Train the base, its controls, a uniform model, and an adversary for each λ and seed."""
        self.check_model(base.model)
        first, *controls = (usual(base, base.seed + k) for k in range(self.controls + 1))
        adversaries = (
            self.against(first, seeded(base, base.seed + k), strength)
            for k in range(1, self.seeds + 1)
            for strength in self.strengths
        )
        return [first, *controls, evenly(seeded(base, base.seed)), *adversaries]

    @classmethod
    def as_long_as(cls, training: TrainingSettings) -> Self:
        """Return the study whose adversaries train as long as other models do."""
        return cls(epochs=training.epochs, patience=training.patience or cls.patience)

    def against(self, first: Training, spec: RunSpec, strength: float) -> Training:
        """Return the training of a model against another.

        Args:
            first: Training of the other model.
            spec: Spec of the model, with its own seed.
            strength: λ.
        """
        training = replace(spec.training, epochs=self.epochs, patience=self.patience, select="loss")
        spec = replace(without_scores(spec), training=training, objective=Objective(strength))
        return Training.of("adversary", spec, strength=strength, teacher=first)

    def __call__(self, traces: Traces) -> pl.DataFrame:
        """Compare every model with the base, row by row."""
        ordered = {one: traces[one] for one in self.ordered(traces)}
        same_instances(ordered)
        (_, base), *others = ordered.items()

        def compare(prediction, change, jsd, **labels):
            predicted = predicted_class(prediction)
            rows = trace_rows(
                base,
                tvd=change,
                jsd=jsd,
                flipped=predicted != base.predicted,
                label=base.array("label"),
                predicted=predicted,
                probabilities=vector_column("probabilities", prediction),
            )
            return labelled(rows, **labels)

        models = [
            compare(
                trace.prediction,
                tvd(base.prediction, trace.prediction),
                divergence(base.alpha, trace.alpha),
                kind=KINDS[one.role],
                strength=one.strength,
                seed=one.seed,
            )
            for one, trace in others
        ]
        for epsilon in EPSILONS:
            # Every instance has an adversary of its own, on the base as it is.
            found = Adversary(epsilon=epsilon, seed=self.seed)(base)
            prediction = np.array(found["prediction"].to_list())
            labels = {"kind": "frozen", "strength": epsilon, "seed": self.seed}
            models.append(compare(prediction, found["delta_y"], found["emax_jsd"], **labels))
        return stack(models)

    def summary_rows(self, table: pl.DataFrame) -> SummaryRows:
        """Average over seeds and instances."""
        curve, areas = [], []
        for label, part in by_model(table, "kind"):
            columns = {f"{name}_{label}": name for name in ("tvd", "jsd", "flipped")}
            yield from means(self, part, columns)
            yield from scores(self, part.with_columns(model=pl.lit(label)), names=("f1",))
            if label.startswith("adversary_"):
                values = by_seed(part, ("tvd", "jsd"))
                curve.append(values.mean(axis=(1, 2)))
                areas.append(means_over_seeds(values, self.seed))
        resampled = [self.area(points) for points in np.swapaxes(areas, 0, 1)]
        area = np.array([self.area(np.array(curve))])
        yield seeds_row(self, "area", area, np.array(resampled), table["instance"].n_unique())

    def area(self, points: np.ndarray) -> float:
        """Compute the area under the curve of JSD within TVD, as a share of what there could be.

        Args:
            points: Mean TVD and mean JSD of each model, ``(m, 2)``.

        Returns:
            The largest JSD within each TVD, averaged over TVD from 0 to ``limit``, over ln 2.
        """
        points = points[np.argsort(points[:, 0], kind="stable")]
        moved = np.append(np.minimum(points[:, 0], self.limit), self.limit)
        reached = np.diff(moved) @ np.maximum.accumulate(points[:, 1])
        return float(reached / (self.limit * LN2))
