"""Does attention find the source words that a target word translates? Scores of every gold token against known alignments."""

from __future__ import annotations

from collections.abc import Iterator

from attnaudit.report.cards.card import Card
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, SummaryRows, card_row
from attnaudit.results.words import figure, interval, percent

QUESTION = "Does attention find the source words that a target word translates?"


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    row, relevance, chance = (
        rows.get("alignment", f"precision_at_1_{name}") for name in ("alpha", "relevance", "chance")
    )
    if row is None or chance is None:
        return
    output = (
        ""
        if relevance is None
        else f", the one of largest output relevance in {percent(relevance['value'])}"
    )
    sentence = (
        f"The source unit with most attention is aligned with the gold token in {percent(row['value'])} of rows with known "
        f"alignments{output}; a random one would be in {percent(chance['value'])}."
    )
    known = (
        ""
        if relevance is None
        else f"output relevance {figure(relevance['value'])} {interval(relevance)}, "
    )
    mark = None if relevance is None else float(relevance["value"])
    yield card_row(
        QUESTION,
        "precision at 1",
        row,
        f"{known}random position {figure(chance['value'])}",
        sentence,
        mark=mark,
    )


CARD = Card(question=QUESTION, rows=card_rows)
