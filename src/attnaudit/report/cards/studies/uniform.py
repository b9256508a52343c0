"""Does this corpus need attention? Everything trained with the attention frozen at 1/T (Wiegreffe & Pinter 2019)."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from attnaudit.report.cards.card import StudyCard
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import Intervals, StudyFigure, StudyPanel
from attnaudit.results.words import figure, interval
from attnaudit.studies.over_seeds import (
    HARDLY,
    model_label,
    of_models,
    seeds_and_spread,
)
from attnaudit.studies.uniform import Uniform

_DIFFERENCE = "difference_f1_"


def _card_row(rows: SummaryRows, model: str) -> Iterator[CardRow]:
    """What the uniform ``model`` shows, of all attention or of a transformer's layer."""
    row, base, even = (
        rows.get("uniform", name) for name in (f"{_DIFFERENCE}{model}", "f1_base", f"f1_{model}")
    )
    if row is None or base is None or even is None:
        return
    claim, how = None, model_label(model)
    needed = "attention" if model == "uniform" else how.replace("uniform", "learned")
    sentence = f"Retrained with {how}, the model reaches F1 {figure(even['value'])} instead of {figure(base['value'])}. "
    if row["low"] > -HARDLY:
        says = ", and says little about attention" if model == "uniform" else ""
        sentence += (
            f"This corpus hardly needs {needed} (a loss of {HARDLY} is outside the interval){says}."
        )
        claim = Claim(False, f"this corpus hardly needs {needed}")
    elif row["high"] < 0:
        alone = row["std"] is None
        chance = (
            "instances explain, although one seed says nothing about others"
            if alone
            else "seeds and instances explain"
        )
        sentence += f"The loss is beyond what {chance}: here nothing else replaces {needed}."
        claim = Claim(True, f"retrained with {how}, it predicts worse")
    else:
        sentence += "The interval contains both no loss and a relevant one: more seeds, or more test texts, are needed."
    yardstick = f"base model F1 {figure(base['value'])} {interval(base)}"
    yield card_row(
        Uniform.question,
        f"F1 with {how} minus F1 of the base model",
        row,
        yardstick,
        sentence,
        scale=(-1.0, 1.0),
        claim=claim,
    )


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    for measure in [
        measure
        for study, measure in rows.rows
        if study == "uniform" and measure.startswith(_DIFFERENCE)
    ]:
        yield from _card_row(rows, measure.removeprefix(_DIFFERENCE))


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[StudyFigure]:
    titles = {"f1": "F1", "accuracy": "accuracy", "roc_auc": "ROC-AUC"}
    charts = {
        name: Intervals(of_models(summary, name, Uniform.measures), title)
        for name, title in titles.items()
    }
    panels = tuple(
        StudyPanel(
            titles[name],
            chart,
            f"uniform-{name}",
            f"{titles[name]} of both models with intervals",
        )
        for name, chart in charts.items()
    )
    caption = (
        f"The base model and the same model with uniform attention, trained alike with {seeds_and_spread(table)}. The numbers below "
        "have the paired differences."
    )
    yield StudyFigure("uniform", "What is lost without attention?", caption, panels)


CARD = StudyCard(rows=card_rows, figures=figures)
