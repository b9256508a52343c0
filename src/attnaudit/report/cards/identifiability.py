"""Does the attended sum determine the attention weights? (Brunner et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from attnaudit.report.cards.card import Axis, Card, CardRow, card_row
from attnaudit.report.cards.wording import across, heads
from attnaudit.report.charts.specs import FigureSpec, Histogram, Scale, Violins
from attnaudit.report.words import amount, figure, name_head, percent
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows

QUESTION = "How far can attention move with exactly the same attended sum?"
_NAME = "identifiability"
_SHOWN = 0.005  # less would be shown as 0.00


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word the distance of other weights with exactly the same sum."""
    row, known = rows.get(_NAME, "max_tvd_alpha"), rows.value(_NAME, "identifiable")
    if row is None or known is None:
        return
    reach, upper = row["value"], rows.value(_NAME, "max_tvd_alpha_upper")
    loose = upper is not None and upper - reach >= _SHOWN
    found = card_row(
        QUESTION,
        "mean largest TVD found",
        row,
        (f"at most {figure(upper)} (upper bound); " if loose else "")
        + "0: the attended sum determines the weights, 1: all weight on other tokens",
        _sentence(reach, known, rows) + across(rows, _NAME, "max_tvd_alpha", "Mean distance"),
        axis=Axis(mark=upper, places=3 if reach < _SHOWN else 2),
    )
    # Other weights exist, so 0.000 would say the opposite.
    yield replace(found, figure="< 0.001") if 0 < reach < 0.0005 else found


def _sentence(reach: float, known: float, rows: SummaryRows) -> str:
    if known == 1.0:
        return (
            f"The attended sum determines the attention weights in all {rows.unit}s: no other "
            "weights give the same sum."
        )
    upper, largest = (
        rows.value(_NAME, name) for name in ("max_tvd_alpha_upper", "largest_weight_range")
    )
    text = (
        f"Other weights, at a total variation distance of {amount(reach)} on average, have exactly "
        "the same output"
    )
    if upper is not None and upper < _SHOWN:
        text = (
            "Other weights have exactly the same output, but hardly differ: the total variation "
            "distance is less than 0.01 on average"
        )
    if largest is not None:
        text += f"; the largest weight can vary over a range of {amount(largest)} on average"
    text += "."
    if known > 0.0:
        text += (
            " The attended sum, of what the tokens contribute to the output, determines the "
            f"weights for {percent(known)} of {rows.unit}s: it does in general where a text "
            "has at most one token more than the sum has numbers."
        )
    free = {
        head: 1.0 - row["value"]
        for head, row in rows.heads(_NAME, "identifiable").items()
        if row["value"] < 1.0
    }
    if not free:
        return text
    head = max(free, key=lambda one: free[one])
    most = f"; the most in {name_head(head)}, {percent(free[head])} of them"
    return (
        f"{text} In {len(free)} of {heads(rows)} there are texts for which other weights, close or "
        f"not, give exactly the same prediction{most if len(set(free.values())) > 1 else ''}."
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
