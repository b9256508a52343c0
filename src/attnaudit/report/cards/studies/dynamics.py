"""What is attention learned from? (Snell et al. 2021)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from attnaudit.core.numbers import count
from attnaudit.report.cards.card import StudyCard
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import StepLines, StudyFigure, StudyPanel
from attnaudit.results.words import figure, interval, percent
from attnaudit.studies.dynamics.facts import QUESTION, STEP, timed_by_chance
from attnaudit.studies.dynamics.measures import ABOVE_HABIT

_WITH_ALPHA = {
    "relevance": "its own relevance r", "uniform": "r trained under uniform attention", "loo": "leave-one-out",
    "embedding": "mean embedding", "logistic": "logistic regression",
}  # fmt: skip


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """How often attention is first where relevance under uniform attention is at the top, against chance and habit, and the timing."""
    row, chance = rows.get("dynamics", "agreement_alpha_uniform"), rows.value("dynamics", "chance")
    if row is None or chance is None:
        return
    loo, own, habit = (
        rows.value("dynamics", f"agreement_alpha_{name}")
        for name in ("loo", "relevance", "uniform_elsewhere")
    )
    alike = (
        "pair of the same length at the same position"
        if about.translates
        else "text of the same length"
    )
    gap = rows.get("dynamics", ABOVE_HABIT)
    above_chance = row["low"] > chance
    above_habit = row["low"] > (habit or 0.0) if gap is None else (gap["low"] or 0.0) > 0.0
    follows = above_chance and above_habit
    alone = 0 if gap is None else gap["undefined"]
    of_others = f"; by the relevance of another {alike}{', where there is one' if alone else ''}: "
    sentence = (
        f"In {percent(row['value'])} of the {'gold tokens' if about.translates else 'texts'} the token with the most attention is among "
        f"the top 5 % by relevance in a model with uniform attention (by chance: {percent(chance)}"
        f"{'' if habit is None else f'{of_others}{percent(habit)}'}). "
    )
    if loo is not None and own is not None:
        sentence += (
            f"By relevance in the model itself: {percent(own)}; by leave-one-out: {percent(loo)}. "
        )
    sentence += (
        "So attention goes to tokens whose relevance is learned without it. "
        if follows
        else "So attention goes to tokens whose relevance is learned without it less often than by chance. "
        if row["high"] < chance
        else "The interval contains chance: no evidence that attention follows relevance learned without it. "
        if not above_chance
        else "That is above chance, but not above positional habit: no evidence that it follows the tokens. "
    )
    sentence += _timing(rows)
    measure = "A(α, rᵘ): top position by attention, top 5 % by relevance under uniform attention"
    compared = f"{figure(chance)} by chance" + (
        "" if habit is None else f", {figure(habit)} by positional habit"
    )
    claim = Claim(
        follows,
        f"attention goes {'' if follows else 'less often than by chance '}to tokens whose relevance is learned without it",
    )
    decided, mark = follows or row["high"] < chance, chance if alone else max(chance, habit or 0.0)
    yield card_row(
        QUESTION, measure, row, compared, sentence, mark=mark, claim=claim if decided else None
    )


def _timing(rows: SummaryRows) -> str:
    """What was known when attention got its own, or why that cannot be said."""
    xi, best, step, gap = (
        rows.get("dynamics", name)
        for name in ("xi", "best_accuracy", "xi_step", "best_accuracy_minus_xi")
    )
    reached, threshold, chance = (
        rows.get("dynamics", name) for name in ("xi_reached", "xi_threshold", "chance")
    )
    if best is None or reached is None or threshold is None or chance is None:
        return "Timing needs more than one seed."
    if xi is None or step is None or gap is None:
        return (
            "The timing of attention is undefined: at no step does attention of another seed agree with the first seed's "
            f"({figure(reached['value'])} at most) better than relevance under uniform attention does ({figure(threshold['value'])})."
        )
    if timed_by_chance(threshold, chance):
        return (
            f"Relevance under uniform attention agrees with the first seed's attention ({figure(threshold['value'])}) no better than "
            "chance, within its interval: the step at which attention of other seeds is closer says nothing about which is learned first."
        )
    others = f" {count(xi['undefined'], 'seed')} never reach it." if xi["undefined"] else ""
    early = rows.value("dynamics", "xi_early")
    soon = "" if not early else (
        f" In {percent(early)} of the seeds that do, there is no checkpoint between the start and that step, so it says little about the "
        "order; add steps to dynamics.steps."
    )  # fmt: skip
    return (
        f"Attention of other seeds is closer to the first seed's than relevance under uniform attention is after {step['value']:.0f} "
        f"steps; by then accuracy is {figure(xi['value'])} {interval(xi)}, of {figure(xi['value'] + gap['value'])} at the best step, "
        "chosen on test."
        f"{others}{soon}"
    )


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> tuple[StudyFigure, StudyFigure]:
    """What attention agrees with at every step, and what comes first."""
    return _agreement_figure(table, summary), _order_figure(summary)


def _agreement_figure(table: pl.DataFrame, summary: pl.DataFrame) -> StudyFigure:
    """Agreement and τ of attention with all that it is compared with, and of relevance with that of the model with uniform attention."""
    chance = {"chance": "chance"}
    first = {f"agreement_alpha_{name}": word for name, word in _WITH_ALPHA.items()}
    others = {
        "agreement_relevance_uniform": "r and r under uniform attention",
        "agreement_loo_uniform": "leave-one-out and r under uniform attention",
    }  # fmt: skip
    panels = (
        _panel(summary, "First in attention, at the top of …", "agreement", first, chance),
        _panel(
            summary,
            "τ between attention and …",
            "Kendall's τ",
            {f"tau_alpha_{name}": word for name, word in _WITH_ALPHA.items()},
        ),
        _panel(summary, "First in one, at the top of the other", "agreement", others, chance),
    )
    return StudyFigure(
        "agreement",
        "What does attention agree with while it is learned?",
        _agreement_caption(table),
        panels,
    )


def _order_figure(summary: pl.DataFrame) -> StudyFigure:
    """Relevance under uniform attention and attention of fresh seeds, on their way to the reference's attention; accuracy; entropy."""
    ways = {
        "agreement_reference_alpha": "attention of the other seeds", "agreement_reference_relevance_uniform": "r under uniform attention",
        "agreement_reference_relevance_elsewhere_uniform": "the same, of other texts",
    }  # fmt: skip
    accuracy = {"accuracy": "learned attention", "accuracy_uniform": "uniform attention"}
    panels = (
        _panel(
            summary,
            "First in the reference's attention, at the top of …",
            "agreement",
            ways,
            {"chance": "chance"},
        ),
        _panel(summary, "Accuracy with …", "accuracy", accuracy),
        _panel(summary, "Entropy of attention", "share of ln T", {"entropy": "learned attention"}),
    )
    caption = (
        "Left: the reference is the finished model of the first seed. Attention can learn from relevance that grows before it. Agreement "
        "with the relevance of other texts of the same length is positional habit (texts of a unique length do not count there). "
        "Middle: accuracy on the probe. Right: 1 is uniform attention, 0 all of it on one token. Bands: 95 % bootstrap "
        "intervals over seeds and instances."
    )
    return StudyFigure("order", "What comes first, relevance or attention?", caption, panels)


def _agreement_caption(table: pl.DataFrame) -> str:
    probe = table.filter(pl.col("model") == "base", pl.col("step").is_not_null())
    instances, seeds = (
        count(probe[name].n_unique(), noun)
        for name, noun in (("instance", "instance"), ("seed", "seed"))
    )
    gold = (
        "the log-probability of the gold token"
        if "query" in table.columns
        else "the contribution of a position to the gold class"
    )
    on_it = "that position" if "query" in table.columns else "it"
    return (
        f"On {instances} of test, {seeds}; steps on a square-root axis. Agreement: how often the top position of one score is among "
        f"the top 5 % of the other; relevance r is {gold} if all attention were on {on_it}. The dotted line is agreement with a shuffled "
        "score. Bands: 95 % bootstrap intervals over seeds and instances. The curves end with the weights of the last step; the finished "
        "models of the verdict and of the first table have those of their best epoch on dev, and are measured on all of test."
    )


def _panel(
    summary: pl.DataFrame, title: str, axis: str, lines: Mapping[str, str], marked: Mapping[str, str] | None = None
) -> StudyPanel:  # fmt: skip
    points = _points(summary, lines)
    if points.is_empty():
        return StudyPanel(title, "One seed alone: there is no other to compare with the reference.")
    name = f"dynamics-{next(iter(lines)).replace('_', '-')}"
    label = f"{title} {', '.join(points['group'].unique(maintain_order=True))}, by optimizer step"
    return StudyPanel(title, StepLines(points, axis, _points(summary, marked or {})), name, label)


def _points(summary: pl.DataFrame, measures: Mapping[str, str]) -> pl.DataFrame:
    """{group, step, value, low, high} of the measures at every step at which they have a value."""
    at_steps = summary.filter(pl.col("group").str.starts_with(STEP), pl.col("value").is_not_null())
    named = pl.DataFrame(
        {"measure": list(measures), "name": list(measures.values())},
        schema={"measure": pl.String, "name": pl.String},
    )
    found = named.join(at_steps, on="measure", how="inner", maintain_order="left_right")
    return found.select(
        pl.col("name").alias("group"),
        pl.col("group").str.strip_prefix(STEP).cast(pl.Int64).alias("step"),
        "value",
        "low",
        "high",
    )


CARD = StudyCard(rows=card_rows, figures=figures)
