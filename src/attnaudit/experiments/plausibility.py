"""Do attention and importance scores find the tokens that are known to matter?

Source: ERASER, DeYoung et al. 2020. In planted corpora the rationale is the ground truth.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core.papers import DEYOUNG2020
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.rows import (
    against_heatmap,
    differences,
    judged_scores,
    make_table,
    over_words,
    summarise_measures,
)
from attnaudit.results import SIGNED, Measure
from attnaudit.stats.agreement import chance_rationale_agreement, rationale_agreement
from attnaudit.stats.kendall import kendall_tau
from attnaudit.trace import Trace


@dataclass(frozen=True)
class Plausibility:
    """Agreement of attention and every importance score with the rationale.

    The table has

    - ``precision_<score>``: share of rationale tokens among as many top-ranked tokens as the
      rationale has; ties count as their mean over orders;
    - ``auprc_<score>``: average precision of the whole ranking;
    - ``rationale_tau_<score>``: Kendall's tau-b of score and rationale, null if the score is
      constant; a random order has 0 on average;
    - ``precision_chance`` and ``auprc_chance``: means over random orders.

    All are null if the rationale is null, empty or the whole text.
    """

    name = "plausibility"
    of_scores = True
    needs = ("rationale",)
    reserved = ("attention", "gradient", "loo", "chance")
    papers = (DEYOUNG2020,)
    measures = (
        Measure(
            "precision_{score}_minus_precision_{score}",
            "precision, {score} minus {score}, paired",
            "How much higher the precision at the number of known tokens is by one ranking than by "
            "another.",
            "higher",
        ),
        Measure(
            "auprc_{score}_minus_auprc_{score}",
            "average precision, {score} minus {score}, paired",
            "How much higher the average precision is by one ranking than by another.",
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
            "Share of rationale tokens among as many top-ranked tokens as the rationale has, 0 to "
            "1.",
            "higher",
        ),
        Measure(
            "auprc_{score}",
            "average precision, {score}",
            "Average precision of the whole ranking in finding the rationale tokens, 0 to 1.",
            "higher",
        ),
        Measure(
            "rationale_tau_{score}_minus_rationale_tau_{score}",
            "τ with the known tokens, {score} minus {score}, paired",
            "How much higher Kendall τ-b with the rationale is of one score than of another.",
            "higher",
        ),
        Measure(
            "rationale_tau_{score}",
            "Kendall τ with the known tokens, {score}",
            "Kendall τ-b of the score and the rationale (1 for its tokens, 0 for others), −1 to 1; "
            "0 is chance.",
            "higher",
            range=SIGNED,
        ),
    )
    summarise = summarise_measures
    seed: int = 0

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        scores = over_words(trace, judged_scores(trace))
        # 1 for the tokens of a rationale. A row without one has only zeros, which leave every
        # measure undefined.
        rationale, known = trace.ragged("rationale"), np.zeros(trace.lengths.sum())
        every = Ragged.from_lengths(known, trace.lengths)
        rows = np.flatnonzero(rationale.lengths == trace.lengths)
        known[every.positions(rows)] = rationale.take(rows).values
        marks = over_words(trace, {"rationale": every})["rationale"]
        columns = dict[str, np.ndarray]()
        for name, score in scores.items():
            found = rationale_agreement(score, marks)
            columns[f"precision_{name}"], columns[f"auprc_{name}"] = found
            columns[f"rationale_tau_{name}"] = kendall_tau(score, marks).tau
        columns["precision_chance"], columns["auprc_chance"] = chance_rationale_agreement(marks)
        return make_table(trace, columns)

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """Select the measures of each row, with the heatmap's lead over every other score."""
        families = ("precision", "auprc", "rationale_tau")
        measures = table.select(cs.starts_with(*(f"{family}_" for family in families)))
        pairs = against_heatmap(measures.collect_schema().names(), families)
        return measures.with_columns(differences(*pairs))
