"""Whether the models that a study is about do better than a baseline that learns nothing, as rows of the study's summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from attnaudit.experiments.rows import is_correct
from attnaudit.plans.training import Study, TrainingId
from attnaudit.results import summary_row
from attnaudit.results.measures import CHANCE
from attnaudit.stats.bleu import bleu, bleu_counts, bleu_of_others, bleu_over_seeds
from attnaudit.stats.inference import share_interval
from attnaudit.studies.deceive import Written
from attnaudit.studies.over_seeds import compare_models, means, predictions, seeds_row
from attnaudit.trace import Trace

PREFERRED = "bilstm"  # of the models of `Deceive`: the one that its card tells of


def base_rows(study: Study, traces: Mapping[TrainingId, Trace]) -> list[Mapping[str, Any]]:
    """Rows of the scores of a study's base models and of the baselines of `YARDSTICKS`; none without a base.

    ``base_accuracy`` and ``base_majority``, for classes that are allowed in every row ``base_roc_auc`` and ``base_roc_auc_chance`` too; of
    translators ``base_bleu``, ``base_bleu_copy`` and ``base_bleu_other``: the most frequent token is no baseline for them, as the tokens
    before a gold token say much about it without the source.

    Means and intervals are over seeds and instances. The interval of accuracy reaches as far as Wilson's over instances, which `no_skill`
    asks of a run: without an error all resamples are 1. Baselines have no interval.
    """
    models = base_models(study.name, traces)
    if not models:
        return []
    if traces[models[0]].has("gold"):  # a translator's
        return _of_translations(study, traces, models) if isinstance(traces, Written) else []
    predicted = pl.concat([_predicted(training.seed, traces[training]) for training in models])
    return [
        *_accurate(study, predicted),
        *_ranked(study, {training.seed: traces[training] for training in models}),
    ]


def base_models(study: str, trainings: Iterable[TrainingId]) -> list[TrainingId]:
    """The ordinary models of a study: of `Deceive` those of the least λ, of `ModelAdversary`, whose other bases are controls, the first."""
    known = [
        one
        for one in trainings
        if one.role in ("base", "watched", "deceive") and one.variant != "uniform" and not one.part
    ]
    least = min((one.strength for one in known if one.strength is not None), default=None)
    known = sorted(
        (one for one in known if one.strength == least),
        key=lambda one: (one.variant != PREFERRED, one.seed),
    )
    chosen = [one for one in known if one.variant == known[0].variant]
    return chosen[:1] if study == "adversary" else chosen


def _accurate(study: Study, predicted: pl.DataFrame) -> Iterator[Mapping[str, Any]]:
    """Accuracy over seeds and instances, and that of the most frequent label; none without labels."""
    for row in means(study.name, predicted, {"base_accuracy": "correct"}, study.seed):
        low, high = share_interval(
            predicted["correct"].to_numpy(), predicted["instance"].to_numpy()
        )
        yield {**row, "low": min(row["low"], low), "high": max(row["high"], high)}
        yield summary_row(
            study.name, "base_majority", float(predicted["majority"].to_numpy().mean()), n=row["n"]
        )


def _ranked(study: Study, traces: Mapping[int, Trace]) -> list[Mapping[str, Any]]:
    """ROC-AUC of the models with these seeds and of random scores; none where a row allows only some of the classes."""
    if any(trace.has("candidates") for trace in traces.values()):
        return []
    rows = pl.concat(
        [
            predictions("base", seed, trace).unique("instance", maintain_order=True)
            for seed, trace in traces.items()
        ]
    )
    figures = compare_models(
        study.name, rows.filter(pl.col("label") >= 0), against="base", seed=study.seed
    )
    (row,) = (
        figures.filter(measure="roc_auc_base")
        .with_columns(measure=pl.lit("base_roc_auc"))
        .to_dicts()
    )
    return [row, summary_row(study.name, "base_roc_auc_chance", CHANCE, n=row["n"])]


def _predicted(seed: int, trace: Trace) -> pl.DataFrame:
    """{seed, instance, correct, majority} of every labelled instance, by the mean of its rows."""
    label = pl.Series(trace.array("label").astype(np.int64)).replace(-1, None)
    frequent = label.drop_nulls().value_counts(sort=True)[0, 0]
    rows = pl.DataFrame(
        {"instance": trace.instance, "correct": is_correct(trace), "majority": label == frequent}
    )
    labelled = rows.filter(label.is_not_null()).group_by("instance", maintain_order=True)
    return labelled.agg(pl.col("correct", "majority").cast(pl.Float64).mean()).with_columns(
        seed=pl.lit(seed, pl.Int64)
    )


def _of_translations(
    study: Study, traces: Written, models: Iterable[TrainingId]
) -> list[Mapping[str, Any]]:
    written = [traces.translations(training) for training in models]
    columns = [
        tuple([row[name] for row in rows] for name in ("translation", "reference"))
        for rows in written
    ]
    counts = np.stack([bleu_counts(*pair) for pair in columns])
    copied = bleu(bleu_counts([row["source"] for row in written[0]], columns[0][1]).sum(axis=0))
    over_seeds = bleu_over_seeds(counts, study.seed)
    n = counts.shape[1]
    others = [found for pair in columns if (found := bleu_of_others(*pair)) is not None]
    baselines = {
        "base_bleu_copy": copied,
        "base_bleu_other": float(np.mean(others)) if others else None,
    }
    rows = [summary_row(study.name, name, value, n=n) for name, value in baselines.items()]
    return [seeds_row(study.name, "base_bleu", *over_seeds, n), *rows]
