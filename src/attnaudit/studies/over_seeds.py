"""How well models predict: accuracy, F1 and ROC-AUC over seeds and instances, and what one has over another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core.errors import InputError
from attnaudit.experiments.rows import vector_column
from attnaudit.results import SUMMARY_SCHEMA, summary_row
from attnaudit.stats.bootstrap import means_over_seeds, percentile_interval
from attnaudit.stats.classification import resampled_over_seeds
from attnaudit.stats.measures import predicted_class
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
            rows.append(seeds_row(experiment, f"{figure}_{model}", values[m, :, k], resampled[m, :, k], len(label)))
            if m != reference:
                gap = values[m, :, k] - values[reference, :, k], resampled[m, :, k] - resampled[reference, :, k]
                rows.append(seeds_row(experiment, f"difference_{figure}_{model}", *gap, len(label)))
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def mean_rows(experiment: str, label: str, table: pl.DataFrame, measures: Sequence[str], seed: int) -> list[Mapping[str, Any]]:
    """``<measure>_<label>``: means over seeds and instances of ``table``, which has a row for each of both; NaN is excluded and counted."""
    return means(experiment, table, {f"{measure}_{label}": measure for measure in measures}, seed)


def means(experiment: str, table: pl.DataFrame, measures: Mapping[str, str], seed: int, group: str = "all") -> list[Mapping[str, Any]]:
    """The same under names of their own, each the mean of a column; none of a table without rows."""
    if table.is_empty():
        return []
    values, rows = by_seed(table, list(measures.values())), []
    resampled = means_over_seeds(values, seed=seed)
    for k, measure in enumerate(measures):
        undefined = int(np.isnan(values[k]).any(axis=0).sum())
        known = values.shape[2] - undefined
        rows.append(seeds_row(experiment, measure, defined_mean(values[k]), resampled[k], known, undefined, group))
    return rows


def by_seed(table: pl.DataFrame, measures: Sequence[str]) -> Float[np.ndarray, "M S n"]:
    """The measures of a table with a row per seed and instance; null is NaN."""
    parts = [part for _, part in table.sort("seed", "instance").group_by("seed", maintain_order=True)]
    values = [part.select(pl.col(measures).cast(pl.Float64).fill_null(np.nan)).to_numpy().T for part in parts]
    return np.moveaxis(np.array(values), 1, 0)


def defined_mean(values: Float[np.ndarray, "S n"]) -> Float[np.ndarray, " S"]:
    """The mean of what is defined in every row, NaN where nothing is."""
    known = ~np.isnan(values)
    return np.where(known, values, 0.0).sum(axis=1) / np.where(known.any(axis=1), known.sum(axis=1), np.nan)


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


def seeds_row(
    experiment: str, measure: str, over_seeds: np.ndarray, resampled: np.ndarray, n: int, undefined: int = 0, group: str = "all"
) -> dict[str, Any]:
    """The summary row of a figure over seeds: its mean and spread, and the interval of its resampled values; n counts instances."""
    low, high = percentile_interval(resampled[:, None])
    std = over_seeds.std() if len(over_seeds) > 1 else None
    return summary_row(experiment, measure, over_seeds.mean(), low[0], high[0], n=n, undefined=undefined, std=std, group=group)
