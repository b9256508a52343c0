"""How good is the model that is being explained?"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Int

from attnaudit.core.papers import JAIN2019
from attnaudit.experiments.rows import keys, vector_column
from attnaudit.results import SUMMARY_SCHEMA, Measure, summary_row, text_number
from attnaudit.results.groups import LARGE, numbers_of
from attnaudit.stats.bootstrap import Units
from attnaudit.stats.classification import ScoreSums
from attnaudit.stats.sums import UnitSums
from attnaudit.trace import Trace

# Corpora have fewer classes than this, vocabularies have more tokens.
MOST_SCORED = 1000


@dataclass(frozen=True)
class Prediction:
    """Accuracy, F1 and ROC-AUC of the model, with intervals.

    With two classes F1 is for class 1, as in the papers; otherwise it is the mean over classes.
    ``f1_macro`` is always that mean. ROC-AUC is the mean over classes, each against the rest.
    ``majority`` is the share of the most frequent label: the accuracy of always predicting it.

    The table has ``label`` (class number), ``correct``, ``probability`` of the predicted class and
    ``probabilities``. Rows without a label are excluded from the scores and counted as undefined.
    Heads of one query share a prediction, which counts once. With more than `MOST_SCORED` outputs,
    as for a vocabulary, there are only accuracy and ``majority``, and no ``probabilities``.
    """

    name = "prediction"
    of_scores = True
    of_model = True
    needs = ("label",)
    papers = (JAIN2019,)
    measures = (
        Measure(
            "accuracy",
            "accuracy",
            "Share of labelled texts whose predicted class is the label.",
        ),
        Measure(
            "f1",
            "F1",
            "Harmonic mean of precision and recall, of class 1 of two, else the mean over classes.",
        ),
        Measure(
            "f1_macro",
            "macro F1",
            "Harmonic mean of precision and recall of each class, mean over the classes.",
        ),
        Measure(
            "roc_auc",
            "ROC-AUC",
            "Area under the ROC curve, one class against the rest, mean over classes.",
        ),
        Measure(
            "majority",
            "accuracy of always predicting the most frequent label",
            "Share of the most frequent label.",
        ),
    )
    seed: int = 0

    def refuses(self, trace: Trace) -> str | None:
        """Explain why the experiment does not apply to a trace; None if it does."""
        if trace.task == "translation":
            return "BLEU measures the quality of translations"
        return None

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        probabilities, predicted = trace.prediction, trace.predicted
        chosen = probabilities.max(axis=1)
        if probabilities.shape[1] == 1:
            # A single sigmoid output is the probability of class 1.
            chosen = np.where(predicted == 1, chosen, 1.0 - chosen)
        # Arrays have no null: -1 stands for a row without a label.
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
        rows = _one_of_each(table.lazy())
        columns, known = rows.collect_schema().names(), rows.drop_nulls("label")
        facts = known.select("label", "correct", text=text_number(columns)).collect()
        label, n = facts["label"].to_numpy(), facts.height
        units = Units.of_texts(facts["text"].to_numpy())
        figures: dict[str, tuple[float | None, ...]] = {}
        if n:
            sums = UnitSums(units, 1)
            sums.add(numbers_of(facts.select("correct")))
            figures["accuracy"] = sums.mean(0), *sums.share_interval(0)
            figures["majority"] = (float(np.bincount(label).max()) / n,)
        if n and "probabilities" in columns:
            figures |= self._scores(known, label, units)
        counts = {
            "n": n,
            "undefined": rows.select(pl.len()).collect().item() - n,
            "texts": units.texts if "query" in columns else None,
        }
        summary = [
            summary_row(self.name, one.name, *figures.get(one.name, (None,)), **counts)
            for one in self.measures
        ]
        return pl.DataFrame(summary, schema=SUMMARY_SCHEMA)

    def _scores(
        self, rows: pl.LazyFrame, label: Int[np.ndarray, " n"], units: Units
    ) -> dict[str, tuple[float, ...]]:
        """Score rows with a label."""
        # One class is read at a time, so memory does not grow with the number of classes.
        listed = pl.col("probabilities")

        def read(column):
            return rows.select(column).collect(engine="streaming").to_series().to_numpy()

        outputs = int(rows.select(listed.list.len().first()).collect().item())
        predicted = listed.list.get(0) >= 0.5 if outputs == 1 else listed.list.arg_max()
        sums = ScoreSums(
            label,
            read(predicted.cast(pl.Int32)),
            lambda k: read(listed.list.get(min(k, outputs - 1))),
            outputs,
            units,
        )
        found = sums.intervals(self.seed)
        return {
            name: tuple(getattr(part, name) for part in found)
            for name in ("f1", "f1_macro", "roc_auc")
        }

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """Select the accuracy of each row."""
        return table.select(accuracy="correct")


def _one_of_each(table: pl.LazyFrame) -> pl.LazyFrame:
    """Select the scored columns, one row per query: its heads and layers share a prediction."""
    columns = table.collect_schema().names()
    named = [name for name in ("split", "instance", "query") if name in columns]
    scored = [name for name in (*named, "label", "correct", "probabilities") if name in columns]
    rows = table.select(scored)
    if "layer" in columns or "head" in columns:
        rows = rows.unique(subset=named, keep="first", maintain_order=True).collect().lazy()
    small = rows.select(pl.len()).collect().item() < LARGE
    # A small table is read several times, so it stays in memory.
    return rows.collect().lazy() if small else rows
