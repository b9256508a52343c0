"""All numbers of a study: a row for each model, a column for each figure; of the seeds, a row for each measure, a column for each group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from attnaudit.report.sections.numbers import SummaryTable, group_label, summary_cell

FIGURES = {
    "difference_accuracy": "accuracy, minus the reference", "difference_f1": "F1, minus the reference",
    "difference_roc_auc": "ROC-AUC, minus the reference", "accuracy": "accuracy", "f1": "F1", "roc_auc": "ROC-AUC",
    "bleu": "BLEU", "tvd": "mean TVD of the output", "jsd": "mean JSD of attention", "flipped": "share of flipped decisions",
    "mass": "attention on impermissible tokens", "mass_max": "attention on impermissible tokens, largest head",
    "tau_loo": "τ, attention – leave-one-out", "tau_gradient": "τ, attention – gradient", "covered": "share without other tokens",
}  # fmt: skip
SEEDS = {
    "jsd": "JSD to the base's attention", "tvd": "TVD to the base's output", "tau_alpha": "τ, attention with itself",
    "tau_gradient": "τ, gradient with itself", "tau_loo": "τ, leave-one-out with itself",
    "tau_alpha_gradient": "τ, attention – gradient of the same seed", "tau_alpha_loo": "τ, attention – leave-one-out of the same seed",
}  # fmt: skip
MODELS = {
    "base": "the base's attention", "uniform": "uniform attention", "learned": "learned with the model", "gradient": "the base's gradients",
    "adversary": "an adversary's attention", "rationale": "the rationale", "seed": "another seed",
}  # fmt: skip
SCORES = {
    "alpha": "attention", "relevance": "relevance", "uniform": "r under uniform attention", "loo": "leave-one-out",
    "embedding": "mean embedding", "logistic": "logistic regression", "reference": "attention of the first seed",
}  # fmt: skip
DYNAMICS = {
    "accuracy": "accuracy", "entropy": "entropy of attention over ln T", "chance": "agreement with a shuffled score",
    "xi": "ξ: accuracy where attention is closer to the reference than r under uniform attention is", "xi_step": "step of ξ",
    "xi_early": "share of these seeds without a checkpoint between the start and that step",
    "best_accuracy": "accuracy of the best step", "best_accuracy_minus_xi": "accuracy of the best step minus ξ",
    "xi_reached": "highest agreement of a step with the reference", "xi_threshold": "that of r under uniform attention",
    "accuracy_embedding": "accuracy, mean embedding", "accuracy_logistic": "accuracy, logistic regression",
    "accuracy_uniform": "accuracy, uniform attention",
    "agreement_alpha_uniform_elsewhere": "agreement, attention – r under uniform attention, of other texts of the same length",
    "agreement_reference_relevance_elsewhere_uniform":
        "agreement, attention of the first seed – r under uniform attention at this step, of other texts of the same length",
}  # fmt: skip
TIMED = ("xi", "xi_step", "xi_early", "best_accuracy_minus_xi")
AREA = "area"


def study_tables(name: str, summary: pl.DataFrame) -> list[SummaryTable]:
    """The whole summary of a study; every row of it is in one cell."""
    if name == "dynamics":
        return _by_step(summary)
    return [_by_group(summary)] if name == "seeds" else _by_model(name, summary)


def _by_step(summary: pl.DataFrame) -> list[SummaryTable]:
    """What is said of finished models; then a row for each step, a column for each measure, in three tables."""
    cells = {(row["group"], row["measure"]): summary_cell(row) for row in summary.iter_rows(named=True)}
    steps = [group for group in summary["group"].unique(maintain_order=True).to_list() if group != "all"]
    doubt = _doubt(summary)
    finished = tuple((name, dynamics_label(name) + doubt.get(name, ""), (cell,)) for (group, name), cell in cells.items() if group == "all")
    names = list(dict.fromkeys(name for group, name in cells if group != "all"))
    kinds = {"agreement": "agreement at each step", "tau": "Kendall's τ at each step", "": "accuracy, entropy and chance at each step"}
    told = {kind: [name for name in names if (name.partition("_")[0] if name.partition("_")[0] in kinds else "") == kind] for kind in kinds}
    tables = [
        SummaryTable(title, tuple(dynamics_label(name).removeprefix("agreement, ").removeprefix("τ, ") for name in told[kind]), tuple(
            (step, f"after {step.partition(':')[2]} steps", tuple(cells.get((step, name)) for name in told[kind])) for step in steps
        ))
        for kind, title in kinds.items()
    ]  # fmt: skip
    return [SummaryTable("finished models, and the timing", ("all of test; timing on the probe",), finished), *tables]


def _doubt(summary: pl.DataFrame) -> dict[str, str]:
    """What is added to the names of the timing's numbers where it is held against what is no better than chance."""
    finished = {row["measure"]: row for row in summary.filter(pl.col("value").is_not_null(), group="all").iter_rows(named=True)}
    threshold, chance = finished.get("xi_threshold"), finished.get("chance")
    if threshold is None or chance is None or not timed_by_chance(threshold, chance):
        return {}
    return dict.fromkeys(TIMED, " (says nothing here: r under uniform attention, its threshold, is at chance)")


def timed_by_chance(threshold: Mapping[str, Any], chance: Mapping[str, Any]) -> bool:
    """Whether the interval of the threshold of ξ reaches down to chance: then ξ says nothing about what is learned first."""
    return threshold["low"] is not None and threshold["low"] <= chance["value"]


def dynamics_label(measure: str) -> str:
    """``agreement_alpha_loo``: ``agreement, attention – leave-one-out``."""
    kind, _, pair = measure.partition("_")
    if measure in DYNAMICS or kind not in ("agreement", "tau"):
        return DYNAMICS.get(measure, measure)
    even = pair == "reference_relevance_uniform"  # of the model with uniform attention at the same step
    one, other = ("reference", "uniform") if even else pair.split("_")
    known = f"{'τ' if kind == 'tau' else kind}, {SCORES[one]} – {SCORES[other]}"
    return f"{known} at this step" if even else known


def _by_group(summary: pl.DataFrame) -> SummaryTable:
    groups = summary["group"].unique(maintain_order=True).to_list()
    cells = {(row["measure"], row["group"]): summary_cell(row) for row in summary.iter_rows(named=True)}
    measures: list[str] = summary["measure"].unique(maintain_order=True).to_list()
    rows = tuple((name, SEEDS.get(name, name), tuple(cells.get((name, group)) for group in groups)) for name in measures)
    words = tuple(group_label(group).replace("max_alpha:", "largest weight ") for group in groups)
    return SummaryTable("medians over seeds", words, rows)


def _by_model(name: str, summary: pl.DataFrame) -> list[SummaryTable]:
    cells = {figure_and_model(row["measure"]): summary_cell(row) for row in summary.iter_rows(named=True)}
    area = cells.pop((AREA, ""), None)
    figures = [figure for figure in FIGURES if any(key[0] == figure for key in cells)]
    models = list(dict.fromkeys(model for _, model in cells))
    rows = tuple((model, model_label(model), tuple(cells.get((figure, model)) for figure in figures)) for model in models)
    table = SummaryTable(f"{name}: every model", tuple(FIGURES[figure] for figure in figures), rows)
    whole = SummaryTable("robustness", ("of what there could be",), ((AREA, "area under the curve of JSD within TVD", (area,)),))
    return [table, whole] if area else [table]


def figure_and_model(measure: str) -> tuple[str, str]:
    """``f1_base`` is F1 of the base; a measure that is of no model, such as the area, has an empty one."""
    figure = max((figure for figure in FIGURES if measure.startswith(f"{figure}_")), key=len, default=None)
    return (measure, "") if figure is None else (figure, measure.removeprefix(f"{figure}_"))


def seeds_of_models(table: pl.DataFrame) -> tuple[int, int]:
    """How many seeds a model of a study's table has, the fewest and the most."""
    models = [name for name in ("model", "kind", "strength") if name in table.columns]
    seeds = table.group_by(models).agg(pl.col("seed").n_unique())["seed"].to_list()
    return min(seeds), max(seeds)


def model_label(model: str) -> str:
    """``bilstm_0.1``: ``bilstm, λ = 0.1``; ``frozen_0.01``: each instance separately within an ε; ``seed``: another seed."""
    start, _, strength = model.rpartition("_")
    if not start or not _is_number(strength):
        number = model.removeprefix("trace")
        return f"trace {number} that was given" if number.isdecimal() else MODELS.get(model, model.replace("_removed", ", tokens removed"))
    return f"each instance separately, ε = {strength}" if start == "frozen" else f"{start}, λ = {strength}"


def _is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False
