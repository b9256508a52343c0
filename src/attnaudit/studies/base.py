"""Test whether the models of a study beat a baseline that learns nothing."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from attnaudit.plans.training import TrainingId
from attnaudit.results import summary_row
from attnaudit.stats.bleu import bleu, bleu_counts, bleu_of_others, bleu_over_seeds
from attnaudit.stats.inference import share_interval
from attnaudit.stats.measures import predicted_class
from attnaudit.studies.over_seeds import predictions, scores, seeds_row
from attnaudit.studies.study import Study
from attnaudit.trace import Trace

PREFERRED = "bilstm"  # of the models of `Deceive`: the one that its card tells of


def base_rows(study: Study, traces: Any) -> list[Mapping[str, Any]]:
    """Score a study's base models and baselines; without a base there are no rows.

    Classifiers have accuracy, and ROC-AUC if all classes are allowed in every row; translators have
    BLEU. The most frequent token is no baseline for translators, since the tokens before a gold
    token say much about it without the source. Baselines have no interval.

    Args:
        study: The study.
        traces: Its traces by training.
    """
    models = base_models(study.name, traces)
    if not models:
        return []
    if traces[models[0]].has("gold"):
        return list(_translated(study, [traces.translations(one) for one in models]))
    return list(_classified(study, {one.seed: traces[one] for one in models}))


def base_models(study: str, trainings: Iterable[TrainingId]) -> list[TrainingId]:
    """Choose the ordinary models of a study: those of its least λ, and of one variant.

    Of `ModelAdversary`, whose other bases are controls, only the first is chosen.
    """
    known = [
        one
        for one in trainings
        if one.role in ("base", "watched", "deceive") and one.variant != "uniform" and not one.part
    ]
    known.sort(
        key=lambda one: (one.strength or 0.0, one.variant != PREFERRED, one.variant, one.seed)
    )
    chosen = [
        one for one in known if (one.strength, one.variant) == (known[0].strength, known[0].variant)
    ]
    return chosen[:1] if study == "adversary" else chosen


def _classified(study: Study, traces: Mapping[int, Trace]) -> Iterator[Mapping[str, Any]]:
    rows = pl.concat(predictions("base", seed, trace) for seed, trace in traces.items())
    rows = rows.filter(pl.col("label") >= 0)
    if rows.is_empty():
        return
    label, n = rows["label"], rows["instance"].n_unique()
    accuracy, roc_auc = scores(study, rows, names=("accuracy", "roc_auc"))
    right = predicted_class(np.array(rows["probabilities"].to_list())) == label.to_numpy()
    ends = share_interval(right.astype(np.float64), rows["instance"].to_numpy())
    # Without an error all resamples are 1, so the interval reaches at least as far as Wilson's.
    low, high = min(accuracy["low"], ends[0]), max(accuracy["high"], ends[1])
    yield {**accuracy, "measure": "base_accuracy", "low": low, "high": high}
    majority = label.value_counts(sort=True)["count"][0] / len(label)
    yield summary_row(study.name, "base_majority", majority, n=n)
    # With candidates a row allows only some of the classes.
    if not any(trace.has("candidates") for trace in traces.values()):
        yield {**roc_auc, "measure": "base_roc_auc"}


def _translated(study: Study, written: list[list[dict[str, Any]]]) -> Iterator[Mapping[str, Any]]:
    columns = [
        tuple([row[name] for row in rows] for name in ("translation", "reference"))
        for rows in written
    ]
    counts = np.stack([bleu_counts(*pair) for pair in columns])
    n = counts.shape[1]
    yield seeds_row(study, "base_bleu", *bleu_over_seeds(counts, study.seed), n)
    sources = [row["source"] for row in written[0]]
    copied = bleu(bleu_counts(sources, columns[0][1]).sum(axis=0))
    yield summary_row(study.name, "base_bleu_copy", copied, n=n)
    others = [value for pair in columns if (value := bleu_of_others(*pair)) is not None]
    mean = float(np.mean(others)) if others else None
    yield summary_row(study.name, "base_bleu_other", mean, n=n)
