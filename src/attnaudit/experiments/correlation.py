"""Does attention rank tokens, and find them, as measures of their importance do?

Source: Jain & Wallace 2019, §4.1.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from attnaudit.core.papers import JAIN2019
from attnaudit.core.settings import Settings, setting
from attnaudit.experiments.rows import (
    attention_on,
    differences,
    importance_scores,
    make_table,
    of_one_head,
    over_words,
    summarise_measures,
)
from attnaudit.results import SIGNED, Measure
from attnaudit.stats.inference import benjamini_hochberg
from attnaudit.stats.kendall import kendall_tau
from attnaudit.trace import SHOWN, Trace

# Even two measures of importance agree only in part: their agreement is the reference.
YARDSTICK = "gradient_loo"


@dataclass(frozen=True)
class Correlation(Settings):
    """Kendall's tau-b of attention with every importance score of the trace.

    The scores are gradient, leave-one-out and every ``importance_<name>``, over the tokens that are
    not special. The table has ``tau_<name>`` and ``p_<name>``, null if an argument is constant or
    T < 2. ``tau_gradient_loo``, between two importance scores, is the reference for the others.
    ``attention_on_<name>`` is the mean share of a score at attended tokens: see `attention_on`.
    ``tau_shown_<name>`` and ``shown_on_<name>`` are the same of the heatmap shown.

    Attributes:
        significance: Largest p-value of a row that counts as significant.
    """

    name = "correlation"
    needs = ("gradient", "loo")
    reserved = ("gradient", "loo", YARDSTICK, "shown_gradient", "shown_loo")
    papers = (JAIN2019,)
    measures = (
        Measure(
            "shown_on_{score}",
            "heatmap shown on importance, {score}",
            "Mean, weighted by the heatmap shown, over the tokens of a text, of a token's "
            "share of the score (absolute values), less 1/T: 0 under equal weights, −0.5 to 1.",
            "higher",
            range=(-0.5, 1.0),
        ),
        Measure(
            "tau_gradient_loo_minus_tau_shown_{score}",
            "τ gradient – leave-one-out minus τ heatmap shown – {score}, paired",
            "How much better the two importance measures agree with each other than the heatmap "
            "shown agrees with one of them.",
            "lower",
        ),
        Measure(
            "tau_shown_{score}",
            "Kendall τ, heatmap shown – {score}",
            "Kendall τ-b of the heatmap shown and an importance score over the tokens of a "
            "text, −1 to 1.",
            "higher",
            range=SIGNED,
        ),
        Measure(
            "attention_on_{score}",
            "attention on importance, {score}",
            "Attention-weighted mean, over the tokens of a text, of a token's share of the "
            "score (absolute values), less 1/T: 0 under uniform attention, −0.5 to 1.",
            "higher",
            range=(-0.5, 1.0),
        ),
        Measure(
            "tau_gradient_loo_minus_tau_{score}",
            "τ gradient – leave-one-out minus τ attention – {score}, paired",
            "How much better the two importance measures agree with each other than attention "
            "agrees with one of them.",
            "lower",
        ),
        Measure(
            "tau_gradient_minus_tau_loo",
            "τ attention – gradient minus τ attention – leave-one-out, paired",
            "How much better attention agrees with the gradient than with leave-one-out.",
        ),
        Measure(
            "tau_gradient_loo",
            "Kendall τ, gradient – leave-one-out (reference)",
            "Kendall τ-b of gradient and leave-one-out, per text, −1 to 1: the reference "
            "for the agreement of attention.",
            range=SIGNED,
        ),
        Measure(
            "tau_{score}",
            "Kendall τ, attention – {score}",
            "Kendall τ-b of attention and an importance score over the tokens of a text, −1 to 1.",
            "higher",
            range=SIGNED,
        ),
        Measure(
            "significant_gradient_loo_bh",
            "share significant after Benjamini–Hochberg, gradient – leave-one-out",
            "Share of texts whose τ stays significant when all texts of the group are "
            "tested at once.",
        ),
        Measure(
            "significant_{score}_bh",
            "share significant after Benjamini–Hochberg, attention – {score}",
            "Share of texts whose τ stays significant when all texts of the group are "
            "tested at once.",
            "higher",
        ),
        Measure(
            "significant_gradient_loo",
            "share with p ≤ 0.05, gradient – leave-one-out",
            "Share of texts whose τ differs from 0 at the level of the setting significance.",
        ),
        Measure(
            "significant_{score}",
            "share with p ≤ 0.05, attention – {score}",
            "Share of texts whose τ differs from 0 at the level of the setting significance.",
            "higher",
        ),
    )
    seed: int = 0
    significance: float = setting(
        "Largest p-value of a rank correlation that counts as significant.",
        0.05,
        least=0,
        most=1,
    )

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        scores = over_words(trace, {"alpha": trace.alpha, **importance_scores(trace)})
        alpha = scores.pop("alpha")
        gradient, loo = scores.pop("gradient"), scores.pop("loo")
        pairs = {"gradient": (alpha, gradient), "loo": (alpha, loo), YARDSTICK: (gradient, loo)}
        pairs |= {name: (alpha, score) for name, score in scores.items()}
        columns: dict[str, np.ndarray] = {}
        for name, pair in pairs.items():
            columns[f"tau_{name}"], columns[f"p_{name}"] = kendall_tau(*pair)
            if name != YARDSTICK:
                columns[f"attention_on_{name}"] = attention_on(*pair)
        if SHOWN in scores:
            shown = scores.pop(SHOWN)
            for name, score in {"gradient": gradient, "loo": loo, **scores}.items():
                columns[f"tau_shown_{name}"] = kendall_tau(shown, score).tau
                columns[f"shown_on_{name}"] = attention_on(shown, score)
        return make_table(trace, columns)

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        """Summarise the table with intervals."""
        of_text = pl.col("measure").str.contains("^shown_on_|tau_shown_")
        return of_one_head(summarise_measures(self, table), ~of_text)

    def of_rows(self, table: pl.LazyFrame) -> pl.LazyFrame:
        """Select all measures of each row, with the differences of τ."""
        known = table.collect_schema().names()
        names = [name.removeprefix("tau_") for name in known if name.startswith("tau_")]

        def significant_together(name):
            # The threshold depends on all p-values of the group, so they are read first.
            p_values = table.select(f"p_{name}").drop_nulls().collect().to_series().to_numpy()
            return pl.col(f"p_{name}") <= benjamini_hochberg(p_values, self.significance)

        measures = {f"tau_{name}": pl.col(f"tau_{name}") for name in names}
        tested = [name for name in names if f"p_{name}" in known]
        measures |= {
            f"significant_{name}": pl.col(f"p_{name}") <= self.significance for name in tested
        }
        measures |= {f"significant_{name}_bh": significant_together(name) for name in tested}
        on = ("attention_on_", "shown_on_")
        measures |= {name: pl.col(name) for name in known if name.startswith(on)}
        pairs = [(f"tau_{YARDSTICK}", f"tau_{name}") for name in names if name != YARDSTICK]
        return table.select(*differences(*pairs, ("tau_gradient", "tau_loo")), **measures)
