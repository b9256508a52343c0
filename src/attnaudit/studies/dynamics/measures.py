"""Measures of dynamics, and the pairs of scores that they compare."""

from attnaudit.results import Measure

STEP = "step:"  # group of a step, followed by its number
Pair = tuple[str, str]
# Scores of a position: `alpha`; `relevance`, its own output relevance r; `uniform`, r of the model
# with uniform attention; `loo`; r of two proxies that know co-occurrence only, `embedding` and
# `logistic`; and `reference`, alpha of the first seed.
PAIRS: tuple[Pair, ...] = (
    ("alpha", "relevance"),
    ("alpha", "uniform"),
    ("alpha", "loo"),
    ("alpha", "embedding"),
    ("alpha", "logistic"),
    ("relevance", "uniform"),
    ("loo", "uniform"),
)
TO_REFERENCE: tuple[Pair, ...] = (
    ("reference", "alpha"),
    ("reference", "relevance"),
    ("reference", "uniform"),
)
ELSEWHERE = "agreement_alpha_uniform_elsewhere"
REFERENCE_ELSEWHERE = "agreement_reference_relevance_elsewhere"
ABOVE_HABIT = "agreement_alpha_uniform_minus_elsewhere"
_SCORES = {
    "alpha": "attention",
    "relevance": "relevance",
    "uniform": "r under uniform attention",
    "loo": "leave-one-out",
    "embedding": "mean embedding",
    "logistic": "logistic regression",
    "reference": "attention of the first seed",
}
_COMPARED = {f"{u}_{v}": f"{_SCORES[u]} – {_SCORES[v]}" for u, v in (*PAIRS, *TO_REFERENCE)} | {
    # Of the model with uniform attention.
    "reference_relevance_uniform": f"{_SCORES['reference']} – {_SCORES['uniform']} at this step"
}
_AGREES = "How often the top position by one score is among the top 5 % by the other."
_HABIT = f"{_AGREES} Agreement that remains is positional habit."
_NEARER = (
    "at the first step whose attention agrees with that of the first seed better than r under "
    "uniform attention does."
)
MEASURES = (
    Measure(
        "accuracy",
        "accuracy",
        "Share of texts (for a translator, gold tokens) that are predicted correctly.",
    ),
    Measure(
        "entropy",
        "entropy of attention over ln T",
        "1 is uniform attention, 0 all of it on one token.",
    ),
    Measure(
        "chance",
        "agreement with a shuffled score",
        "How often a random position is among the top 5 %.",
    ),
    Measure(
        "xi",
        "ξ: accuracy where attention is closer to the reference than r under uniform attention is",
        f"Accuracy {_NEARER}",
    ),
    Measure("xi_step", "step of ξ", f"Number of steps {_NEARER}"),
    Measure(
        "xi_early",
        "share of these seeds without a checkpoint before the step of ξ",
        "Where this share is large, ξ says little about the order.",
    ),
    Measure(
        "best_accuracy",
        "accuracy of the best step, chosen on test",
        "Highest accuracy on the probe of any step: the step is chosen on the texts of test "
        "that it is measured on.",
    ),
    Measure(
        "best_accuracy_minus_xi",
        "accuracy of the best step, chosen on test, minus ξ",
        "Accuracy that is still gained after the step of ξ.",
    ),
    Measure(
        "xi_reached",
        "highest agreement of a step, chosen on test, with the reference",
        "Highest agreement of attention with that of the first seed, over steps.",
    ),
    Measure(
        "xi_threshold",
        "that of r under uniform attention",
        "The agreement that attention must exceed at the step of ξ.",
    ),
    Measure(
        "accuracy_embedding",
        "accuracy, mean embedding",
        "Accuracy of a classifier of the mean embedding.",
    ),
    Measure(
        "accuracy_logistic",
        "accuracy, logistic regression",
        "Accuracy of a logistic regression on counts.",
    ),
    Measure(
        "accuracy_uniform",
        "accuracy, uniform attention",
        "Accuracy of the model with uniform attention.",
    ),
    Measure(
        ELSEWHERE,
        "agreement, attention – r under uniform attention, of other texts of the same length",
        _HABIT,
    ),
    Measure(
        ABOVE_HABIT,
        "agreement, attention – r under uniform attention, above that of other texts of the same "
        "length",
        "The paired difference, of texts that have another of the same length. 0: all agreement is "
        "positional habit.",
    ),
    Measure(
        f"{REFERENCE_ELSEWHERE}_uniform",
        "agreement, attention of the first seed – r under uniform attention at this step, of other "
        "texts of the same length",
        _HABIT,
    ),
    *(
        Measure(f"agreement_{pair}", f"agreement, {words}", _AGREES)
        for pair, words in _COMPARED.items()
    ),
    *(
        Measure(f"tau_{pair}", f"τ, {words}", "Kendall's τ between the two scores of each text.")
        for pair, words in _COMPARED.items()
    ),
)
