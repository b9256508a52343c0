"""Do the scores find the tokens known to matter? (ERASER: DeYoung et al. 2020)."""

from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.words import figure, percent
from attnaudit.results import About, SummaryRows
from attnaudit.trace import SHOWN

QUESTION = "Does attention find the tokens known to matter?"
_NAME = "plausibility"
_OTHERS = {"gradient": "gradients", "loo": "leave-one-out"}


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word precision and average precision, beside other scores and a random order."""
    for kind, measure, question in (
        ("precision", "precision at the number of known tokens", QUESTION),
        ("auprc", "AUPRC", "Does attention rank them first?"),
    ):
        row = rows.get(_NAME, f"{kind}_{rows.heatmap}")
        if row is None:
            continue
        weights = "the heatmap" if rows.heatmap == SHOWN else "attention"
        others = {
            name: value
            for name in _OTHERS
            if (value := rows.value(_NAME, f"{kind}_{name}")) is not None
        }
        chance = rows.value(_NAME, f"{kind}_chance")
        known = [f"{'LOO' if name == 'loo' else name} {figure(others[name])}" for name in others]
        known += [] if chance is None else [f"random order {figure(chance)}"]
        sentence = (
            f"Ranked by {weights}, the known tokens reach an average precision of "
            f"{figure(row['value'])}"
        )
        if kind == "precision":
            sentence = f"{percent(row['value'])} of {weights}'s top tokens are known to matter"
        if chance is not None:
            random = percent(chance) if kind == "precision" else figure(chance)
            sentence += f", where a random order would give {random}"
        # The better of the others is the harder comparison.
        best = max(others, key=lambda name: others[name], default=None)
        if best is not None:
            other = f"{_OTHERS[best]} ({figure(others[best])})"
            sentence += f": {_compared(rows, kind, best)} {other}"
        yield card_row(
            question.replace("attention", weights),
            measure,
            row,
            ", ".join(known) or "–",
            f"{sentence}.",
        )


def _compared(rows: SummaryRows, kind: str, other: str) -> str:
    """Compare the heatmap with another score by the interval of their paired difference."""
    gap = rows.get(_NAME, f"{kind}_{rows.heatmap}_minus_{kind}_{other}")
    if gap is None or gap["low"] is None or gap["low"] <= 0 <= gap["high"]:
        return "it is not shown to find them better or less well than"
    return f"it finds them {'less well' if gap['high'] < 0 else 'better'} than"


CARD = Card(QUESTION, card_rows)
