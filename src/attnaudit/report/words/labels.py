"""What the names of measures mean, in a few words."""

from __future__ import annotations

_LABELS = {
    "accuracy": "accuracy",
    "f1": "F1 (class 1 of two, else mean over classes)",
    "roc_auc": "area under the ROC curve",
    "tau_gradient_loo": "Kendall τ, gradient – leave-one-out (yardstick)",
    "significant_gradient_loo": "share with p ≤ 0.05, gradient – leave-one-out",
    "median_delta_y": "median change of output over shuffles, Δŷ",
    "max_alpha": "largest attention weight",
    "emax_jsd": "ε-max JSD, best found",
    "emax_jsd_upper": "ε-max JSD, upper bound",
    "bleu": "BLEU of the translations",
    "loss": "cross-entropy of the gold token, nats",
    "token_accuracy": "share whose gold token is the likeliest, given those before it",
    "unknown": "share of target tokens that the vocabulary lacks",
    "covered": "probability of the words that a row keeps",
    "adversary_change": "change of the output over the whole vocabulary under the adversary, TVD",
    "adversary_within": "share where that change is at most ε",
    "certified": "share where found and bound meet",
    "delta_y": "change of output under the adversary, Δŷ",
    "precision_chance": "precision of a random order (share of known tokens)",
    "auprc_chance": "average precision of a random order",
}
_ERASURE = {
    "delta_js": "ΔJS: move of the output without the largest weight less that without another",
    "delta_alpha": "Δα: largest weight less the other",
    "negative_delta_js": "share where the other weight moves the output more",
    "flip_max": "share whose decision flips without the largest weight",
    "flip_random": "share whose decision flips without the other",
    "flip_both": "share where both flip it", "flip_only_max": "share where only the largest flips it",
    "flip_only_random": "share where only the other flips it", "flip_neither": "share where neither flips it",
    "minimum_proven": "share whose smallest set is proven smallest",
}  # fmt: skip
_LABELS |= _ERASURE
_WALKS = {
    "removed_": "share of tokens gone at the first flip", "mass_": "share of attention gone at the first flip",
    "times_minimum_": "tokens gone at the first flip, over the smallest set", "kept_": "share of tokens that keep the output",
    "never_": "share that never flips",
    "normalised_comprehensiveness_": "comprehensiveness between its exact bounds",
    "normalised_sufficiency_": "sufficiency between its exact bounds",
    "input_comprehensiveness_": "fall of the decided class, top tokens deleted from the text",
    "input_sufficiency_": "fall of the decided class, text of the top tokens alone",
    "comprehensiveness_": "fall of the decided class without the top tokens (AOPC)",
    "sufficiency_": "fall of the decided class with the top tokens alone (AOPC)",
}  # fmt: skip
_SCORES = {
    "gradient": "gradient", "loo": "leave-one-out", "attention": "attention", "gradient_loo": "gradient – leave-one-out",
    "gradient_attention": "gradient × attention", "minimum": "smallest set", "random": "random order", "alpha": "attention",
}  # fmt: skip


def measure_label(measure: str) -> str:
    """A measure's meaning; a name without one is its own label."""
    for start, meaning in (
        ("precision_at_1_", "greatest score on an aligned unit"),
        ("aer_", "alignment error rate of the greatest score"),
        ("dictionary_", "share of the n strongest pairs of the dictionary that are translations, of which there are n (Wilson interval)"),
    ):
        if measure.startswith(start):
            return f"{meaning}, {_score(measure.removeprefix(start))}"
    if measure in _LABELS:
        return _LABELS[measure]
    if "_minus_tau_" in measure:
        return f"τ gradient – leave-one-out less τ attention – {_score(measure.rpartition('_minus_tau_')[2])}, paired"
    for start, meaning in _WALKS.items():
        if measure.startswith(start):
            return f"{meaning}, {_score(measure.removeprefix(start))}"
    kind, _, rest = measure.partition("_")
    if measure.endswith("_bh"):
        return f"the same after Benjamini–Hochberg, {_pair(rest.removesuffix('_bh'))}"
    if kind == "tau":
        return f"Kendall τ, {_pair(rest)}"
    if kind == "significant":
        return f"share with p ≤ 0.05, {_pair(rest)}"
    if kind == "precision":
        return f"precision at the number of known tokens, {_score(rest)}"
    if kind == "auprc":
        return f"average precision, {_score(rest)}"
    return measure


def _score(name: str) -> str:
    return _SCORES.get(name, name)


def _pair(name: str) -> str:
    return _score(name) if name == "gradient_loo" else f"attention – {_score(name)}"
