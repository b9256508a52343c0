"""Does the attended sum determine the attention weights? (Brunner et al. 2020)."""

from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale, Violins
from attnaudit.report.words import amount, figure, percent
from attnaudit.results import About, SummaryRows

QUESTION = "How far can attention move with exactly the same attended sum?"
_NAME = "identifiability"
_SHOWN = 0.005  # less would be shown as 0.00


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word the distance of other weights with exactly the same sum."""
    if not (known := rows.all_of(_NAME, "max_tvd_alpha", "identifiable")):
        return
    row, identifiable = known
    share = identifiable["value"]
    reach, upper = row["value"], rows.value(_NAME, "max_tvd_alpha_upper")
    loose = upper is not None and upper - reach >= _SHOWN
    sentence = "The attended sum determines the attention weights: no others give the same sum."
    if share < 1.0:
        sentence = (
            f"In {percent(1.0 - share)} of {rows.unit}s other weights give exactly the same sum, "
            "and so the same output. The farthest of them are at a total variation distance of "
            f"{amount(reach)} from the model's own, on average. In general a sum determines the "
            "weights only if a text has at most one token more than the sum has numbers."
        )
    yield card_row(
        QUESTION,
        "mean largest TVD found",
        row,
        (f"at most {figure(upper)} (upper bound); " if loose else "")
        + "0: the attended sum determines the weights, 1: all weight on other tokens",
        sentence,
        places=3 if reach < _SHOWN else 2,
    )


_CAPTION = (
    "Largest total variation distance found from the model's own attention to one with exactly the "
    "same attended sum, and so with the same output. At 0 the sum determines the weights; the "
    "farther right, the less it does."
)
_AXIS = Scale("largest TVD with the same sum")
_CHARTS = (
    Histogram("max_tvd_alpha", _AXIS),
    Violins("max_tvd_alpha", _AXIS, "By the largest weight"),
)
CARD = Card(QUESTION, card_rows, (FigureSpec(_NAME, QUESTION, _CHARTS, _CAPTION),))
