"""Does the attended sum determine the attention weights? (Brunner et al. 2020)"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from attnaudit.report.cards.card import Card
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, SummaryRows, card_row
from attnaudit.results.charts import FigureSpec, Histogram, Scale, Violins
from attnaudit.results.heads import named
from attnaudit.results.words import amount, figure, percent

QUESTION = "How far can attention move with exactly the same attended sum?"

_SHOWN = 0.005  # what is less would be shown as 0.00


_CAPTION = (
    "Largest total variation distance found from the model's own attention to one with exactly the same attended sum, and so with the same "
    "output. At 0 the sum determines the weights; the farther right, the less it does."
)


def _sentence(reach: float, known: float, largest: float | None, rows: SummaryRows) -> str:
    if known == 1.0:
        return f"The attended sum determines the attention weights in all {rows.unit}s: no other weights give the same sum."
    width = (
        ""
        if largest is None
        else f"; the largest weight can vary over a range of {amount(largest)} on average"
    )
    share = (
        f" The attended sum, of what the tokens contribute to the output, determines the weights for {percent(known)} of {rows.unit}s: it "
        "does in general where a text has at most one token more than the sum has numbers."
        if known > 0.0
        else ""
    )
    upper = rows.value("identifiability", "max_tvd_alpha_upper")
    other = f"Other weights, at a total variation distance of {amount(reach)} on average, have exactly the same output"
    if upper is not None and upper < _SHOWN:
        other = "Other weights have exactly the same output, but hardly differ: the total variation distance is less than 0.01 on average"
    return f"{other}{width}.{share}{_in_heads(rows)}"


def _in_heads(rows: SummaryRows) -> str:
    """In how many heads some text leaves the weights open, and in which the most."""
    heads = rows.of_heads("identifiability", "identifiable")
    free = {head: row for head, row in heads.items() if row["value"] < 1.0}
    if not free:
        return ""
    head, row = min(free.items(), key=lambda one: one[1]["value"])
    most = (
        f"; the most in {named(head)}, {percent(1.0 - row['value'])} of them"
        if len({one["value"] for one in free.values()}) > 1
        else ""
    )
    return f" In {len(free)} of {rows.heads} there are texts for which other weights, close or not, give exactly the same prediction{most}."


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    row, known = (
        rows.get("identifiability", "max_tvd_alpha"),
        rows.value("identifiability", "identifiable"),
    )
    if row is None or known is None:
        return
    upper, largest = (
        rows.value("identifiability", name)
        for name in ("max_tvd_alpha_upper", "largest_weight_range")
    )
    bound = (
        ""
        if upper is None or upper - row["value"] < 5e-3
        else f"at most {figure(upper)} (upper bound); "
    )
    found = card_row(
        QUESTION,
        "mean largest TVD found",
        row,
        f"{bound}0: the attended sum determines the weights, 1: all weight on other tokens",
        _sentence(row["value"], known, largest, rows)
        + rows.apart("identifiability", "max_tvd_alpha", "Mean distance"),
        mark=upper,
        places=3 if row["value"] < _SHOWN else 2,
    )
    yield replace(found, figure="< 0.001") if 0 < row["value"] < 0.0005 else found


CARD = Card(
    question=QUESTION,
    rows=card_rows,
    figures=(
        FigureSpec(
            "identifiability",
            QUESTION,
            (
                Histogram("max_tvd_alpha", Scale("largest TVD with the same sum")),
                Violins(
                    "max_tvd_alpha", Scale("largest TVD with the same sum"), "By the largest weight"
                ),
            ),
            _CAPTION,
        ),
    ),
)
