"""The measures of dynamics, and which numbers of its timing say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from attnaudit.results.measures import Measure
from attnaudit.studies.dynamics.measures import PAIRS, TO_REFERENCE

QUESTION = "What is attention learned from?"
STEP = "step:"
_TIMED = ("xi", "xi_step", "xi_early", "best_accuracy_minus_xi")
_SCORES = {
    "alpha": "attention", "relevance": "relevance", "uniform": "r under uniform attention", "loo": "leave-one-out",
    "embedding": "mean embedding", "logistic": "logistic regression", "reference": "attention of the first seed",
}  # fmt: skip
_COMPARED = (
    {f"{u}_{v}": f"{_SCORES[u]} – {_SCORES[v]}" for u, v in (*PAIRS, *TO_REFERENCE)}
    | {
        "reference_relevance_uniform": f"{_SCORES['reference']} – {_SCORES['uniform']} at this step"  # of the model with uniform attention
    }
)
_AGREES = "How often the top position by one score is among the top 5 % by the other."
MEASURES = (
    Measure("accuracy", "accuracy", "Share of instances (for a translator, gold tokens) that are predicted correctly."),
    Measure("entropy", "entropy of attention over ln T", "1 is uniform attention, 0 all of it on one token."),
    Measure("chance", "agreement with a shuffled score", "How often a random position is among the top 5 %."),
    Measure("xi", "ξ: accuracy where attention is closer to the reference than r under uniform attention is",
            "Accuracy at the first step whose attention agrees with that of the first seed better than r under uniform attention does."),
    Measure("xi_step", "step of ξ",
            "First step at which attention agrees with that of the first seed better than r under uniform attention does."),
    Measure("xi_early", "share of these seeds without a checkpoint before the step of ξ",
            "Where this share is large, ξ says little about the order."),
    Measure("best_accuracy", "accuracy of the best step, chosen on test",
            "Highest accuracy on the probe of any step: the step is chosen on the instances of test that it is measured on."),
    Measure("best_accuracy_minus_xi", "accuracy of the best step, chosen on test, minus ξ", "What is still learned after the step of ξ."),
    Measure("xi_reached", "highest agreement of a step, chosen on test, with the reference",
            "Highest agreement of attention with that of the first seed, over steps."),
    Measure("xi_threshold", "that of r under uniform attention", "The agreement that attention must exceed at the step of ξ."),
    Measure("accuracy_embedding", "accuracy, mean embedding", "Accuracy of a classifier of the mean embedding."),
    Measure("accuracy_logistic", "accuracy, logistic regression", "Accuracy of a logistic regression on counts."),
    Measure("accuracy_uniform", "accuracy, uniform attention", "Accuracy of the model with uniform attention."),
    Measure("agreement_alpha_uniform_elsewhere",
            "agreement, attention – r under uniform attention, of other texts of the same length",
            f"{_AGREES} Agreement that remains is positional habit."),
    Measure("agreement_alpha_uniform_minus_elsewhere",
            "agreement, attention – r under uniform attention, above that of other texts of the same length",
            "The paired difference, of texts that have another of the same length. 0: all agreement is positional habit."),
    Measure("agreement_reference_relevance_elsewhere_uniform",
            "agreement, attention of the first seed – r under uniform attention at this step, of other texts of the same length",
            f"{_AGREES} Agreement that remains is positional habit."),
    *(Measure(f"agreement_{pair}", f"agreement, {words}", _AGREES) for pair, words in _COMPARED.items()),
    *(Measure(f"tau_{pair}", f"τ, {words}", "Kendall's τ between the two scores of each text.") for pair, words in _COMPARED.items()),
)  # fmt: skip


def timed_by_chance(threshold: Mapping[str, Any], chance: Mapping[str, Any]) -> bool:
    """Whether the interval of the threshold of ξ reaches down to chance: then ξ says nothing about what is learned first."""
    return threshold["low"] is not None and threshold["low"] <= chance["value"]


def caveats(summary: pl.DataFrame) -> dict[str, str]:
    """Words for the labels of the timing's numbers where the threshold that defines it is no better than chance."""
    finished = {
        row["measure"]: row
        for row in summary.filter(pl.col("value").is_not_null(), group="all").iter_rows(named=True)
    }
    threshold, chance = finished.get("xi_threshold"), finished.get("chance")
    if threshold is None or chance is None or not timed_by_chance(threshold, chance):
        return {}
    return dict.fromkeys(
        _TIMED, " (says nothing here: r under uniform attention, its threshold, is at chance)"
    )
