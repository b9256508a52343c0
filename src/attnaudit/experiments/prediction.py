"""How good is the model that is being explained?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from attnaudit.core.papers import JAIN2019, Paper
from attnaudit.experiments.rows import keys, vector_column
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.stats.classification import classification_scores
from attnaudit.stats.measures import predicted_class
from attnaudit.trace import Trace


@dataclass(frozen=True)
class Prediction:
    """Accuracy, F1 (class 1 of two, else the mean over classes) and ROC-AUC (one against the rest, mean) with bootstrap intervals.

    ``majority`` beside them is the share of the most frequent label: how often a model is right that always says the same.

    The table has ``label`` (class number), ``correct``, ``probability`` of the predicted class and ``probabilities``. Rows without a
    label are left out of the figures and counted as undefined.
    """

    name: ClassVar[str] = "prediction"
    needs: ClassVar[tuple[str, ...]] = ("label",)
    paper: ClassVar[Paper] = JAIN2019
    seed: int = 0

    def refuses(self, trace: Trace) -> str | None:
        return "every gold token is of one class: what a translation is worth is told by BLEU" if trace.task == "translation" else None

    def __call__(self, trace: Trace) -> pl.DataFrame:
        probabilities, predicted = trace.prediction, trace.predicted
        chosen = probabilities.max(axis=1)
        if probabilities.shape[1] == 1:
            chosen = np.where(predicted == 1, chosen, 1.0 - chosen)
        label = pl.Series("label", trace.array("label"), dtype=pl.Int32).replace(-1, None)
        return keys(trace).with_columns(
            label,
            (label == pl.Series(predicted)).alias("correct"),
            pl.Series("probability", chosen),
            vector_column("probabilities", probabilities),
        )

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        rows = table.lazy().select("label", "probabilities").collect()
        labelled = rows.filter(pl.col("label").is_not_null())
        classes = int(rows["probabilities"].list.len()[0])
        probabilities = labelled["probabilities"].explode().to_numpy().reshape(-1, classes)
        scores = classification_scores(labelled["label"].to_numpy(), predicted_class(probabilities), probabilities, seed=self.seed)
        figures = {"accuracy": scores.accuracy, "f1": scores.f1, "roc_auc": scores.roc_auc}
        summary = [
            {
                "experiment": self.name, "measure": measure, "group": "all", "value": value, "low": scores.low[k], "high": scores.high[k],
                "n": len(labelled), "undefined": len(rows) - len(labelled),
            }
            for k, (measure, value) in enumerate(figures.items())
        ]  # fmt: skip
        majority = float(np.bincount(labelled["label"].to_numpy()).max()) / len(labelled) if len(labelled) else None
        summary.append({**summary[0], "measure": "majority", "value": majority, "low": None, "high": None})
        return pl.DataFrame(summary, schema=SUMMARY_SCHEMA).with_columns(pl.col("value", "low", "high").fill_nan(None))
