"""Does the output need the most attended tokens? (ERASER: DeYoung et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator

from attnaudit.experiments.findings import AGAINST, LOW, POLICY, comprehensiveness, decide
from attnaudit.report.cards.card import Axis, Card, CardRow, Claim, card_row
from attnaudit.report.cards.wording import of_head
from attnaudit.report.words import amount, percent, with_interval
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows

QUESTION = "Are the most attended tokens needed for the prediction, and enough for it?"
_NAME = "comprehensiveness"


def _moves(fall: float) -> str:
    return f"{'rises' if fall < 0 else 'falls'} by {amount(abs(fall), 3)}"


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word the fall of the predicted probability without the most attended tokens."""
    row, chance = (rows.get(_NAME, f"{_NAME}_{name}") for name in ("attention", "random"))
    if row is None or chance is None:
        return
    place, finding = rows.value(_NAME, f"normalised_{_NAME}_attention"), comprehensiveness(rows)
    possible = ""
    if place is not None:
        possible = (
            "; from the smallest (0 %) to the largest (100 %) fall that as many tokens can cause, "
            f"attention reaches {percent(place)}"
        )
    limit = ""
    if finding is not None and finding.code == "nothing_falls":
        limit = (
            f" No measured ranking is shown to make the probability fall by {POLICY.matters:g}, a "
            "limit chosen for this card: no conclusion."
        )
    elif decide(row, POLICY.matters).code == LOW:
        limit = (
            f" Below {POLICY.matters:g}, a limit chosen for this card, tokens are not said to be "
            "needed."
        )
    sentence = (
        f"With the weights{of_head(rows)} of the most attended tokens (the top 1 to 50 %) set to 0 "
        f"and the others rescaled, the probability of the predicted class {_moves(row['value'])} "
        f"on average; with those of random tokens, it {_moves(chance['value'])}{possible}.{limit}"
    )
    tokens = f"the most attended tokens{of_head(rows)}"
    clause = f"the output needs {tokens} nearly as much as it needs any"
    if finding is not None and finding.side == AGAINST:
        clause = f"the output needs {tokens} no more than random ones"
    yield card_row(
        "Does the output need the most attended tokens?",
        "fall without the most attended tokens",
        row,
        f"random tokens {with_interval(chance, 3)}",
        sentence,
        axis=Axis(
            mark=float(chance["value"]),
            ends=(-1.0, 1.0) if round(row["value"], 3) < 0 else (0.0, 1.0),
            places=3,
        ),
        claim=Claim(finding, clause),
    )


CARD = Card(QUESTION, card_rows)
