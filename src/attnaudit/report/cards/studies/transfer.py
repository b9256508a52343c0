"""Does attention carry a model's decisions to another model?"""

from collections.abc import Iterator

import polars as pl

from attnaudit.experiments.findings import FOR, NEITHER, decide
from attnaudit.report.cards.card import CardRow, Claim, StudyCard, card_row
from attnaudit.report.charts.svg import Figure
from attnaudit.report.models import score_panels, seeds_and_spread
from attnaudit.report.words import figure
from attnaudit.results import About, SummaryRows
from attnaudit.studies.transfer import DONORS, Transfer

_WEIGHTS = {
    "own": "the attention of a like model",
    "base": "this attention",
    "adversary": "an adversary's attention",
}
_TITLES = {
    "gain": "gain over shuffled weights",
    "gain_errors": "the same on the donor's errors",
    "agreement": "agreement with the donor",
    "f1_macro": "macro F1",
}


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Say of each donor whether its weights make a student decide as it does."""
    for name in DONORS:
        row = rows.get("transfer", f"gain_{name}")
        if row is None or row["low"] is None:
            continue
        agreement, f1, even = (
            figure(rows.rows["transfer", measure]["value"])
            for measure in (f"agreement_{name}", f"f1_macro_{name}", "f1_macro_uniform")
        )
        sentence = f"With {_WEIGHTS[name]} a token-wise model decides as the donor on {agreement}"
        if row["low"] > 0.0:
            sentence += ", more often than with the same weights shuffled."
            if name == "adversary":
                sentence += " So transfer does not show that attention is faithful."
        elif row["high"] < 0.0:
            sentence += ", less often than with the same weights shuffled."
        else:
            sentence += "; whether that is more than with the same weights shuffled is open."
        yield card_row(
            Transfer.question,
            f"agreement with {_WEIGHTS[name]} minus that with it shuffled",
            row,
            f"macro F1 {f1}, with uniform weights {even}",
            sentence,
            claim=Claim(
                decide(row, 0.0, FOR if name == "base" else NEITHER),
                "its weights carry its decisions to another model",
            ),
        )


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[Figure]:
    """Draw agreement and macro F1 by the weights given."""
    caption = (
        "A token-wise model with the attention of a donor: a like model, the base, and an "
        f"adversary of the base; {seeds_and_spread(table)}."
    )
    yield Figure("transfer", Transfer.question, caption, score_panels(Transfer, summary, _TITLES))


CARD = StudyCard(card_rows, figures)
