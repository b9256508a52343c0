"""Do a few words add up to the prediction, and are they the attended ones?"""

from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.cards.wording import of_head
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale
from attnaudit.report.words import figure, with_interval
from attnaudit.results import About, SummaryRows
from attnaudit.trace import SHOWN

QUESTION = "Do a few words add up to the prediction?"
_NAME = "surrogate"
_CAPTION = (
    "For each text, a weighted sum of words is fitted to half of its copies and judged by the "
    "others. Left: the share of the log-odds' variance that it predicts, 1 if the effects of words "
    "add up. Right: the rank correlation of its absolute weights with the change of the output."
)


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Describe how well a sum over words predicts copies, beside attention."""
    names = "r2_held_out", "replacement_surrogate", "surrogate_share", "surrogate_words"
    if not (known := rows.all_of(_NAME, *names)):
        return
    row, own, share, words = known
    number = words["value"]
    weights = "The heatmap" if rows.heatmap == SHOWN else f"Attention{of_head(rows)}"
    yield card_row(
        QUESTION,
        "R² of a sparse sum of word weights, on copies not fitted",
        row,
        "1: the effects of words add up, 0: no better than the mean",
        f"When words are replaced, a sum with weights for {figure(number, 1)} words of a text on "
        f"average correlates with the change of the output at {with_interval(own)}. {weights} "
        f"correlates {with_interval(share)} times as well.",
    )


_CHARTS = (
    Histogram("r2_held_out", Scale("R² of a text", None)),
    Histogram("replacement_surrogate", Scale("correlation of a text", None)),
)
CARD = Card(QUESTION, card_rows, (FigureSpec(_NAME, QUESTION, _CHARTS, _CAPTION),))
