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
    "to, 1 if words only add up. Right: the rank correlation of its absolute weights with the "
    "change of the output there."
)


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Describe how well a sum over words predicts copies, beside attention."""
    names = "r2_held_out", "replacement_surrogate", "surrogate_share"
    row, own, share = (rows.get(_NAME, name) for name in names)
    words = rows.value(_NAME, "surrogate_words")
    if row is None or own is None or share is None or words is None:
        return
    yield card_row(
        QUESTION,
        "R² of a sparse sum of word weights in copies that it was not fitted to",
        row,
        "1: words only add up, 0: no better than the mean",
        f"With words replaced, the weights of {figure(words, 1)} words of a text on average "
        f"correlate {with_interval(own)} with the change of the output; attention{of_head(rows)} "
        f"reaches {with_interval(share)} times that.",
        axis=Axis(ends=(-1.0, 1.0)),
    )


_CHARTS = (
    Histogram("r2_held_out", Scale("R² of a text", None)),
    Histogram("replacement_surrogate", Scale("correlation of a text", None)),
)
CARD = Card(QUESTION, card_rows, (FigureSpec(_NAME, QUESTION, _CHARTS, _CAPTION),))
