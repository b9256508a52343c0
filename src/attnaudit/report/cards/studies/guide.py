"""Do these weights carry information to another model? (Wiegreffe & Pinter 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from attnaudit.experiments.verdict import AGAINST, FOR, decide
from attnaudit.report.cards.card import Axis, CardRow, Claim, StudyCard, card_row
from attnaudit.report.charts.specs import Intervals, StudyFigure, StudyPanel
from attnaudit.report.words import figure
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows
from attnaudit.studies.guide import Guide
from attnaudit.studies.over_seeds import model_label, of_models, seeds_and_spread


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word F1 under the base's attention, or under others if that is not among the weights."""
    even, own = rows.get("guide", "f1_uniform"), rows.get("guide", "f1_learned")
    if even is None:
        return
    f1 = {
        measure.removeprefix("f1_"): figure(row["value"])
        for (study, measure), row in rows.rows.items()
        if study == "guide" and measure.startswith("f1_")
    }
    others = [name for name in f1 if name != "uniform"]
    name = min(others, key=lambda one: (one != "base", one == "learned"), default="uniform")
    row = rows.get("guide", f"difference_f1_{name}") or even
    special = {"base": "this attention", "learned": "its own learned weights"}
    words = special.get(name, model_label(name))
    led = f"{f1[name]} with {words}, " if name != "uniform" else ""
    said = [f"A token-wise model reaches F1 {led}{f1['uniform']} with uniform weights."]
    finding, clause = None, "its weights tell another model which tokens matter"
    if name not in ("learned", "uniform"):
        found = decide(row, 0.0, FOR, AGAINST)
        said.append(_carried(found.side, even, own))
        finding = found if name == "base" else None
        if found.side == AGAINST:
            clause = "its weights do not help another model"
    if name != "base":
        said.append(
            "The attention of the model under study was not among the weights (guide.weights)."
        )
    compared = "; ".join(
        f"{other_words} {f1[other]}"
        for other, other_words in (
            ("learned", "its own attention"),
            ("adversary", "an adversary's"),
        )
        if other in f1 and other != name
    )
    led_by = "it" if name == "base" else words
    measure = f"F1 with {led_by} minus F1 with uniform weights"
    yield card_row(
        Guide.question,
        "F1 with uniform weights" if row is even else measure,
        row,
        compared or "–",
        " ".join(said),
        axis=Axis(ends=(-1.0, 1.0)),
        claim=Claim(finding, clause),
    )


def _carried(side: str, even: Mapping[str, Any], own: Mapping[str, Any] | None) -> str:
    """Say what the difference to uniform weights means for weights that led another model."""
    if side == FOR:
        return "So the weights tell another model which tokens matter."
    if side != AGAINST:
        return "The interval contains 0: no evidence that they transfer."
    neither = ""
    if own is not None and own["value"] <= even["value"]:
        neither = f"; its own learned weights do not help either (F1 {figure(own['value'])})"
    return f"So they do not help another model, which is better without them{neither}."


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[StudyFigure]:
    """Draw F1 by weights, and its difference to uniform weights."""
    gaps = of_models(summary, "difference_f1", Guide.measures)
    scores = Intervals(of_models(summary, "f1", Guide.measures), "F1")
    chart: Intervals | str = "Only uniform weights were given."
    if gaps.height:
        chart = Intervals(gaps, "difference of F1")
    panels = (
        StudyPanel("F1 by weights", scores, "guide-f1", "F1 of the guided model by weights"),
        StudyPanel(
            "Minus F1 with uniform weights",
            chart,
            "guide-gap",
            "Paired difference of F1 by weights",
        ),
    )
    caption = (
        f"A token-wise model with given attention weights, {seeds_and_spread(table)}; right, the "
        "paired difference to uniform weights."
    )
    title = "Do the weights carry information to another model?"
    yield StudyFigure("guide", title, caption, panels)


CARD = StudyCard(card_rows, figures)
