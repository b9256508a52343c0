"""Does the output need the most attended tokens? (ERASER: DeYoung et al. 2020)."""

from attnaudit.experiments.findings import POLICY, comprehensiveness
from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.cards.wording import of_head
from attnaudit.report.words import amount, with_interval
from attnaudit.results import About, SummaryRows

QUESTION = "Are the most attended tokens needed for the prediction, and enough for it?"
_NAME = "comprehensiveness"


def _moves(fall: float) -> str:
    return f"{'rises' if fall < 0 else 'falls'} by {amount(abs(fall), 3)}"


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word the fall of the predicted probability without the most attended tokens."""
    finding = comprehensiveness(rows)
    matched = "" if finding is None else "matched_"
    names = (f"{matched}{_NAME}_{name}" for name in ("attention", "random"))
    if not (known := rows.all_of(_NAME, *names)):
        yield from _of_scores(rows)
        return
    row, chance = known
    probability = "a probability of 90 %" if matched else "the probability of the predicted class"
    sentence = (
        f"With the weights{of_head(rows)} of the most attended tokens (the top 1 to 50 %) set to 0 "
        f"and the others rescaled, {probability} {_moves(row['value'])} on average; with those of "
        f"random tokens, it {_moves(chance['value'])}."
    )
    if finding is not None and finding.code == "small":
        sentence += f" A difference below {POLICY.matters:g} is too small for a conclusion."
    yield card_row(
        "Does the output need the most attended tokens?",
        f"fall without the most attended tokens{', from 90 % confidence' if matched else ''}",
        row,
        f"random tokens {with_interval(chance, 3)}",
        sentence,
        places=3,
        finding=finding,
    )


def _of_scores(rows: SummaryRows) -> CardRows:
    """Word the fall when words of the text are replaced, for a trace without attention."""
    names = (f"input_replacement_{name}" for name in (rows.heatmap, "random"))
    if known := rows.all_of(_NAME, *names):
        row, chance = known
        yield card_row(
            "Does the output need the words that the heatmap marks?",
            "fall without the words of largest weight, replaced by those of other texts",
            row,
            f"words by a random score {with_interval(chance, 3)}",
            "With words of other texts in place of those of largest weight (the top 1 to 50 %), "
            f"the probability of the predicted class {_moves(row['value'])} on average; with "
            f"random words replaced, it {_moves(chance['value'])}.",
            places=3,
        )


CARD = Card(QUESTION, card_rows)
