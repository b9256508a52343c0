"""Do measures of importance agree with each other?

Sources: Neely et al. 2021, Krishna et al. 2024.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from attnaudit.core.papers import KRISHNA2024, NEELY2021
from attnaudit.experiments.rows import (
    judged_scores,
    make_table,
    of_one_head,
    over_words,
    summarise_measures,
)
from attnaudit.results import SIGNED, Measure
from attnaudit.stats.agreement import chance_agreement, top_overlaps
from attnaudit.stats.kendall import kendall_tau
from attnaudit.trace import Trace

# Per cent of the tokens, rounded up to a whole token.
TOP = 25
# With fewer columns ``importance_<name>``, `correlation` already compares what a trace has.
FEWEST = 2
AND = "_and_"


@dataclass(frozen=True)
class Agreement:
    """Agreement of every two measures of importance.

    The measures are attention, gradient, leave-one-out and every ``importance_<name>`` of the
    trace, over the tokens that are not special. The table has

    - ``tau_<a>_and_<b>``: Kendall's tau-b, null if one of the two is constant or T < 2;
    - ``precision_<a>_and_<b>``: share of the top ⌈T/4⌉ tokens by one that are among the top ⌈T/4⌉
      by the other (feature agreement, Krishna et al.), null if T < 2; ties count as their mean
      over orders;
    - ``precision_by_chance``: its mean over random orders.
    """

    name = "agreement"
    of_scores = True
    needs = ()
    scope = "traces with several importance scores"
    reserved = ("attention", "gradient", "loo")
    papers = (KRISHNA2024, NEELY2021)
    measures = (
        Measure(
            "tau_{score}_and_{score}",
            "Kendall τ, {score} – {score}",
            "Kendall τ-b of two measures of importance over the tokens of a text, −1 to 1.",
            range=SIGNED,
        ),
        Measure(
            "precision_{score}_and_{score}",
            "share of the top quarter in common, {score} – {score}",
            "Share of the top ⌈T/4⌉ tokens by one measure of importance that are among the top "
            "⌈T/4⌉ by the other, 0 to 1.",
        ),
        Measure(
            "precision_by_chance",
            "share of the top quarter in common, random order",
            "Share of the top ⌈T/4⌉ tokens that a random order of the tokens has in common with "
            "another, on average.",
        ),
    )
    seed = 0  # no setting, so specifications of runs made before this experiment stay valid

    def refuses(self, trace: Trace) -> str | None:
        """Explain why the experiment does not apply to a trace; None if it does."""
        names = [name for name in trace.table.columns if name.startswith("importance_")]
        if len(names) < FEWEST:
            return f"for {self.scope} only, {FEWEST} columns importance_<name> or more"
        joined = ", ".join(name for name in names if AND in name.removeprefix("importance"))
        reason = (
            f"the name of column {joined} has {AND} in it, which joins the names of two measures"
        )
        return reason if joined else None

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        scores = over_words(trace, judged_scores(trace))
        pairs, lengths = list(combinations(scores, 2)), next(iter(scores.values())).lengths
        overlaps = top_overlaps(list(scores.values()), TOP)
        columns = {f"tau_{a}{AND}{b}": kendall_tau(scores[a], scores[b]).tau for a, b in pairs}
        columns |= {
            f"precision_{a}{AND}{b}": overlap
            for (a, b), overlap in zip(pairs, overlaps, strict=True)
        }
        columns["precision_by_chance"] = np.where(
            lengths < 2, np.nan, chance_agreement(lengths, TOP)
        )
        return make_table(trace, columns)

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        """Summarise the table with intervals."""
        of_head = pl.col("measure").str.contains(f"_attention{AND}", literal=True)
        return of_one_head(summarise_measures(self, table), of_head)

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """Select the measures of each row."""
        return table.select(pl.col("^(tau|precision)_.*$"))
