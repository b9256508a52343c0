"""Do the scores find the tokens known to matter? (ERASER: DeYoung et al. 2020; in planted corpora the rationale is the truth)"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core.papers import DEYOUNG2020
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.rows import (
    against_attention,
    differences,
    importance_scores,
    keys,
    over_words,
    taken_names,
)
from attnaudit.results import summarise_means
from attnaudit.results.groups import by_group
from attnaudit.results.measures import Measure
from attnaudit.stats.agreement import chance_rationale_agreement, rationale_agreement
from attnaudit.stats.kendall import kendall_tau
from attnaudit.trace import Trace


@dataclass(frozen=True)
class Plausibility:
    """Agreement of attention, gradient, leave-one-out and every ``importance_<name>`` with the rationale.

    ``precision_<score>`` is the share of rationale tokens among as many top-ranked tokens as the rationale has, ties in expectation;
    ``auprc_<score>`` the average precision of the whole ranking; ``precision_chance`` and ``auprc_chance`` are what a random order reaches
    on average. ``rationale_tau_<score>`` is Kendall's tau-b of the score and the rationale, 0 for a random order on average, and null where
    the score is constant. All are null where the rationale is null, empty or the whole text.
    """

    name = "plausibility"
    needs = ("rationale",)
    papers = (DEYOUNG2020,)
    measures = (
        Measure(
            "precision_attention_minus_precision_{score}",
            "precision, attention minus {score}, paired",
            "How much higher the precision at the number of known tokens is by attention than by another ranking.",
            "higher",
        ),
        Measure(
            "auprc_attention_minus_auprc_{score}",
            "average precision, attention minus {score}, paired",
            "How much higher the average precision is by attention than by another ranking.",
            "higher",
        ),
        Measure(
            "precision_chance",
            "precision of a random order (share of known tokens)",
            "Precision of a random order, on average.",
        ),
        Measure(
            "auprc_chance",
            "average precision of a random order",
            "Average precision that a random order reaches on average.",
        ),
        Measure(
            "precision_{score}",
            "precision at the number of known tokens, {score}",
            "Share of rationale tokens among as many top-ranked tokens as the rationale has, 0 to 1.",
            "higher",
        ),
        Measure(
            "auprc_{score}",
            "average precision, {score}",
            "Average precision of the whole ranking in finding the rationale tokens, 0 to 1.",
            "higher",
        ),
        Measure(
            "rationale_tau_attention_minus_rationale_tau_{score}",
            "τ with the known tokens, attention minus {score}, paired",
            "How much higher Kendall τ-b with the rationale is of attention than of another score.",
            "higher",
        ),
        Measure(
            "rationale_tau_{score}",
            "Kendall τ with the known tokens, {score}",
            "Kendall τ-b of the score and the rationale (1 for its tokens, 0 for others), −1 to 1; 0 is chance.",
            "higher",
        ),
    )
    seed: int = 0

    def refuses(self, trace: Trace) -> str | None:
        return taken_names(
            trace, ("attention", "gradient", "loo", "chance"), "a score of every trace"
        )

    def __call__(self, trace: Trace) -> pl.DataFrame:
        columns = dict[str, np.ndarray]()
        scores = over_words(trace, {"attention": trace.alpha, **importance_scores(trace)})
        rationale = _known(trace)
        marks = _marks(rationale, scores["attention"])
        for name, score in scores.items():
            columns[f"precision_{name}"], columns[f"auprc_{name}"] = rationale_agreement(
                score, rationale
            )
            columns[f"rationale_tau_{name}"], _ = kendall_tau(score, marks)
        columns["precision_chance"], columns["auprc_chance"] = chance_rationale_agreement(
            rationale, scores["attention"].lengths
        )
        return keys(trace).with_columns(
            pl.Series(name, values, nan_to_null=True) for name, values in columns.items()
        )

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        return summarise_means(self.name, by_group(table, self.of_rows), self.seed)

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """What the table has, and how far attention is ahead of every other score."""
        found = table.select(cs.starts_with("precision_", "auprc_", "rationale_tau_"))
        return found.with_columns(
            differences(
                *against_attention(
                    found.collect_schema().names(), ("precision", "auprc", "rationale_tau")
                )
            )
        )


def _known(trace: Trace) -> Ragged:
    """Rationales, of the tokens that are not special; a row without one stays empty."""
    rationale, lengths = trace.ragged("rationale"), trace.alpha.lengths
    known = rationale.lengths == lengths
    words = (
        ~trace.ragged("special").values.astype(bool)
        if trace.has("special")
        else np.ones(lengths.sum(), bool)
    )
    return rationale.where(words[trace.alpha.positions(np.flatnonzero(known))])


def _marks(rationale: Ragged, score: Ragged) -> Ragged:
    """1 at the tokens of the rationale and 0 at the others; 0 everywhere where it is unknown."""
    marks, known = np.zeros(len(score.values)), np.flatnonzero(rationale.lengths == score.lengths)
    marks[score.positions(known)] = rationale.take(known).values
    return score.with_values(marks)
