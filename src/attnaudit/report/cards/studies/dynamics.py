"""What is attention learned from? (Snell et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from attnaudit.core.numbers import count
from attnaudit.experiments.verdict import AGAINST, FOR, HIGH, LOW, NEITHER, UNCLEAR, Finding
from attnaudit.report.cards.card import Axis, CardRow, Claim, StudyCard, card_row
from attnaudit.report.charts.specs import StepLines, StudyFigure, StudyPanel
from attnaudit.report.words import figure, percent, with_interval
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows
from attnaudit.studies.dynamics.facts import QUESTION, STEP, timed_by_chance
from attnaudit.studies.dynamics.measures import ABOVE_HABIT

_NAME = "dynamics"
_WITH_ALPHA = {
    "relevance": "its own relevance r",
    "uniform": "r trained under uniform attention",
    "loo": "leave-one-out",
    "embedding": "mean embedding",
    "logistic": "logistic regression",
}


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word whether attention goes where relevance is learned without it, and when."""
    row, chance = rows.get(_NAME, "agreement_alpha_uniform"), rows.value(_NAME, "chance")
    if row is None or chance is None:
        return
    loo, own, habit = (
        rows.value(_NAME, f"agreement_alpha_{name}")
        for name in ("loo", "relevance", "uniform_elsewhere")
    )
    gap = rows.get(_NAME, ABOVE_HABIT)
    above_habit = row["low"] > (habit or 0.0) if gap is None else (gap["low"] or 0.0) > 0.0
    above_chance, below = row["low"] > chance, row["high"] < chance
    # Two texts can agree by position alone, so chance is not enough of a baseline.
    follows = above_chance and above_habit
    alone = 0 if gap is None else gap["undefined"]
    texts, alike = "texts", "text of the same length"
    if about.translates:
        texts, alike = "gold tokens", "pair of the same length at the same position"
    sentence = (
        f"In {percent(row['value'])} of the {texts} the token with the most attention is among the "
        "top 5 % by relevance in a model with uniform attention (by chance: "
        f"{percent(chance)}"
    )
    if habit is not None:
        some = ", where there is one" if alone else ""
        sentence += f"; by the relevance of another {alike}{some}: {percent(habit)}"
    sentence += "). "
    if loo is not None and own is not None:
        sentence += f"By relevance in the model itself: {percent(own)}; by leave-one-out: "
        sentence += f"{percent(loo)}. "
    goes = "attention goes to tokens whose relevance is learned without it"
    if below:
        goes += " less often than by chance"
    if follows or below:
        sentence += f"So {goes}. "
    elif above_chance:
        sentence += (
            "That is above chance, but not above positional habit: no evidence that it follows the "
            "tokens. "
        )
    else:
        sentence += (
            "The interval contains chance: no evidence that attention follows relevance learned "
            "without it. "
        )
    side, code = (FOR, HIGH) if follows else (AGAINST, LOW) if below else (NEITHER, UNCLEAR)
    finding = Finding(_NAME, row["measure"], side, code, row["low"], row["high"])
    by_habit = "" if habit is None else f", {figure(habit)} by positional habit"
    yield card_row(
        QUESTION,
        "A(α, rᵘ): top position by attention, top 5 % by relevance under uniform attention",
        row,
        f"{figure(chance)} by chance{by_habit}",
        sentence + _timing(rows),
        axis=Axis(mark=chance if alone else max(chance, habit or 0.0)),
        claim=Claim(finding, goes),
    )


def _timing(rows: SummaryRows) -> str:
    """Say what was known when attention got its own, or why that cannot be said."""
    xi, best, step, gap, reached, threshold, chance = (
        rows.get(_NAME, name)
        for name in (
            "xi",
            "best_accuracy",
            "xi_step",
            "best_accuracy_minus_xi",
            "xi_reached",
            "xi_threshold",
            "chance",
        )
    )
    if best is None or reached is None or threshold is None or chance is None:
        return "Timing needs more than one seed."
    if xi is None or step is None or gap is None:
        return (
            "The timing of attention is undefined: at no step does attention of another seed agree "
            f"with the first seed's ({figure(reached['value'])} at most) better than relevance "
            f"under uniform attention does ({figure(threshold['value'])})."
        )
    if timed_by_chance(threshold, chance):
        return (
            "Relevance under uniform attention agrees with the first seed's attention "
            f"({figure(threshold['value'])}) no better than chance, within its interval: the step "
            "at which attention of other seeds is closer says nothing about which is learned first."
        )
    text = (
        "Attention of other seeds is closer to the first seed's than relevance under uniform "
        f"attention is after {step['value']:.0f} steps; by then accuracy is {with_interval(xi)}, "
        f"of {figure(xi['value'] + gap['value'])} at the best step, chosen on test."
    )
    if xi["undefined"]:
        text += f" {count(xi['undefined'], 'seed')} never reach it."
    if early := rows.value(_NAME, "xi_early"):
        text += (
            f" In {percent(early)} of the seeds that do, there is no checkpoint between the start "
            "and that step, so it says little about the order; add steps to dynamics.steps."
        )
    return text


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> tuple[StudyFigure, StudyFigure]:
    """Draw what attention agrees with at every step, and what comes first."""
    return _agreement_figure(table, summary), _order_figure(summary)


def _agreement_figure(table: pl.DataFrame, summary: pl.DataFrame) -> StudyFigure:
    chance = {"chance": "chance"}
    first = {f"agreement_alpha_{name}": word for name, word in _WITH_ALPHA.items()}
    tau = {f"tau_alpha_{name}": word for name, word in _WITH_ALPHA.items()}
    others = {
        "agreement_relevance_uniform": "r and r under uniform attention",
        "agreement_loo_uniform": "leave-one-out and r under uniform attention",
    }
    panels = (
        _panel(summary, "First in attention, at the top of …", "agreement", first, chance),
        _panel(summary, "τ between attention and …", "Kendall's τ", tau),
        _panel(summary, "First in one, at the top of the other", "agreement", others, chance),
    )
    probe = table.filter(pl.col("model") == "base", pl.col("step").is_not_null())
    instances, seeds = (count(probe[name].n_unique(), name) for name in ("instance", "seed"))
    gold = "the contribution of a position to the gold class if all attention were on it"
    if "query" in table.columns:
        gold = "the log-probability of the gold token if all attention were on that position"
    caption = (
        f"On {instances} of test, {seeds}; steps on a square-root axis. Agreement: how often the "
        "top position of one score is among the top 5 % of the other; relevance r is "
        f"{gold}. The dotted line is agreement with a shuffled score. Bands: 95 % bootstrap "
        "intervals over seeds and instances. The curves end with the weights of the last step; the "
        "finished models of the verdict and of the first table have those of their best epoch on "
        "dev, and are measured on all of test."
    )
    title = "What does attention agree with while it is learned?"
    return StudyFigure("agreement", title, caption, panels)


def _order_figure(summary: pl.DataFrame) -> StudyFigure:
    ways = {
        "agreement_reference_alpha": "attention of the other seeds",
        "agreement_reference_relevance_uniform": "r under uniform attention",
        "agreement_reference_relevance_elsewhere_uniform": "the same, of other texts",
    }
    title = "First in the reference's attention, at the top of …"
    accuracy = {"accuracy": "learned attention", "accuracy_uniform": "uniform attention"}
    panels = (
        _panel(summary, title, "agreement", ways, {"chance": "chance"}),
        _panel(summary, "Accuracy with …", "accuracy", accuracy),
        _panel(summary, "Entropy of attention", "share of ln T", {"entropy": "learned attention"}),
    )
    caption = (
        "Left: the reference is the finished model of the first seed. Attention can learn from "
        "relevance that grows before it. Agreement with the relevance of other texts of the same "
        "length is positional habit (texts of a unique length do not count there). Middle: "
        "accuracy on the probe. Right: 1 is uniform attention, 0 all of it on one token. Bands: 95 "
        "% bootstrap intervals over seeds and instances."
    )
    return StudyFigure("order", "What comes first, relevance or attention?", caption, panels)


def _panel(
    summary: pl.DataFrame,
    title: str,
    axis: str,
    lines: Mapping[str, str],
    marked: Mapping[str, str] | None = None,
) -> StudyPanel:
    points = _points(summary, lines)
    if points.is_empty():
        return StudyPanel(title, "One seed alone: there is no other to compare with the reference.")
    name = f"dynamics-{next(iter(lines)).replace('_', '-')}"
    label = f"{title} {', '.join(points['group'].unique(maintain_order=True))}, by optimizer step"
    return StudyPanel(title, StepLines(points, axis, _points(summary, marked or {})), name, label)


def _points(summary: pl.DataFrame, measures: Mapping[str, str]) -> pl.DataFrame:
    """Return {group, step, value, low, high} of measures at the steps where they have a value."""
    at_steps = summary.filter(pl.col("group").str.starts_with(STEP), pl.col("value").is_not_null())
    names = pl.DataFrame(
        {"measure": list(measures), "name": list(measures.values())},
        schema={"measure": pl.String, "name": pl.String},
    )
    found = names.join(at_steps, on="measure", how="inner", maintain_order="left_right")
    step = pl.col("group").str.strip_prefix(STEP).cast(pl.Int64).alias("step")
    return found.select(pl.col("name").alias("group"), step, "value", "low", "high")


CARD = StudyCard(card_rows, figures)
