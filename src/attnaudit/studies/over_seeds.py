"""Summaries of models that were trained with several seeds: means, scores, and their intervals.

Resamples draw seeds and instances together, alike for all measures and models of a study, so that
the difference of two models is paired.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core import InputError
from attnaudit.experiments.prediction import Prediction
from attnaudit.experiments.rows import vector_column
from attnaudit.plans.training import TrainingId, strength_text
from attnaudit.results import Measure, summary_row
from attnaudit.stats.bootstrap import means_over_seeds, percentile_interval, ratio
from attnaudit.stats.classification import Scores, scores_over_seeds
from attnaudit.stats.crossed import crossed_mean
from attnaudit.stats.inference import unseen_interval
from attnaudit.stats.measures import predicted_class
from attnaudit.studies.study import Study, Traces, labelled
from attnaudit.trace import Trace

SummaryRows = Iterator[dict[str, Any]]
SCORES = Scores._fields
SHARES = ("accuracy", "correct")  # columns that are 1 where a prediction is right
ROUNDING = 1e-12  # intervals up to this width are points


class ScoredModels(Study):
    """A study of the accuracy, F1 and ROC-AUC of models.

    The table has a row per model, seed and instance with the ``label`` and the ``probabilities``.
    The summary has the scores of each model, ``<score>_<model>``, and their paired differences from
    those of the model ``against``, ``difference_<score>_<model>``.
    """

    against = "base"

    def rows(self, training: TrainingId, traces: Traces) -> pl.DataFrame:
        """Collect the predictions of one model."""
        model = "_".join(filter(None, (training.role, training.variant)))
        return predictions(model, training.seed, traces[training])

    def summary_rows(self, table: pl.DataFrame) -> SummaryRows:
        """Score every model, and compare it with ``against``."""
        return scores(self, table, self.against)


def score_measures(reference: str) -> tuple[Measure, ...]:
    """Describe the measures of `scores`; ``reference`` has the scores that are subtracted."""
    score = Prediction.measures[:4]
    differences = (
        Measure(
            f"difference_{one.name}",
            f"{one.label}, minus {reference}",
            f"{one.label[0].upper()}{one.label[1:]} minus {reference}, paired by text.",
        )
        for one in score
    )
    return (*differences, *score)


def predictions(model: str, seed: int, trace: Trace) -> pl.DataFrame:
    """Tabulate ``model``, ``seed``, ``instance``, ``label`` and ``probabilities``."""
    rows = pl.DataFrame(
        [
            pl.Series("instance", trace.instance),
            pl.Series("label", trace.array("label"), dtype=pl.Int32),
            vector_column("probabilities", trace.prediction),
        ]
    )
    # Every head of a model has a row with the same prediction.
    return labelled(rows.unique("instance", maintain_order=True), model=model, seed=seed)


def scores(
    study: Study, table: pl.DataFrame, against: str = "", names: Sequence[str] = SCORES
) -> SummaryRows:
    """Score models over seeds and instances.

    If no resample differs, as for a model without an error, the interval is `unseen_interval`'s;
    for F1 and ROC-AUC with the number of instances of the rarest class.

    Args:
        study: Study that the rows belong to.
        table: Rows of `predictions`.
        against: Model whose scores are subtracted from those of the others; none by default.
        names: Scores to report.

    Raises:
        InputError: Models differ in their seeds or instances.
    """
    label, probability, models = _stacked(table)
    predicted = predicted_class(probability.reshape(-1, probability.shape[-1]))
    of_trainings, of_resamples = scores_over_seeds(
        label, predicted.reshape(probability.shape[:-1]), probability, study.seed
    )
    r = models.index(against) if against else -1
    rarest = int(np.unique(label[label >= 0], return_counts=True)[1].min(initial=len(label)))
    for name in names:
        k, alike = SCORES.index(name), len(label) if name == "accuracy" else rarest
        values, drawn = of_trainings[..., k], of_resamples[..., k]
        for m, model in enumerate(models):
            row = seeds_row(study, f"{name}_{model}", values[m], drawn[:, m], len(label))
            yield _no_point(row, alike)
            if r not in (-1, m):
                gaps = values[m] - values[r], drawn[:, m] - drawn[:, r]
                row = seeds_row(study, f"difference_{name}_{model}", *gaps, len(label))
                yield _no_point(row, alike, least=-1.0)


def _stacked(table: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return labels (n,), probabilities (M, S, n, K), and the models in the table's order."""
    models = table["model"].unique(maintain_order=True).to_list()
    shape = len(models), table["seed"].n_unique()
    instances = table.group_by("instance", "label").len()
    if not (instances["len"] == math.prod(shape)).all():
        expected = "the same seeds of every model, and traces of the same test split"
        raise InputError("compare models", "traces", "of different seeds or texts", expected)
    rows = table.sort(pl.col("model").cast(pl.Enum(models)), "seed", "instance")
    probability = np.array(rows["probabilities"].to_list()).reshape(*shape, len(instances), -1)
    return rows["label"].head(len(instances)).to_numpy().astype(np.int64), probability, models


def means(
    study: Study, table: pl.DataFrame, measures: Mapping[str, str], group: str = "all"
) -> SummaryRows:
    """Average columns over seeds and instances; NaN and null are excluded and counted.

    Args:
        study: Study that the rows belong to.
        table: A row per seed and instance; without any, there is no row in the summary.
        measures: Column of each measure.
        group: Group of the rows.
    """
    if table.is_empty():
        return
    values = by_seed(table, list(measures.values()))
    resampled = means_over_seeds(values, study.seed)
    for k, (measure, column) in enumerate(measures.items()):
        defined = ~np.isnan(values[k])
        each = ratio(np.nansum(values[k], axis=1), defined.sum(axis=1))
        n, rows = int(defined.all(axis=0).sum()), values.shape[2]
        row = seeds_row(study, measure, each, resampled[:, k], n, undefined=rows - n, group=group)
        yield _no_point(row, n) if column in SHARES else row


def by_seed(
    table: pl.DataFrame, columns: Sequence[str], axes: Sequence[str] = ("seed", "instance")
) -> Float[np.ndarray, "M S *K n"]:
    """Arrange columns of a table by ``axes``; null is NaN.

    Rows of one instance, as the gold tokens of a pair, are averaged.
    """
    rows = table.group_by(axes).agg(pl.col(columns).cast(pl.Float64).mean()).sort(axes)
    sizes = [table[axis].n_unique() for axis in axes[:-1]]
    values = rows.select(pl.col(columns).fill_null(np.nan)).to_numpy()
    return np.moveaxis(values.reshape(*sizes, -1, len(columns)), -1, 0)


def by_model(table: pl.DataFrame, model: str = "model") -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield ``<model>_<λ>``, or ``<model>`` without a λ, and the rows of every model."""
    for (name, strength), part in table.group_by(model, "strength", maintain_order=True):
        yield name if strength is None else f"{name}_{strength_text(strength)}", part


def seeds_row(
    study: Study,
    measure: str,
    values: Float[np.ndarray, " S"],
    resampled: Float[np.ndarray, " resamples"],
    n: int,
    **details: Any,
) -> dict[str, Any]:
    """Summarise a figure over seeds: mean, spread over seeds, and interval.

    Args:
        study: Study that the row belongs to.
        measure: Name of the measure.
        values: Value with each seed.
        resampled: Its mean in every resample.
        n: Number of instances.
        **details: Further fields of `summary_row`.
    """
    low, high = percentile_interval(resampled[:, None])
    std = values.std() if len(values) > 1 else None
    return summary_row(study.name, measure, values.mean(), low[0], high[0], n=n, std=std, **details)


def crossed_row(
    study: Study, measure: str, terms: Float[np.ndarray, "S n"], most: float = math.inf
) -> dict[str, Any]:
    """Summarise terms of seeds and texts: mean, spread over seeds, and t interval.

    Args:
        study: Study that the row belongs to.
        measure: Name of the measure.
        terms: Terms of `crossed_mean`.
        most: Largest distance of a term from the mean.
    """
    mean = crossed_mean(terms, most)
    std = mean_known(terms).std() if len(terms) > 1 else None
    n = int((~np.isnan(terms)).any(axis=0).sum())
    known = [one for one in study.measures if f"{measure}_".startswith(f"{one.name}_")]
    limits = max(known, key=lambda one: len(one.name)).range if known else None
    ends = np.clip([mean.low, mean.high], *(limits or (None, None)))
    return summary_row(study.name, measure, mean.value, *ends, n=n, std=std)


def mean_known(values: Float[np.ndarray, "*m n"]) -> Float[np.ndarray, "*m"]:
    """Average over texts without those that are NaN; NaN without any."""
    return ratio(np.nansum(values, axis=-1), np.isfinite(values).sum(axis=-1))


def _no_point(row: dict[str, Any], n: int, least: float = 0.0) -> dict[str, Any]:
    """Widen the interval of a score from ``least`` to 1 that is the same for n instances."""
    if row["low"] is None or row["high"] - row["low"] > ROUNDING:
        return row
    low, high = unseen_interval(row["value"], n, least)
    return row | {"low": low, "high": high}
