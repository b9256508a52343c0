"""Does attention find the source words that a target word translates?"""

from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.words import figure, percent, with_interval
from attnaudit.results import About, SummaryRows

QUESTION = "Does attention find the source words that a target word translates?"


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word how often the largest weight is on an aligned unit."""
    found = rows.family("alignment", "precision_at_1_")
    row, relevance, chance = map(found.get, ("alpha", "relevance", "chance"))
    if row is None or chance is None:
        return
    output, known = "", ""
    if relevance is not None:
        output = f", the one of largest output relevance in {percent(relevance['value'])}"
        known = f"output relevance {with_interval(relevance)}, "
    yield card_row(
        QUESTION,
        "precision at 1",
        row,
        f"{known}random position {figure(chance['value'])}",
        "The source unit with most attention is aligned with the gold token in "
        f"{percent(row['value'])} of rows with known alignments{output}; a random one would be in "
        f"{percent(chance['value'])}.",
    )


CARD = Card(QUESTION, card_rows)
