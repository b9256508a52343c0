"""How much can attention change the output at all?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from attnaudit.experiments.maximal_change.experiment import PROVEN_GAP
from attnaudit.report.cards.card import Card
from attnaudit.report.cards.wording import of_kept_words
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import FigureSpec, Histogram, Marker, Scale
from attnaudit.results.heads import named
from attnaudit.results.words import figure, interval, percent

QUESTION = "How much can attention change the output at all?"

MATTERS = (
    0.15  # a change of probability from which on the output is said to depend on the attention
)


def _markers(rows: pl.DataFrame) -> Sequence[Marker]:
    upper = (
        rows["max_delta_y_upper"].fill_nan(None).mean()
        if "max_delta_y_upper" in rows.columns
        else None
    )
    return (
        (Marker(upper, "mean upper bound", after=upper < 0.5),) if isinstance(upper, float) else ()
    )


_CAPTION = (
    "Largest total variation distance between the output and the output under another attention, found by a search: all attention on one "
    "token, or a mixture of few. Where it is small, the weights cannot matter much to the output."
)


def _claim(upper: float | None, of_head: str) -> Claim | None:
    """Only the bound shows that no weights can matter."""
    return (
        Claim(False, f"no attention weights{of_head} can change its output much")
        if upper is not None and upper < MATTERS
        else None
    )


def _in_heads(rows: SummaryRows) -> str:
    """How many heads can flip a decision, and which the most: found, so that those that cannot may be more able than it seems."""
    heads = rows.of_heads("maximal_change", "flips")
    able = {head: row for head, row in heads.items() if row["value"] > 0}
    if not able or rows.audited is None:
        return f"None of {rows.heads} was found to flip the decision of any text. " if heads else ""
    head, row = max(able.items(), key=lambda one: one[1]["value"])
    ends = "" if row["low"] is None else f" [{percent(row['low'])}, {percent(row['high'])}]"
    return (
        f"{len(able)} of {rows.heads} can flip the decision of some text; the strongest, {named(head)}, of {percent(row['value'])}{ends} "
        "of the texts. "
    )


def _sentence(value: float, upper: float | None, rows: SummaryRows) -> str:
    flips, words = (rows.value("maximal_change", name) for name in ("flips", "max_delta_y_words"))
    proven = upper is not None and upper - value <= PROVEN_GAP
    bound = "" if upper is None or proven else f" (mean upper bound {figure(upper, 3)})"
    found = "" if proven else " found"
    flipped = (
        ""
        if flips is None
        else f"; some attention{found} flips {percent(flips)} of the predictions"
    )
    without = (
        "" if words is None else f" With no attention on special tokens it is {figure(words, 3)}."
    )
    small = (
        " So the weights matter little here, whatever they are."
        if upper is not None and upper < MATTERS
        else ""
    )
    return (
        f"{_in_heads(rows)}The attention{found} that changes the output most{rows.of_head and f',{rows.of_head} alone,'} changes it by "
        f"{figure(value, 3)} on average{bound}{flipped}.{without}{small} "
        "A large change does not show that the model's own weights are right."
        f"{rows.apart('maximal_change', 'max_delta_y', 'Mean largest change', 3)}{of_kept_words(rows)}"
    )


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    row, upper = (
        rows.get("maximal_change", "max_delta_y"),
        rows.value("maximal_change", "max_delta_y_upper"),
    )
    if row is None:
        return
    shuffled = rows.get("permutation", "median_delta_y")
    compared = (
        ""
        if shuffled is None
        else f"shuffled weights {figure(shuffled['value'], 3)} {interval(shuffled, 3)}; "
    )
    yield card_row(
        QUESTION,
        "mean largest Δŷ found",
        row,
        f"{compared}1: from one certain prediction to another",
        _sentence(row["value"], upper, rows),
        mark=None if shuffled is None else float(shuffled["value"]),
        places=3,
        claim=_claim(upper, rows.of_head),
    )


CARD = Card(
    question=QUESTION,
    rows=card_rows,
    figures=(
        FigureSpec(
            "maximal-change",
            QUESTION,
            (Histogram("max_delta_y", Scale("largest Δŷ found"), markers=_markers),),
            _CAPTION,
            reads=("max_delta_y_upper",),
        ),
    ),
)
