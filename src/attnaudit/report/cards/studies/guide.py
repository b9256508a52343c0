"""Do these weights carry information to another model? A bag of words led by weights from elsewhere (Wiegreffe & Pinter 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from attnaudit.report.cards.card import StudyCard
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import Intervals, StudyFigure, StudyPanel
from attnaudit.results.words import figure
from attnaudit.studies.guide import Guide
from attnaudit.studies.over_seeds import (
    model_label,
    of_models,
    seeds_and_spread,
)


def _claim(row: Mapping[str, Any]) -> Claim | None:
    if row["low"] > 0:
        return Claim(True, "its weights tell another model which tokens matter")
    return Claim(False, "its weights do not help another model") if row["high"] < 0 else None


def _carried(row: Mapping[str, Any], even: Mapping[str, Any], own: Mapping[str, Any] | None) -> str:
    """What their F1, less that of uniform weights, says of weights that led another model."""
    if row["low"] > 0:
        return "So the weights tell another model which tokens matter."
    if row["high"] >= 0:
        return "The interval contains 0: no evidence that they transfer."
    neither = (
        f"; its own learned weights do not help either (F1 {figure(own['value'])})"
        if own and own["value"] <= even["value"]
        else ""
    )
    return f"So they do not help another model, which is better without them{neither}."


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """F1 under the base's attention; where it is not among the weights, under others, with a sentence that says so."""
    even, own = rows.get("guide", "f1_uniform"), rows.get("guide", "f1_learned")
    if even is None:
        return
    names = [
        measure.removeprefix("f1_")
        for study, measure in rows.rows
        if study == "guide" and measure.startswith("f1_")
    ]
    name = min(
        set(names) - {"uniform"},
        key=lambda name: (name != "base", name == "learned", names.index(name)),
        default="uniform",
    )
    row = rows.get("guide", f"difference_f1_{name}") or even
    f1 = {other: figure(rows.rows["guide", f"f1_{other}"]["value"]) for other in names}
    words = {"base": "this attention", "learned": "its own learned weights"}.get(
        name, model_label(name)
    )
    led = f"{f1[name]} with {words}, " if name != "uniform" else ""
    said = [f"A token-wise model reaches F1 {led}{f1['uniform']} with uniform weights."]
    said += [_carried(row, even, own)] if name not in ("learned", "uniform") else []
    said += (
        ["The attention of the model under study was not among the weights (guide.weights)."]
        if name != "base"
        else []
    )
    others = {"learned": "its own attention", "adversary": "an adversary's"}
    compared = "; ".join(
        f"{words} {f1[other]}" for other, words in others.items() if other in f1 and other != name
    )
    measure = (
        "F1 with uniform weights"
        if row is even
        else f"F1 with {'it' if name == 'base' else words} minus F1 with uniform weights"
    )
    claim = _claim(row) if name == "base" else None
    yield card_row(
        Guide.question,
        measure,
        row,
        compared or "–",
        " ".join(said),
        scale=(-1.0, 1.0),
        claim=claim,
    )


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[StudyFigure]:
    gaps, title = (
        of_models(summary, "difference_f1", Guide.measures),
        "Minus F1 with uniform weights",
    )
    chart = (
        Intervals(gaps, "difference of F1") if gaps.height else "Only uniform weights were given."
    )
    scores = Intervals(of_models(summary, "f1", Guide.measures), "F1")
    panels = (
        StudyPanel("F1 by weights", scores, "guide-f1", "F1 of the guided model by weights"),
        StudyPanel(title, chart, "guide-gap", "Paired difference of F1 by weights"),
    )
    caption = f"A token-wise model with given attention weights, {seeds_and_spread(table)}; right, the paired difference to uniform weights."
    yield StudyFigure(
        "guide", "Do the weights carry information to another model?", caption, panels
    )


CARD = StudyCard(rows=card_rows, figures=figures)
