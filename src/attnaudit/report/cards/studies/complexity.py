"""Does complexity make attention easy to move?"""

from collections.abc import Iterator

import polars as pl

from attnaudit.report.cards.card import CardRow, StudyCard, card_row
from attnaudit.report.charts.svg import Figure
from attnaudit.report.models import score_panels, seeds_and_spread
from attnaudit.report.words import with_interval
from attnaudit.results import About, SummaryRows
from attnaudit.studies.complexity import FACTORS, Complexity

_OUTCOMES = {
    "area": ("area between the frontier and uniform", "to move attention in the frozen model"),
    "held_out": ("held-out JSD beyond another seed's", "to train a model that attends elsewhere"),
}
_TITLES = {"area": "area", "held_out": "held-out JSD", "tvd": "TVD of the adversary"}


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word the slopes of both outcomes on every factor."""
    for name, (label, moved) in _OUTCOMES.items():
        for factor, (_, _, of) in FACTORS.items():
            row, base = (
                rows.get("complexity", measure)
                for measure in (f"slope_{name}_{factor}", f"{name}_base")
            )
            if row is None or base is None:
                continue
            how = "easier" if row["low"] > 0.0 else "harder" if row["high"] < 0.0 else ""
            sentence = f"With more {of} it is {how} {moved}."
            if not how:
                sentence = f"It is open whether more {of} make it easier {moved}."
            yield card_row(
                Complexity.question,
                f"slope of the {label}, per doubling of the {of}",
                row,
                f"base model {with_interval(base)}",
                sentence,
                places=3,
            )


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[Figure]:
    """Draw both outcomes of every model."""
    caption = (
        "The base model and models that differ from it in one factor, trained alike with "
        f"{seeds_and_spread(table)}. Area: how much farther attention can move than towards "
        "uniform while the output stays within ε, from 0 (no farther) to 1. Held-out JSD: distance "
        "of the attention of a model trained to attend elsewhere, minus that of another seed."
    )
    yield Figure(
        "complexity", Complexity.question, caption, score_panels(Complexity, summary, _TITLES)
    )


CARD = StudyCard(card_rows, figures)
