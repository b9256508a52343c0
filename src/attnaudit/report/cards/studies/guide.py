"""Do these weights carry information to another model? (Wiegreffe & Pinter 2019)."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from attnaudit.experiments.verdict import AGAINST, FOR, decide
from attnaudit.report.cards.card import Axis, CardRow, Claim, StudyCard, card_row
from attnaudit.report.charts.specs import StudyFigure
from attnaudit.report.models import model_label, score_panels, seeds_and_spread
from attnaudit.report.words import figure
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows
from attnaudit.studies.guide import Guide


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word F1 under the base's attention, or under others if that is not among the weights."""
    scores = {
        measure.removeprefix("f1_"): row["value"]
        for (study, measure), row in rows.rows.items()
        if study == "guide" and measure.startswith("f1_")
    }
    if "uniform" not in scores:
        return
    # The usual weights are the base's; a model with its own weights transfers nothing.
    others = sorted(scores, key=lambda one: (one == "uniform", one != "base", one == "learned"))
    name, f1 = others[0], {one: figure(score) for one, score in scores.items()}
    special = {"base": "this attention", "learned": "its own learned weights"}
    words = special.get(name, model_label(name))
    led = f"{f1[name]} with {words}, " if name != "uniform" else ""
    said = f"A token-wise model reaches F1 {led}{f1['uniform']} with uniform weights."
    row = rows.get("guide", f"difference_f1_{name}") or rows.rows["guide", "f1_uniform"]
    finding, clause = None, "its weights tell another model which tokens matter"
    found = decide(row, 0.0, FOR, AGAINST)
    if name in ("learned", "uniform"):
        pass
    elif found.side == FOR:
        said += " So the weights tell another model which tokens matter."
    elif found.side == AGAINST:
        clause = "its weights do not help another model"
        said += " So they do not help another model, which is better without them"
        if scores.get("learned", 1.0) <= scores["uniform"]:
            said += f"; its own learned weights do not help either (F1 {f1['learned']})"
        said += "."
    else:
        said += " The interval contains 0: no evidence that they transfer."
    if name == "base":
        finding = found
    else:
        said += " The attention of the model under study was not among the weights (guide.weights)."
    compared = {"learned": "its own attention", "adversary": "an adversary's"}
    yardstick = (
        f"{label} {f1[one]}" for one, label in compared.items() if one in f1 and one != name
    )
    measure = f"F1 with {'it' if name == 'base' else words} minus F1 with uniform weights"
    yield card_row(
        Guide.question,
        "F1 with uniform weights" if name == "uniform" else measure,
        row,
        "; ".join(yardstick) or "–",
        said,
        axis=Axis(ends=(-1.0, 1.0)),
        claim=Claim(finding, clause),
    )


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[StudyFigure]:
    """Draw F1 by weights, and its difference to uniform weights."""
    titles = {"f1": "F1 by weights", "difference_f1": "Minus F1 with uniform weights"}
    caption = (
        f"A token-wise model with given attention weights, {seeds_and_spread(table)}; right, the "
        "paired difference to uniform weights."
    )
    panels = score_panels(Guide, summary, titles)
    title = "Do the weights carry information to another model?"
    yield StudyFigure("guide", title, caption, panels)


CARD = StudyCard(card_rows, figures)
