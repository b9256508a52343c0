"""Can the model be had with another attention? Trained to predict as the base does, and to attend elsewhere (Wiegreffe & Pinter 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import polars as pl

from attnaudit.errors import InputError
from attnaudit.experiments.adversary import Adversary, divergence
from attnaudit.measures import LN2, predicted_class, tvd
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.stats.bootstrap import means_over_seeds, percentile_interval
from attnaudit.studies.plan import Training, seeded, usual, without_scores
from attnaudit.studies.uniform import evenly
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.runner.spec import RunSpec

PATIENCE, MOST_EPOCHS = 10, 200
EPSILONS = (0.005, 0.01, 0.02, 0.05, 0.1)


@dataclass(frozen=True)
class ModelAdversary:
    """One model for all instances, for each λ of ``strengths``: ``mean TVD(ŷ, ŷ_base) − λ · mean KL(α ‖ α_base)``, without labels.

    Trained until ``PATIENCE`` epochs give no better loss on dev, with ``seeds`` seeds each. ``scaling`` and ``divergence`` are those of
    `attnaudit.objectives.Adversary`. Beside them stand ``controls`` models that differ from the base in the seed alone, one with even
    attention, and the adversaries found for each instance by itself on the frozen base, at the `EPSILONS`.

    The table has a row per model and instance: ``kind`` (adversary, seed, uniform, frozen), ``strength`` (λ, or ε of the frozen), ``seed``,
    ``tvd`` of the prediction and ``jsd`` of the attention to the base's, ``flipped`` where the decision is another. The summary has their
    means, and ``area``: that under the curve of the largest mean JSD within a mean TVD, up to ``limit``, as a share of what there could be.
    """

    name: ClassVar[str] = "adversary"
    paper: ClassVar[str] = "wiegreffe2019"
    strengths: tuple[float, ...] = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
    seeds: int = 1
    controls: int = 2
    scaling: Literal["mean", "released"] = "mean"
    divergence: Literal["forward", "reversed"] = "forward"
    limit: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.strengths or min(self.strengths) < 0:
            raise InputError("study", "setting adversary.strengths (λ)", str(list(self.strengths)), "one or more numbers from 0 up")
        for name, least in (("seeds", 1), ("controls", 0)):
            if getattr(self, name) < least:
                raise InputError("study", f"setting adversary.{name}", str(getattr(self, name)), f"{least} or more")
        if not 0 < self.limit <= 1:
            raise InputError("study", "setting adversary.limit", str(self.limit), "a distance above 0, up to 1")

    def plan(self, base: RunSpec, corpus: Corpus) -> Sequence[Training]:
        first = usual(base, base.seed)
        controls = [usual(base, base.seed + k) for k in range(1, self.controls + 1)]
        adversaries = [
            against(first, base, strength, base.seed + k, self.scaling, self.divergence)
            for k in range(1, self.seeds + 1)
            for strength in self.strengths
        ]
        return [first, *controls, evenly(base, base.seed), *adversaries]

    def __call__(self, traces: Mapping[str, Trace]) -> pl.DataFrame:
        (_, base), *others = traces.items()
        models = [_beside(base, trace, *_kind(name)) for name, trace in others]
        return pl.concat([*models, *(_frozen(base, epsilon, self.seed) for epsilon in EPSILONS)])

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        rows: list[dict[str, Any]] = []
        curve = []
        for (kind, strength), part in table.group_by("kind", "strength", maintain_order=True):
            values = np.array([_measures(one) for _, one in part.sort("seed", "instance").group_by("seed", maintain_order=True)])
            values = np.moveaxis(values, 1, 0)
            resampled = means_over_seeds(values, seed=self.seed)
            label = str(kind) if strength is None else f"{kind}_{strength:g}"
            for k, measure in enumerate(("tvd", "jsd", "flipped")):
                rows.append(_row(f"{measure}_{label}", values[k].mean(axis=1), resampled[k], values.shape[2]))
            if kind == "adversary":
                curve.append((values[:2].mean(axis=(1, 2)), resampled[:2]))
        points = np.array([point for point, _ in curve])
        areas = np.array([self.area(resampled) for resampled in np.moveaxis(np.array([one for _, one in curve]), 2, 0)])
        rows.append(_row("area", np.array([self.area(points)]), areas, table["instance"].n_unique()))
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


def against(
    first: Training, base: RunSpec, strength: float, seed: int, scaling: Literal["mean", "released"] = "mean",
    divergence: Literal["forward", "reversed"] = "forward",
) -> Training:  # fmt: skip
    """A model trained against the training ``first``."""
    from attnaudit.objectives import Adversary as Objective

    objective = Objective(strength, scaling, divergence)
    spec = without_scores(seeded(base, seed))
    training = replace(spec.training, epochs=MOST_EPOCHS, patience=PATIENCE, select="loss")
    marks = ("released-" if scaling == "released" else "") + ("reversed-" if divergence == "reversed" else "")
    return Training(f"adversary-{marks}{strength:g}-s{seed}", replace(spec, training=training, objective=objective), first)


def _kind(name: str) -> tuple[str, float | None, int]:
    """What a training's name says: kind, λ, seed."""
    model, _, seed = name.rpartition("-s")
    if model.startswith("adversary-"):
        return "adversary", float(model.removeprefix("adversary-").removeprefix("released-").removeprefix("reversed-")), int(seed)
    return ("seed" if model == "base" else model), None, int(seed)


def _beside(base: Trace, other: Trace, kind: str, strength: float | None, seed: int) -> pl.DataFrame:
    flipped = base.predicted != other.predicted
    return _rows(base, kind, strength, seed, tvd(base.prediction, other.prediction), divergence(base.alpha, other.alpha), flipped)


def _frozen(base: Trace, epsilon: float, seed: int) -> pl.DataFrame:
    """Every instance's own adversary, the model as it is."""
    found = Adversary(epsilon=epsilon, seed=seed)(base)
    moved, apart = (found[name].fill_null(np.nan).to_numpy() for name in ("delta_y", "emax_jsd"))
    flipped = predicted_class(np.array(found["prediction"].to_list())) != base.predicted
    return _rows(base, "frozen", epsilon, seed, moved, apart, flipped)


def _rows(
    base: Trace, kind: str, strength: float | None, seed: int, moved: np.ndarray, apart: np.ndarray, flipped: np.ndarray
) -> pl.DataFrame:
    return pl.DataFrame({
        "kind": [kind] * len(base), "strength": pl.Series([strength] * len(base), dtype=pl.Float64), "seed": [seed] * len(base),
        "instance": base.instance, "tvd": moved, "jsd": apart, "flipped": flipped,
    })  # fmt: skip


def _measures(rows: pl.DataFrame) -> np.ndarray:
    return rows.select("tvd", "jsd", pl.col("flipped").cast(pl.Float64)).to_numpy().T


def _row(measure: str, over_seeds: np.ndarray, resampled: np.ndarray, n: int) -> dict[str, Any]:
    low, high = percentile_interval(resampled[:, None])
    return {
        "experiment": "adversary", "measure": measure, "group": "all", "value": float(over_seeds.mean()), "std": float(over_seeds.std()),
        "low": float(low[0]), "high": float(high[0]), "n": n, "undefined": 0, "reference": None, "source": None,
    }  # fmt: skip
