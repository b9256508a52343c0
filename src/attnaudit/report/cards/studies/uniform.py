"""Does this corpus need attention? Trained with uniform weights (Wiegreffe & Pinter 2019)."""

from dataclasses import replace

from attnaudit.experiments.findings import FOR, NEITHER, POLICY, decide
from attnaudit.report.cards.card import CardRows, StudyCard, card_row
from attnaudit.report.models import model_label, score_figure
from attnaudit.report.words import figure, with_interval
from attnaudit.results import About, SummaryRows
from attnaudit.studies.uniform import Uniform


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word what is lost by each model with uniform attention, in all layers or in one."""
    for model, row in rows.family("uniform", "difference_f1_macro_").items():
        base, even = (rows.rows["uniform", f"f1_macro_{name}"] for name in ("base", model))
        how, everywhere = model_label(model), model == "uniform"
        needed = "attention" if everywhere else how.replace("uniform", "learned")
        finding = decide(row, 0.0, below=FOR)
        sentence = (
            f"Retrained with {how}, the model reaches macro F1 {figure(even['value'])} instead of "
            f"{figure(base['value'])}. "
        )
        if row["low"] > -POLICY.hardly:
            # Such a corpus cannot decide anything about attention, so nothing is claimed.
            finding = replace(finding, side=NEITHER, code="not_needed")
            sentence += (
                f"This corpus hardly needs {needed} (a loss of {POLICY.hardly} is outside the "
                f"interval){', and says little about attention' if everywhere else ''}."
            )
        elif finding.side == FOR:
            chance = "texts explain, although one seed says nothing about others"
            chance = chance if row["std"] is None else "seeds and texts explain"
            sentence += f"The loss is beyond what {chance}: here nothing else replaces {needed}."
        else:
            sentence += (
                "The interval contains both no loss and a relevant one: more seeds, or more test "
                "texts, are needed."
            )
        yield card_row(
            Uniform.question,
            f"macro F1 with {how} minus that of the base model",
            row,
            f"base model macro F1 {with_interval(base)}",
            sentence,
            finding=finding,
            clause=f"retrained with {how}, it predicts worse",
        )


CARD = StudyCard(
    card_rows,
    score_figure(
        Uniform,
        "What is lost without attention?",
        "The base model and the same model with uniform attention, trained alike with {seeds}. The "
        "numbers below have the paired differences.",
        {"f1_macro": "macro F1", "accuracy": "accuracy", "roc_auc": "ROC-AUC"},
    ),
)
