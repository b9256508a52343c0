"""Does complexity make attention easy to move?"""

from attnaudit.report.cards.card import CardRows, StudyCard, card_row
from attnaudit.report.models import score_figure
from attnaudit.report.words import with_interval
from attnaudit.results import About, SummaryRows
from attnaudit.studies.complexity import FACTORS, Complexity

_OUTCOMES = {
    "area": ("area between the frontier and uniform", "to move attention in the frozen model"),
    "held_out": ("held-out JSD beyond another seed's", "to train a model that attends elsewhere"),
}


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word the slopes of both outcomes on every factor."""
    for name, (label, moved) in _OUTCOMES.items():
        for factor, (_, _, of) in FACTORS.items():
            known = rows.all_of("complexity", f"slope_{name}_{factor}", f"{name}_base")
            if not known:
                continue
            row, base = known
            how = "easier" if row["low"] > 0.0 else "harder" if row["high"] < 0.0 else ""
            sentence = f"With more {of} it is {how} {moved}."
            if not how:
                sentence = f"It is open whether more {of} make it easier {moved}."
            yield card_row(
                Complexity.question,
                f"slope of the {label}, per doubling of the {of}",
                row,
                f"base model {with_interval(base)}",
                sentence,
                places=3,
            )


CARD = StudyCard(
    card_rows,
    score_figure(
        Complexity,
        Complexity.question,
        "The base model and models that differ from it in one factor, trained alike with {seeds}. "
        "Area: how much farther attention can move than towards uniform while the output stays "
        "within ε, from 0 (no farther) to 1. Held-out JSD: distance of the attention of a model "
        "trained to attend elsewhere, minus that of another seed.",
        {"area": "area", "held_out": "held-out JSD", "tvd": "TVD of the adversary"},
    ),
)
