"""Does the task need attention?"""

from dataclasses import replace

from attnaudit.experiments.findings import FOR, NEITHER, decide
from attnaudit.report.cards.card import CardRows, StudyCard, card_row
from attnaudit.report.models import model_label, score_figure
from attnaudit.report.words import with_interval
from attnaudit.results import About, SummaryRows
from attnaudit.studies.need import MARGIN, Need
from attnaudit.studies.study import LEVEL


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Say whether each model without part of its attention predicts as well."""
    for model, row in rows.family("need", "loss_").items():
        if row["low"] is None:
            continue
        label = model_label(model)
        p = rows.rows["need", f"equivalence_p_{model}"]["value"]
        base = rows.get("need", "f1_macro_base") or rows.rows["need", "accuracy_base"]
        worse = row["low"] > 0.0
        # Only uniform attention says whether heatmaps of this task can mean anything.
        finding = decide(row, 0.0, FOR if model == "uniform" else NEITHER)
        if p is not None and p <= LEVEL:
            sentence = f"With {label} the score is within {MARGIN} of the base's (equivalence test)"
            sentence += ", although lower." if worse else "."
            finding = replace(finding, side=NEITHER, code="not_needed")
        elif worse:
            sentence = f"With {label} the model is worse, beyond what seeds and texts explain."
        elif row["high"] < 0.0:
            sentence = f"With {label} the model is better, beyond what seeds and texts explain."
        else:
            sentence = f"Too few seeds or texts to tell whether the model is as good with {label}."
        yield card_row(
            Need.question,
            f"score lost with {label}",
            row,
            f"base model {with_interval(base)}",
            sentence,
            places=3,
            finding=finding,
            clause=f"retrained with {label}, it predicts worse",
        )


CARD = StudyCard(
    card_rows,
    score_figure(
        Need,
        Need.question,
        "Models trained alike with {seeds}. On the right, what each loses: the base model's score "
        "minus its own, paired by seed and text.",
        {"f1_macro": "macro F1", "accuracy": "accuracy of gold tokens", "loss": "score lost"},
    ),
)
