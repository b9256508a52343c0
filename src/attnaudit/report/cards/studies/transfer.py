"""Does attention carry a model's decisions to another model?"""

from dataclasses import replace

from attnaudit.experiments.findings import FOR, NEITHER, decide
from attnaudit.report.cards.card import CardRows, StudyCard, card_row
from attnaudit.report.models import score_figure
from attnaudit.report.words import figure, with_interval
from attnaudit.results import About, SummaryRows
from attnaudit.studies.transfer import DONORS, Transfer

_WEIGHTS = {
    "own": "the attention of a similar model",
    "base": "this attention",
    "adversary": "an adversary's attention",
}


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Say whether each donor's weights make a student decide as the donor does."""
    for name in DONORS:
        row = rows.get("transfer", f"gain_{name}")
        if row is None or row["low"] is None:
            continue
        agreement, f1, even = (
            figure(rows.rows["transfer", measure]["value"])
            for measure in (f"agreement_{name}", f"f1_macro_{name}", "f1_macro_uniform")
        )
        errors, over = (
            rows.rows["transfer", f"{measure}_{name}"]
            for measure in ("gain_errors", "over_uniform")
        )
        sentence = f"With {_WEIGHTS[name]} a token-wise model decides like its donor on "
        sentence += f"{agreement} of texts"
        if row["low"] > 0.0:
            sentence += ", more than with the same weights shuffled."
            if name == "adversary":
                sentence += " So transfer does not show that attention is faithful."
        elif row["high"] < 0.0:
            sentence += ", less than with the same weights shuffled."
        else:
            sentence += ", not shown to be more or less than with the same weights shuffled."
        sentence += f" The gain over uniform weights is {with_interval(over)}."
        # Shuffled weights spoil any student. So the donor's errors and equal weights count too.
        findings = [decide(one, 0.0, FOR) for one in (row, errors, over) if one["low"] is not None]
        carries = name == "base" and [one.side for one in findings] == [FOR] * 3
        yield card_row(
            Transfer.question,
            f"agreement with {_WEIGHTS[name]}, minus that with it shuffled",
            row,
            f"macro F1 {f1}, with uniform weights {even}",
            sentence,
            finding=findings[0] if carries else replace(findings[0], side=NEITHER),
            clause="its weights carry its decisions to another model",
        )


CARD = StudyCard(
    card_rows,
    score_figure(
        Transfer,
        Transfer.question,
        "A token-wise model that is given the attention of a donor: a similar model, the base, or "
        "an adversary of the base; {seeds}.",
        {
            "gain": "gain over shuffled weights",
            "over_uniform": "gain over equal weights",
            "f1_macro": "macro F1",
        },
    ),
)
