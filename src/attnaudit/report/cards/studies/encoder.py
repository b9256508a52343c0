"""Does attention mean less after an encoder that mixes words?"""

from attnaudit.report.cards.card import CardRows, StudyCard, card_row
from attnaudit.report.models import score_figure
from attnaudit.report.words import with_interval
from attnaudit.results import About, SummaryRows
from attnaudit.studies.encoder import Encoder

_OUTCOMES = {
    "replacement": ("replacement", "the output follows the attended words"),
    "gain": ("erasure gain", "attention finds the deciding positions"),
}


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word the slope of each outcome on the share of context, and what the own word carries."""
    for name, (label, follows) in _OUTCOMES.items():
        row = rows.get("encoder", f"total_{name}")
        if row is None:
            continue
        none = rows.get("encoder", f"{name}_none")
        order = "less" if row["high"] < 0.0 else "more" if row["low"] > 0.0 else ""
        sentence = f"It is open whether mixing more context into states changes how far {follows}."
        if order:
            sentence = f"The more context an encoder mixes into its states, the {order} {follows}."
            sentence += _carried(rows, name, 1.0 if order == "more" else -1.0)
        yield card_row(
            Encoder.question,
            f"slope of {label} on the share of context",
            row,
            f"without an encoder {with_interval(none)}" if none else "",
            sentence,
        )


def _carried(rows: SummaryRows, name: str, sign: float) -> str:
    """Say how much of a slope goes through the own word's share."""
    known = rows.all_of("encoder", f"indirect_{name}", f"half_{name}")
    if not known or known[1]["low"] is None:
        return ""
    indirect, half = known
    low, high = sorted((sign * half["low"], sign * half["high"]))
    through = f"(slope {with_interval(indirect)})"
    if low <= 0.0 <= high:
        return f" It is open whether half of that goes through the own word's share {through}."
    most = "More" if low > 0.0 else "Less"
    return f" {most} than half of that goes through the own word's share {through}."


CARD = StudyCard(
    card_rows,
    score_figure(
        Encoder,
        Encoder.question,
        "Models that differ in the encoder, trained alike with {seeds}. Replacement and erasure "
        "gain are measured on texts that all models of a seed classify correctly.",
        {
            "replacement": "replacement",
            "gain": "erasure gain",
            "own_token": "own word's share",
            "f1_macro": "macro F1",
        },
    ),
)
