"""What is attention learned from? (Snell et al. 2021)."""

from collections.abc import Iterator, Mapping

import polars as pl

from attnaudit.core import count
from attnaudit.experiments.findings import AGAINST, FOR, HIGH, LOW, NEITHER, UNCLEAR, Finding
from attnaudit.report.cards.card import CardRows, StudyCard, card_row
from attnaudit.report.charts.marks import Scale, line_chart
from attnaudit.report.charts.svg import Figure, Panel, drawn
from attnaudit.report.words import figure, percent, with_interval
from attnaudit.results import About, Row, SummaryRows
from attnaudit.studies.dynamics.measures import ABOVE_HABIT, ELSEWHERE, STEP
from attnaudit.studies.dynamics.study import Dynamics


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word whether attention goes where relevance is learned without it, and when."""
    if not (known := rows.all_of("dynamics", "agreement_alpha_uniform", "chance")):
        return
    row, chance = known
    gap, habit = rows.get("dynamics", ABOVE_HABIT), rows.value("dynamics", ELSEWHERE)
    by_chance, low, high = chance["value"], row["low"], row["high"]
    above_habit = low > (habit or 0.0) if gap is None else (gap["low"] or 0.0) > 0.0
    # Two texts can agree by position alone, so chance is not enough of a baseline.
    follows, below = low > by_chance and above_habit, high < by_chance
    goes = "attention goes to tokens whose relevance is learned without it"
    goes += " less often than by chance" if below else ""
    said = f"So {goes}."
    if not (follows or below):
        reached = "The interval contains chance"
        if low > by_chance:
            reached = "That is above chance, but not above positional habit"
        said = f"{reached}: no evidence that attention follows relevance learned without it."
    side, code = (FOR, HIGH) if follows else (AGAINST, LOW) if below else (NEITHER, UNCLEAR)
    texts = "gold tokens" if about.translates else "texts"
    by_habit = "" if habit is None else f", {figure(habit)} by another text (positional habit)"
    yield card_row(
        Dynamics.question,
        "A(α, rᵘ): top position by attention, top 5 % by relevance under uniform attention",
        row,
        f"{figure(by_chance)} by chance{by_habit}",
        f"In {percent(row['value'])} of the {texts} the token with the most attention is among the "
        f"top 5 % by relevance in a model with uniform attention. {said} {_timing(rows, chance)}",
        finding=Finding("dynamics", row["measure"], side, code, low, high),
        clause=goes,
    )


def _timing(rows: SummaryRows, chance: Row) -> str:
    """Say what was known when attention got its own, or why that cannot be said."""
    if not (ends := rows.all_of("dynamics", "xi_reached", "xi_threshold")):
        return "Timing needs more than one seed."
    reached, threshold = ends
    if not (known := rows.all_of("dynamics", "xi", "xi_step", "best_accuracy_minus_xi")):
        return (
            "The timing of attention is undefined: at no step does attention of another seed agree "
            f"with the first seed's ({figure(reached['value'])} at most) better than relevance "
            f"under uniform attention does ({figure(threshold['value'])})."
        )
    xi, step, gap = known
    # Then ξ says nothing about what comes first.
    if threshold["low"] is not None and threshold["low"] <= chance["value"]:
        return (
            "Relevance under uniform attention agrees with the first seed's attention "
            f"({figure(threshold['value'])}) no better than chance, within its interval: the step "
            "at which attention of other seeds is closer says nothing about which is learned first."
        )
    never = f" {count(xi['undefined'], 'seed')} never reach it." if xi["undefined"] else ""
    text = (
        "Attention of other seeds is closer to the first seed's than relevance under uniform "
        f"attention is after {step['value']:.0f} steps; by then accuracy is {with_interval(xi)}, "
        f"of {figure(xi['value'] + gap['value'])} at the best step, chosen on test.{never}"
    )
    if early := rows.value("dynamics", "xi_early"):
        text += (
            f" In {percent(early)} of the seeds that do, there is no checkpoint between the start "
            "and that step, so it says little about the order; add steps to dynamics.steps."
        )
    return text


_ALPHA = {
    "relevance": "its own relevance r",
    "uniform": "r trained under uniform attention",
    "loo": "leave-one-out",
    "embedding": "mean embedding",
    "logistic": "logistic regression",
}
_CHANCE = {"chance": "chance"}
# Title, vertical axis and the names of the measures of each panel.
_AGREEMENT = (
    (
        "First in attention, at the top of …",
        "agreement",
        {f"agreement_alpha_{name}": word for name, word in _ALPHA.items()} | _CHANCE,
    ),
    (
        "τ between attention and …",
        "Kendall's τ",
        {f"tau_alpha_{name}": word for name, word in _ALPHA.items()},
    ),
    (
        "First in one, at the top of the other",
        "agreement",
        {
            "agreement_relevance_uniform": "r and r under uniform attention",
            "agreement_loo_uniform": "leave-one-out and r under uniform attention",
            **_CHANCE,
        },
    ),
)
_ORDER = (
    (
        "First in the reference's attention, at the top of …",
        "agreement",
        {
            "agreement_reference_alpha": "attention of the other seeds",
            "agreement_reference_relevance_uniform": "r under uniform attention",
            "agreement_reference_relevance_elsewhere_uniform": "the same, of other texts",
            **_CHANCE,
        },
    ),
    (
        "Accuracy with …",
        "accuracy",
        {"accuracy": "learned attention", "accuracy_uniform": "uniform attention"},
    ),
    ("Entropy of attention", "share of ln T", {"entropy": "learned attention"}),
)
_BANDS = "Bands: 95 % bootstrap intervals over seeds and texts."


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[Figure]:
    """Draw what attention agrees with at every step, and what comes first."""
    probe = table.filter(pl.col("model") == "base", pl.col("step").is_not_null())
    texts, seeds = (
        count(probe["instance"].n_unique(), "text"),
        count(probe["seed"].n_unique(), "seed"),
    )
    gold = "the contribution of a position to the gold class if all attention were on it"
    if "query" in table.columns:
        gold = "the log-probability of the gold token if all attention were on that position"
    yield Figure(
        "agreement",
        "What does attention agree with while it is learned?",
        f"On {texts} of test, {seeds}; steps on a square-root axis. Agreement: how often the "
        "top position of one score is among the top 5 % of the other; relevance r is "
        f"{gold}. Chance is agreement with a shuffled score. {_BANDS} The curves end with the "
        "weights of the last step; the finished models of the verdict and of the first table have "
        "those of their best epoch on dev, and are measured on all of test.",
        tuple(_panel(summary, *panel) for panel in _AGREEMENT),
    )
    yield Figure(
        "order",
        "What comes first, relevance or attention?",
        "Left: the reference is the finished model of the first seed. Attention can learn from "
        "relevance that grows before it. Agreement with the relevance of other texts of the same "
        "length is positional habit (texts of a unique length do not count there). Middle: "
        "accuracy on the probe. Right: 1 is uniform attention, 0 all of it on one token. "
        f"{_BANDS}",
        tuple(_panel(summary, *panel) for panel in _ORDER),
    )


def _panel(summary: pl.DataFrame, title: str, axis: str, names: Mapping[str, str]) -> Panel:
    """Draw measures, by name, at the steps where they have a value."""
    group, measure = pl.col("group"), pl.col("measure")
    points = (
        summary.filter(group.str.starts_with(STEP), pl.col("value").is_not_null())
        .filter(measure.is_in(names))
        .sort(measure.cast(pl.Enum(list(names))), maintain_order=True)
        .select(
            *("value", "low", "high"),
            group=measure.replace_strict(names),
            x=group.str.strip_prefix(STEP).cast(pl.Int64),
        )
    )
    known = points["group"].unique(maintain_order=True).to_list()
    if known in ([], ["chance"]):
        return Panel(title, note="There is only one seed: no other to compare with the reference.")
    chart = line_chart(points, Scale("optimizer steps", None, root=True), Scale(axis, None))
    name = f"dynamics-{next(iter(names)).replace('_', '-')}"
    return drawn(title, chart, name, f"{title} {', '.join(known)}, by optimizer step")


CARD = StudyCard(card_rows, figures)
