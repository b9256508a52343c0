"""How well models predict: accuracy, F1 and ROC-AUC over seeds and instances, and what one has over another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from attnaudit.errors import InputError
from attnaudit.experiments.rows import vector_column
from attnaudit.measures import predicted_class
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.stats.bootstrap import percentile_interval
from attnaudit.stats.classification import resampled_over_seeds
from attnaudit.trace import Trace

FIGURES = ("accuracy", "f1", "roc_auc")


def predictions(model: str, seed: int, trace: Trace) -> pl.DataFrame:
    """A row per instance: ``model``, ``seed``, ``instance``, ``label``, ``probabilities``."""
    columns = [pl.Series("instance", trace.instance), pl.Series("label", trace.array("label"), dtype=pl.Int32)]
    probabilities = vector_column("probabilities", trace.prediction)
    return pl.DataFrame([*columns, probabilities]).select(pl.lit(model).alias("model"), pl.lit(seed).alias("seed"), pl.all())


def compare_models(experiment: str, table: pl.DataFrame, against: str, seed: int) -> pl.DataFrame:
    """Figures of every model, ``<figure>_<model>``, and ``difference_<figure>_<model>``: that of the model less that of ``against``.

    ``std`` is over seeds, the interval over seeds and instances, drawn together and alike for all models; ``n`` counts instances.
    """
    models = table["model"].unique(maintain_order=True).to_list()
    label, score = _stacked(table, models)
    predicted = predicted_class(score.reshape(-1, score.shape[-1])).reshape(score.shape[:-1])
    values, resampled = resampled_over_seeds(label, predicted, score, seed=seed)
    reference, rows = models.index(against), []
    for k, figure in enumerate(FIGURES):
        for m, model in enumerate(models):
            rows.append(_row(experiment, f"{figure}_{model}", values[m, :, k], resampled[m, :, k], len(label)))
            if m != reference:
                gap = values[m, :, k] - values[reference, :, k], resampled[m, :, k] - resampled[reference, :, k]
                rows.append(_row(experiment, f"difference_{figure}_{model}", *gap, len(label)))
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def _stacked(table: pl.DataFrame, models: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Labels (n,) and probabilities (M, S, n, K). Raises InputError where models have not the same seeds and instances."""
    seeds = {model: table.filter(pl.col("model") == model)["seed"].unique().sort().to_list() for model in models}
    if len({tuple(one) for one in seeds.values()}) > 1:
        raise InputError("compare models", "seeds", str(seeds), "the same seeds of every model")
    ordered = [
        table.filter((pl.col("model") == model) & (pl.col("seed") == seed)).sort("instance") for model in models for seed in seeds[model]
    ]
    first = ordered[0].select("instance", "label")
    if not all(first.equals(other.select("instance", "label")) for other in ordered):
        raise InputError("compare models", "traces", "of different instances", "traces of the same test split")
    score = np.array([np.array(one["probabilities"].to_list()) for one in ordered])
    return first["label"].to_numpy().astype(np.int64), score.reshape(len(models), -1, *score.shape[1:])


def _row(experiment: str, measure: str, over_seeds: np.ndarray, resampled: np.ndarray, n: int) -> Mapping[str, Any]:
    low, high = percentile_interval(resampled[:, None])
    numbers = {"value": over_seeds.mean(), "std": over_seeds.std(), "low": low[0], "high": high[0]}
    known = {name: None if np.isnan(number) else float(number) for name, number in numbers.items()}
    return {
        "experiment": experiment,
        "measure": measure,
        "group": "all",
        **known,
        "n": n,
        "undefined": 0,
        "reference": None,
        "source": None,
    }
