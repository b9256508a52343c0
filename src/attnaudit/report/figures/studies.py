"""The figures of each study, and the sentence that says what is read from them."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from attnaudit.report.charts.studies import curve_chart, interval_chart, quantile_chart, quantiles
from attnaudit.report.charts.svg import Figure, Panel, render
from attnaudit.report.figures.dynamics import agreement_figure, order_figure
from attnaudit.report.words.study_numbers import figure_and_model, model_label, seeds_of_models
from attnaudit.results.words import LN2, count

Draw = Callable[[pl.DataFrame, pl.DataFrame], Figure]
"""A study's table and summary to its figure."""


def uniform_figure(table: pl.DataFrame, summary: pl.DataFrame) -> Figure:
    """F1, accuracy and ROC-AUC of both models."""
    panels = tuple(
        Panel(title, render(interval_chart(_of_models(summary, name), title), f"uniform-{name}", f"{title} of both models with intervals"))
        for name, title in (("f1", "F1"), ("accuracy", "accuracy"), ("roc_auc", "ROC-AUC"))
    )
    caption = (
        f"The model with its own attention (base) and with uniform attention, trained alike with {_seeds(table)}. The numbers "
        "below have the "
        "paired differences."
    )
    return Figure("uniform", "What is lost without attention?", caption, panels)


def guide_figure(table: pl.DataFrame, summary: pl.DataFrame) -> Figure:
    """F1 under each set of weights, and the paired difference to uniform weights."""
    gaps, title = _of_models(summary, "difference_f1"), "Minus F1 with uniform weights"
    panels = (
        Panel("F1 by weights", render(interval_chart(_of_models(summary, "f1"), "F1"), "guide-f1", "F1 of the guided model by weights")),
        Panel(title, render(interval_chart(gaps, "difference of F1"), "guide-gap", "Paired difference of F1 by weights"))
        if gaps.height
        else Panel(title, note="Only uniform weights were given."),
    )
    caption = f"A token-wise model with given attention weights, {_seeds(table)}; right, the paired difference to uniform weights."
    return Figure("guide", "Do the weights carry information to another model?", caption, panels)


def adversary_figure(table: pl.DataFrame, summary: pl.DataFrame) -> Figure:
    """Mean TVD against mean JSD: the trained adversaries as a curve, the others as points."""
    points = table.group_by("kind", "strength", "seed", maintain_order=True).agg(pl.col("tvd").mean(), pl.col("jsd").mean())
    chart = curve_chart(points.select(pl.col("kind").replace(KINDS).alias("group"), "strength", "tvd", "jsd"))
    caption = (
        "Each point is a model, or a set of single-instance adversaries, against the base: how far its predictions are from the base's "
        "(mean TVD) and how far its attention is (mean JSD, at most ln 2). The curve joins models trained to predict the same and attend "
        "elsewhere, from the smallest λ to the largest. The closer to the upper left corner, the more the attention can change at the "
        "same predictions; what lies no further right than another seed predicts as similarly as retraining does."
    )
    return Figure("adversary", "How far can attention go while the predictions stay?", caption, (
        Panel("", render(chart, "adversary-curve", "Mean JSD of attention against mean TVD of predictions of every model")),
    ))  # fmt: skip


def seeds_figure(table: pl.DataFrame, summary: pl.DataFrame) -> Figure:
    """Divergence by bins of the largest weight and by class, and how well scores agree with themselves."""
    names = [name for name in summary["group"].unique(maintain_order=True).to_list() if name.startswith("max_alpha:")]
    groups = []
    for name in names:
        low, high = map(float, name.removeprefix("max_alpha:").split("-"))
        inside = (pl.col("max_alpha") >= low) & (pl.col("max_alpha") < high + (1e-6 if high == 1 else 0))
        groups.append((f"max α {low:g} to {high:g}", table.filter(inside)["jsd"]))
    groups += [(f"predicted {name}", rows["jsd"]) for (name,), rows in table.sort("predicted").group_by("predicted", maintain_order=True)]
    divergences = quantile_chart(quantiles(groups), "median JSD to another seed (at most ln 2)", (0.0, LN2))
    scores = {"alpha": "attention", "gradient": "gradient", "loo": "leave-one-out"}
    agreement = quantiles([(word, table[f"tau_{name}"].drop_nulls()) for name, word in scores.items()])
    taus = quantile_chart(agreement, "median τ with itself under another seed", (-1.0, 1.0))
    caption = (
        "Quartiles (bar), 5 to 95 % (line) and median over instances of each instance's median over seeds. Left: how far attention moves "
        "when only the seed does. Right: how well a score ranks the tokens as it did before: what agreement with any other is read against."
    )
    panels = (
        Panel("How far attention moves", render(divergences, "seeds-jsd", "Divergence to another seed's attention, by bin and class")),
        Panel("How well scores agree with themselves", render(taus, "seeds-tau", "Kendall tau of each score with itself")),
    )
    return Figure("seeds", "How much of attention is chance?", caption, panels)


def _of_models(summary: pl.DataFrame, figure: str) -> pl.DataFrame:
    """{name, value, low, high} of every model that has the figure."""
    known = summary.filter(pl.col("value").is_not_null())
    found = [(figure_and_model(row["measure"]), row) for row in known.iter_rows(named=True)]
    rows = [(model_label(model), row["value"], row["low"], row["high"]) for (name, model), row in found if name == figure]
    return pl.DataFrame(rows, schema={"name": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64}, orient="row")


def deceive_figure(table: pl.DataFrame, summary: pl.DataFrame) -> Figure:
    """Accuracy, attention on the impermissible tokens, and what an audit sees, by model and λ."""
    titles = {
        "accuracy": "accuracy", "bleu": "BLEU", "mass": "attention on impermissible tokens", "tau_loo": "τ to leave-one-out",
    }  # fmt: skip
    shown = {title: rows for measure, title in titles.items() if (rows := _of_models(summary, measure)).height}
    panels = [
        Panel(title, render(interval_chart(rows, title), f"deceive-{number}", f"{title} of every model by λ"))
        for number, (title, rows) in enumerate(shown.items())
    ]
    needed = "attention is needed (uniform attention does worse)" if "BLEU" in shown else "the tokens are needed (removed)"
    caption = (
        f"Models trained with a penalty λ on attention to the impermissible tokens, {_seeds(table)}. Where accuracy stays, attention falls "
        f"and {needed}, attention hides what the model uses; the last panel is what an audit of that model says."
    )
    return Figure("deceive", "Does attention hide what the model uses?", caption, tuple(panels))


def _seeds(table: pl.DataFrame) -> str:
    """How many seeds each model of a study has, and what the intervals are over."""
    _, seeds = seeds_of_models(table)
    spread = "intervals over instances alone" if seeds == 1 else "means over seeds, intervals over seeds and instances"
    return f"{count(seeds, 'seed')}: {spread}"


KINDS = {
    "adversary": "trained adversaries", "frozen": "each instance separately, model frozen", "seed": "another seed",
    "uniform": "uniform attention",
}  # fmt: skip
FIGURES: dict[str, tuple[Draw, ...]] = {
    "uniform": (uniform_figure,),
    "seeds": (seeds_figure,),
    "guide": (guide_figure,),
    "adversary": (adversary_figure,),
    "deceive": (deceive_figure,),
    "dynamics": (agreement_figure, order_figure),
}
