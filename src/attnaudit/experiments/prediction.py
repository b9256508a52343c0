"""How good is the model that is being explained?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core.papers import JAIN2019
from attnaudit.experiments.rows import keys, vector_column
from attnaudit.results import SUMMARY_SCHEMA, of_large, summary_row
from attnaudit.results.groups import by_group, numbers_of, pieces_of, text_of
from attnaudit.results.measures import CHANCE, Measure
from attnaudit.results.table import with_method
from attnaudit.stats.classification import classification_scores
from attnaudit.stats.counted_scores import CountedScores
from attnaudit.stats.inference import share_interval
from attnaudit.stats.measures import predicted_class
from attnaudit.stats.sums import METHOD, GroupedSums
from attnaudit.trace import Trace

MOST_SCORED = 1000  # outputs: corpora have fewer classes, vocabularies have more tokens


@dataclass(frozen=True)
class Prediction:
    """Accuracy, F1 and ROC-AUC of the model, with intervals.

    F1 is that of class 1 of two, else the mean over classes; ROC-AUC is the mean of one class
    against the rest. ``majority`` is the share of the most frequent label, the accuracy of always
    predicting that class. ``roc_auc_chance`` is the ROC-AUC of scores independent of the label,
    0.5; it is undefined if some row allows only some of the classes, whose scores of 0 depend on
    the label.

    The table has ``label`` (class number), ``correct``, ``probability`` of the predicted class and
    ``probabilities``. Rows without a label are excluded from the scores and counted as undefined.
    Heads of one query share a prediction, which counts once. With more than `MOST_SCORED` outputs,
    those of a vocabulary, there are only accuracy and ``majority``, and no ``probabilities``.
    """

    name = "prediction"
    needs = ("label",)
    papers = (JAIN2019,)
    measures = (
        Measure(
            "accuracy",
            "accuracy",
            "Share of labelled instances whose predicted class is the label.",
        ),
        Measure(
            "f1",
            "F1 (class 1 of two, else mean over classes)",
            "Harmonic mean of precision and recall.",
        ),
        Measure(
            "roc_auc",
            "area under the ROC curve",
            "Area under the ROC curve, one class against the rest, mean over classes.",
        ),
        Measure(
            "roc_auc_chance",
            "area under the ROC curve of random scores",
            "Area under the ROC curve of scores that are independent of the label; undefined where "
            "a row allows only some classes.",
        ),
        Measure(
            "majority",
            "accuracy of always predicting the most frequent label",
            "Share of the most frequent label.",
        ),
    )
    seed: int = 0

    def refuses(self, trace: Trace) -> str | None:
        """Return the reason why a trace cannot be used, or None."""
        if trace.task == "translation":
            return "every gold token is of one class: BLEU measures the quality of translations"
        return None

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        probabilities, predicted = trace.prediction, trace.predicted
        chosen = probabilities.max(axis=1)
        if probabilities.shape[1] == 1:  # the probability of class 1
            chosen = np.where(predicted == 1, chosen, 1.0 - chosen)
        label = pl.Series("label", trace.array("label"), dtype=pl.Int32).replace(-1, None)
        table = keys(trace).with_columns(
            label,
            (label == pl.Series(predicted)).alias("correct"),
            pl.Series("probability", chosen),
        )
        if probabilities.shape[1] > MOST_SCORED:
            return table
        return table.with_columns(vector_column("probabilities", probabilities))

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        """Summarise the table with intervals."""
        groups = by_group(table, lambda rows: rows, ("probabilities",))
        if groups.is_large and not groups.several:
            return of_large(self._streamed(groups.table))
        rows = _one_of_each(table.lazy())
        several = "query" in rows.columns
        labelled = rows.filter(pl.col("label").is_not_null())
        known, missing = len(labelled), len(rows) - len(labelled)
        majority = float(np.bincount(labelled["label"].to_numpy()).max()) / known if known else None
        scored = {
            name: value
            for name, *value in (
                self._scores(labelled) if "probabilities" in rows.columns else self._share(labelled)
            )
        }
        counts = {
            "n": known,
            "undefined": missing,
            "texts": _texts(labelled).n_unique() if several else None,
        }
        names = ("accuracy", "f1", "roc_auc", "roc_auc_chance")
        summary = [
            summary_row(self.name, name, *scored.get(name, [None]), **counts) for name in names
        ]
        summary.append(summary_row(self.name, "majority", majority, **counts))
        return pl.DataFrame(summary, schema=SUMMARY_SCHEMA)

    def _streamed(self, table: pl.LazyFrame) -> list[dict[str, Any]]:
        """Summarise a large table in two passes; few labelled rows are scored at once."""
        counted, labels, allowed, total, sums = None, np.zeros(0), True, 0, GroupedSums.of(1)
        for rows, label, probabilities in _labelled_pieces(table):
            total += rows.height
            labels = _added(labels, np.bincount(label))
            known = rows.drop_nulls("label")
            sums.add(numbers_of(known.select("correct")), known["instance"].to_numpy())
            if probabilities is not None:
                counted = counted or CountedScores.of(probabilities.shape[1])
                counted.add(
                    label,
                    predicted_class(probabilities),
                    probabilities,
                    known["instance"].to_numpy(),
                )
                allowed = allowed and (probabilities.shape[1] == 1 or bool(probabilities.all()))
        n = int(labels.sum())
        scored: dict[str, list[Any]] = {"majority": [float(labels.max()) / n if n else None]}
        method = sums.method(0)
        if counted is not None and method == METHOD:
            self._rank(table, counted)
            ends = zip(*counted.intervals(self.seed), strict=True)
            scored |= {
                name: [getattr(counted, name), *pair]
                for name, pair in zip(("f1", "roc_auc"), ends, strict=True)
            }
        elif counted is not None:
            scored |= {
                name: value
                for name, *value in self._scores(
                    _one_of_each(table.filter(pl.col("label").is_not_null()))
                )
            }
        scored["accuracy"] = [sums.value(0), *sums.share_interval(0)] if n else [None]
        scored["roc_auc_chance"] = [CHANCE if counted is not None and allowed else None]
        names = ("accuracy", "f1", "roc_auc", "roc_auc_chance", "majority")
        found = [
            (
                name,
                summary_row(self.name, name, *scored.get(name, [None]), n=n, undefined=total - n),
            )
            for name in names
        ]
        return [with_method(row, method, is_share=name == "accuracy") for name, row in found]

    @staticmethod
    def _rank(table: pl.LazyFrame, counted: CountedScores) -> None:
        for rows, label, probabilities in _labelled_pieces(table):
            if probabilities is not None:
                counted.add_ranks(
                    label, probabilities, rows.drop_nulls("label")["instance"].to_numpy()
                )

    def _scores(
        self, rows: pl.DataFrame
    ) -> Iterator[tuple[str, float | None, float | None, float | None]]:
        """Yield the names of all scores with their values and intervals."""
        if not len(rows):
            return
        probabilities = rows["probabilities"].explode().to_numpy().reshape(len(rows), -1)
        label, of = (
            rows["label"].to_numpy(),
            _texts(rows).to_numpy() if "query" in rows.columns else None,
        )
        predicted = predicted_class(probabilities)
        scores = classification_scores(label, predicted, probabilities, seed=self.seed, cluster=of)
        correct = (predicted == label).astype(np.float64)
        yield (
            "accuracy",
            scores.accuracy,
            *share_interval(correct, np.arange(len(rows)) if of is None else of),
        )
        for k, name in enumerate(("f1", "roc_auc"), start=1):
            yield name, getattr(scores, name), scores.low[k], scores.high[k]
        if probabilities.shape[1] == 1 or probabilities.all():  # 0: a class that is not allowed
            yield "roc_auc_chance", CHANCE, None, None

    def _share(
        self, rows: pl.DataFrame
    ) -> Iterator[tuple[str, float | None, float | None, float | None]]:
        """Accuracy, with its interval."""
        correct, of = rows["correct"].cast(pl.Float64).to_numpy(), _texts(rows).to_numpy()
        if len(rows):
            yield "accuracy", float(correct.mean()), *share_interval(correct, of)

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """Select accuracy: is the row predicted correctly?"""
        return table.select(accuracy="correct")


def _labelled_pieces(
    table: pl.LazyFrame,
) -> Iterator[tuple[pl.DataFrame, np.ndarray, np.ndarray | None]]:
    """All rows, piece by piece, with the labels of those that have one, and their probabilities."""
    for rows in pieces_of(table):
        known = rows.drop_nulls("label")
        listed = "probabilities" in rows.columns and known.height > 0
        yield (
            rows,
            known["label"].to_numpy(),
            known["probabilities"].explode().to_numpy().reshape(known.height, -1)
            if listed
            else None,
        )


def _added(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Add two counts of different length."""
    found = np.zeros(max(len(one), len(other)))
    found[: len(one)] += one
    found[: len(other)] += other
    return found


def _texts(rows: pl.DataFrame) -> pl.Series:
    """Which text each row is of."""
    return rows.select(text_of(rows.columns).alias("text")).to_series()


def _one_of_each(table: pl.LazyFrame) -> pl.DataFrame:
    """Select the scored columns, one row per prediction: heads of one query share theirs."""
    columns = table.collect_schema().names()
    named = [name for name in ("split", "instance", "query") if name in columns]
    rows = table.select(
        name for name in (*named, "label", "correct", "probabilities") if name in columns
    )
    several = "layer" in columns or "head" in columns
    return (
        rows.unique(subset=named, keep="first", maintain_order=True) if several else rows
    ).collect()
