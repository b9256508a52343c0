"""Do a few words add up to the prediction, and are they the attended ones?"""

from __future__ import annotations

from collections.abc import Iterator

from attnaudit.report.cards.card import Axis, Card, CardRow, card_row
from attnaudit.report.cards.wording import of_head
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale
from attnaudit.report.words import figure, with_interval
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows

QUESTION = "Do a few words add up to the prediction?"
_NAME = "surrogate"
_CAPTION = (
    "A weighted sum of words, fitted for each text to copies in which other words are replaced. "
    "Left: the share of the log-odds' variance that it predicts in copies that it was not fitted "
    "to, 1 if words only add up. Right: its rank correlation with the fall of the log-odds there."
)


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Describe how well a sum over words predicts copies, beside attention."""
    row, own, lead = (
        rows.get(_NAME, name)
        for name in (
            "r2_held_out",
            "replacement_surrogate",
            "replacement_attention_minus_replacement_surrogate",
        )
    )
    words = rows.value(_NAME, "surrogate_words")
    if row is None or own is None or lead is None or words is None:
        return
    yield card_row(
        QUESTION,
        "R² of a sparse sum of word weights in copies that it was not fitted to",
        row,
        "1: words only add up, 0: no better than the mean",
        f"With words replaced, a sum over {figure(words, 1)} words of a text on average correlates "
        f"{with_interval(own)} with the fall of the output; attention{of_head(rows)} minus this "
        f"sum: {with_interval(lead)}.",
        axis=Axis(ends=(-1.0, 1.0)),
    )


_CHARTS = (
    Histogram("r2_held_out", Scale("R² of a text", None)),
    Histogram("replacement_surrogate", Scale("correlation of a text", None)),
)
CARD = Card(QUESTION, card_rows, (FigureSpec(_NAME, QUESTION, _CHARTS, _CAPTION),))
