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
    "certified": "share where found and bound meet",
    "delta_y": "change of output under the adversary, Δŷ",
    "precision_chance": "precision of a random order (share of known tokens)",
    "auprc_chance": "average precision of a random order",
}
_SCORES = {"gradient": "gradient", "loo": "leave-one-out", "attention": "attention", "gradient_loo": "gradient – leave-one-out"}


def measure_label(measure: str) -> str:
    """A measure's meaning; a name without one is its own label."""
    if measure in _LABELS:
        return _LABELS[measure]
    if "_minus_tau_" in measure:
        return f"τ gradient – leave-one-out less τ attention – {_score(measure.rpartition('_minus_tau_')[2])}, paired"
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
