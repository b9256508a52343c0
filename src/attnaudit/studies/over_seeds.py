"""What studies share: figures of several models over seeds and instances, their differences, and what models and figures are called."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.numbers import count
from attnaudit.experiments.rows import vector_column
from attnaudit.plans.training import Study, strength_text
from attnaudit.results import SUMMARY_SCHEMA, summary_row
from attnaudit.results.measures import Measure
from attnaudit.stats.bootstrap import means_over_seeds, percentile_interval
from attnaudit.stats.classification import scores_over_seeds
from attnaudit.stats.inference import unseen_interval
from attnaudit.stats.measures import predicted_class
from attnaudit.trace import Trace

PLACE = ("instance", "query")  # columns that say of what a row is
FIGURES = ("accuracy", "f1", "roc_auc")
SHARES = ("accuracy", "correct")  # columns in which a row is 1 where a prediction is right
ROUNDING = 1e-12  # an interval that is no wider is a point
_MODELS = {
    "base": "base model's attention", "uniform": "uniform attention", "learned": "learned with the model",
    "gradient": "the base's gradients", "adversary": "an adversary's attention", "rationale": "the rationale", "seed": "another seed",
}  # fmt: skip


def compared(reference: str) -> tuple[Measure, ...]:
    """What `compare_models` gives; ``reference`` names the score that differences are from: ``the base model's``."""
    return (
        Measure(
            "difference_accuracy",
            f"accuracy, minus {reference}",
            f"Accuracy minus {reference}, paired by instance.",
        ),
        Measure(
            "difference_f1", f"F1, minus {reference}", f"F1 minus {reference}, paired by instance."
        ),
        Measure(
            "difference_roc_auc",
            f"ROC-AUC, minus {reference}",
            f"ROC-AUC minus {reference}, paired by instance.",
        ),
        Measure("accuracy", "accuracy", "Share of instances whose predicted class is the label."),
        Measure(
            "f1",
            "F1",
            "Harmonic mean of precision and recall, of class 1 of two, else the mean over classes.",
        ),
        Measure(
            "roc_auc",
            "ROC-AUC",
            "Area under the ROC curve, one class against the rest, mean over classes.",
        ),
    )


def check_names(study: Study, setting: str, known: Collection[str]) -> None:
    """Raise InputError where a setting names what is not ``known``."""
    for name in getattr(study, setting) or ():
        if name not in known:
            expected = f"some of {', '.join(known)}"
            raise InputError(
                "study",
                f"setting {study.name}.{setting}",
                repr(name),
                expected,
                did_you_mean(name, known),
            )


def placed(trace: Trace) -> pl.DataFrame:
    """The instance of every row, and in a translation which of its gold tokens (``query``)."""
    return pl.DataFrame(
        {name: trace.array(name).astype(np.int64) for name in PLACE if trace.has(name)}
    )


def predictions(model: str, seed: int, trace: Trace) -> pl.DataFrame:
    """A row per instance: ``model``, ``seed``, ``instance``, ``label``, ``probabilities``."""
    columns = [
        pl.Series("instance", trace.instance),
        pl.Series("label", trace.array("label"), dtype=pl.Int32),
    ]
    probabilities = vector_column("probabilities", trace.prediction)
    return pl.DataFrame([*columns, probabilities]).select(
        pl.lit(model).alias("model"), pl.lit(seed).alias("seed"), pl.all()
    )


def compare_models(experiment: str, table: pl.DataFrame, against: str, seed: int) -> pl.DataFrame:
    """Figures of every model, ``<figure>_<model>``, and ``difference_<figure>_<model>``: that of the model less that of ``against``.

    ``std`` is over seeds, the interval over seeds and instances, drawn together and alike for all models; ``n`` counts instances. Where no
    resample differs, as of models without an error, it is that of `unseen_interval`: F1 and ROC-AUC at the size of the rarest class.
    """
    models = table["model"].unique(maintain_order=True).to_list()
    label, score = _stacked(table, models)
    predicted = predicted_class(score.reshape(-1, score.shape[-1])).reshape(score.shape[:-1])
    values, resampled = scores_over_seeds(label, predicted, score, seed)
    reference, rows = models.index(against), []
    rarest = int(np.unique(label[label >= 0], return_counts=True)[1].min(initial=len(label)))
    for k, figure in enumerate(FIGURES):
        counted = len(label) if figure == "accuracy" else rarest
        for m, model in enumerate(models):
            own = seeds_row(
                experiment, f"{figure}_{model}", values[m, :, k], resampled[:, m, k], len(label)
            )
            rows.append(_of_a_point(own, counted))
            if m != reference:
                gap = (
                    values[m, :, k] - values[reference, :, k],
                    resampled[:, m, k] - resampled[:, reference, k],
                )
                row = seeds_row(experiment, f"difference_{figure}_{model}", *gap, len(label))
                rows.append(_of_a_point(row, counted, least=-1.0))
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def f1_row(experiment: str, measure: str, table: pl.DataFrame, seed: int) -> dict[str, Any]:
    """F1 over seeds and instances of one model, of a table with ``label`` and ``predicted`` for each of both."""
    label, predicted = by_seed(table, ("label", "predicted")).astype(np.int64)
    classes = 1 + max(label.max(initial=1), predicted.max(initial=1))
    values, resampled = scores_over_seeds(
        label[0], predicted[None], np.eye(classes)[predicted][None], seed
    )
    row = seeds_row(
        experiment,
        measure,
        values[0, :, FIGURES.index("f1")],
        resampled[:, 0, FIGURES.index("f1")],
        label.shape[1],
    )
    return _of_a_point(
        row, int(np.unique(label[0], return_counts=True)[1].min(initial=label.shape[1]))
    )


def _of_a_point(row: dict[str, Any], n: int, least: float = 0.0) -> dict[str, Any]:
    """The row of a score from ``least`` to 1, with the interval of n alike instances where its own is a point."""
    if row["low"] is None or row["high"] - row["low"] > ROUNDING:
        return row
    low, high = unseen_interval(row["value"], n, least)
    return row | {"low": low, "high": high}


def mean_rows(
    experiment: str, label: str, table: pl.DataFrame, columns: Sequence[str], seed: int
) -> list[Mapping[str, Any]]:
    """`means` of ``columns``, called ``<column>_<label>``."""
    return means(experiment, table, {f"{column}_{label}": column for column in columns}, seed)


def means(
    experiment: str, table: pl.DataFrame, measures: Mapping[str, str], seed: int, group: str = "all"
) -> list[Mapping[str, Any]]:
    """Means over seeds and instances of columns of ``table``, which has a row for each of both, under the names of ``measures``.

    NaN is excluded and counted; no rows of a table without any. Of `SHARES` of which no resample differs, as of models without an error,
    the interval is that of `unseen_interval`.
    """
    if table.is_empty():
        return []
    values, rows = by_seed(table, list(measures.values())), []
    resampled = means_over_seeds(values, seed)
    for k, (measure, column) in enumerate(measures.items()):
        undefined = int(np.isnan(values[k]).any(axis=0).sum())
        known = values.shape[2] - undefined
        row = seeds_row(
            experiment, measure, defined_mean(values[k]), resampled[:, k], known, undefined, group
        )
        rows.append(_of_a_point(row, known) if column in SHARES else row)
    return rows


def by_model(
    table: pl.DataFrame, model: str = "model"
) -> Iterator[tuple[str, float | None, pl.DataFrame]]:
    """``<model>_<λ>``, λ and rows of every model of a table with columns ``model`` and ``strength``, in its order."""
    for (name, strength), part in table.group_by(model, "strength", maintain_order=True):
        yield (
            str(name) if strength is None else f"{name}_{strength_text(float(strength))}",
            strength,
            part,
        )


def by_seed(table: pl.DataFrame, measures: Sequence[str]) -> Float[np.ndarray, "M S n"]:
    """The measures of a table with a row per seed and instance; null is NaN."""
    parts = [
        part for _, part in table.sort("seed", "instance").group_by("seed", maintain_order=True)
    ]
    values = [
        part.select(pl.col(measures).cast(pl.Float64).fill_null(np.nan)).to_numpy().T
        for part in parts
    ]
    return np.moveaxis(np.array(values), 1, 0)


def defined_mean(values: Float[np.ndarray, "S n"]) -> Float[np.ndarray, " S"]:
    """The mean of what is defined in every row, NaN where nothing is."""
    known = ~np.isnan(values)
    return np.where(known, values, 0.0).sum(axis=1) / np.where(
        known.any(axis=1), known.sum(axis=1), np.nan
    )


def _stacked(table: pl.DataFrame, models: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Labels (n,) and probabilities (M, S, n, K). Raises InputError where models have not the same seeds and instances."""
    seeds = {model: table.filter(model=model)["seed"].unique().sort().to_list() for model in models}
    if len({tuple(one) for one in seeds.values()}) > 1:
        raise InputError("compare models", "seeds", str(seeds), "the same seeds of every model")
    ordered = [
        table.filter(model=model, seed=seed).sort("instance")
        for model in models
        for seed in seeds[model]
    ]
    first = ordered[0].select("instance", "label")
    if not all(first.equals(other.select("instance", "label")) for other in ordered):
        raise InputError(
            "compare models", "traces", "of different instances", "traces of the same test split"
        )
    score = np.array([np.array(one["probabilities"].to_list()) for one in ordered])
    return first["label"].to_numpy().astype(np.int64), score.reshape(
        len(models), -1, *score.shape[1:]
    )


def seeds_row(
    experiment: str,
    measure: str,
    over_seeds: np.ndarray,
    resampled: np.ndarray,
    n: int,
    undefined: int = 0,
    group: str = "all",
) -> dict[str, Any]:
    """The summary row of a figure over seeds: its mean and spread, and the interval of its resampled values; n counts instances."""
    low, high = percentile_interval(resampled[:, None])
    std = over_seeds.std() if len(over_seeds) > 1 else None
    return summary_row(
        experiment,
        measure,
        over_seeds.mean(),
        low[0],
        high[0],
        n=n,
        undefined=undefined,
        std=std,
        group=group,
    )


def figure_and_model(measure: str, known: Iterable[Measure]) -> tuple[str, str]:
    """``f1_base`` is F1 of the base, where F1 is ``known``; a measure that is of no model, such as the area, has an empty one."""
    figure = max(
        (one.name for one in known if measure.startswith(f"{one.name}_")), key=len, default=None
    )
    return (measure, "") if figure is None else (figure, measure.removeprefix(f"{figure}_"))


def model_label(model: str) -> str:
    """``bilstm_0.1``: ``bilstm, λ = 0.1``; ``frozen_0.01``: each instance separately within an ε; ``seed``: another seed."""
    strong, given = re.fullmatch(r"(.+)_(\d[\d.e+-]*)", model), re.fullmatch(r"trace(\d+)", model)
    if layer := re.fullmatch(r"uniform_layer(\d+)", model):
        return f"uniform attention in layer {layer[1]}"
    if strong:
        return (
            f"each instance separately, ε = {strong[2]}"
            if strong[1] == "frozen"
            else f"{strong[1]}, λ = {strong[2]}"
        )
    return (
        f"trace {given[1]} that was given"
        if given
        else _MODELS.get(model, model.replace("_removed", ", tokens removed"))
    )


def of_models(summary: pl.DataFrame, figure: str, known: Iterable[Measure]) -> pl.DataFrame:
    """{name, value, low, high} of every model that has the ``figure``, one of the ``known``."""
    measured = summary.filter(pl.col("value").is_not_null())
    found = [
        (figure_and_model(row["measure"], known), row) for row in measured.iter_rows(named=True)
    ]
    rows = [
        (model_label(model), row["value"], row["low"], row["high"])
        for (name, model), row in found
        if name == figure
    ]
    return pl.DataFrame(
        rows,
        schema={"name": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64},
        orient="row",
    )


def seeds_of_models(table: pl.DataFrame) -> tuple[int, int]:
    """How many seeds a model of a study's table has, the fewest and the most."""
    models = [name for name in ("model", "kind", "strength") if name in table.columns]
    seeds = table.group_by(models).agg(pl.col("seed").n_unique())["seed"].to_list()
    return min(seeds), max(seeds)


def seeds_and_spread(table: pl.DataFrame) -> str:
    """How many seeds each model of a study has, and what the intervals are over."""
    _, seeds = seeds_of_models(table)
    spread = (
        "intervals over instances alone"
        if seeds == 1
        else "means over seeds, intervals over seeds and instances"
    )
    return f"{count(seeds, 'seed')}: {spread}"
