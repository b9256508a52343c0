"""Do these weights carry information to another model? (Wiegreffe & Pinter 2019)."""

from attnaudit.experiments.findings import AGAINST, FOR, decide
from attnaudit.report.cards.card import CardRows, StudyCard, card_row
from attnaudit.report.models import model_label, score_figure
from attnaudit.report.words import figure
from attnaudit.results import About, SummaryRows
from attnaudit.studies.guide import Guide


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Describe macro F1 under the base's attention, or under others if that is missing."""
    found = rows.family("guide", "f1_macro_")
    scores = {name: figure(row["value"]) for name, row in found.items()}
    if "uniform" not in scores:
        return
    # The usual weights are the base's; a model with its own weights transfers nothing.
    name = min(scores, key=lambda one: (one == "uniform", one != "base", one == "learned"))
    words = {"base": "this attention", "learned": "its own learned weights"}
    led = "" if name == "uniform" else f"{scores[name]} with {words.get(name, model_label(name))}, "
    said = f"A token-wise model reaches macro F1 {led}{scores['uniform']} with uniform weights."
    row = rows.get("guide", f"difference_f1_macro_{name}") or found["uniform"]
    decision = decide(row, 0.0, FOR, AGAINST)
    clause = "its weights tell another model which tokens matter"
    if decision.side == AGAINST:
        clause = "its weights do not help another model, which is better without them"
    if name not in ("learned", "uniform"):
        none = "The interval contains 0: no evidence that they transfer"
        said += f" {f'So {clause}' if decision.side else none}."
    if name != "base":
        said += " The attention of the model under study was not among the weights (guide.weights)."
    compared = {"learned": "its own attention", "adversary": "an adversary's"}
    yardstick = (
        f"{label} {scores[one]}" for one, label in compared.items() if one in scores and one != name
    )
    measure = f"macro F1 with {words.get(name, model_label(name))} minus that with uniform weights"
    yield card_row(
        Guide.question,
        "macro F1 with uniform weights" if name == "uniform" else measure,
        row,
        "; ".join(yardstick) or "–",
        said,
        finding=decision if name == "base" else None,
        clause=clause,
    )


CARD = StudyCard(
    card_rows,
    score_figure(
        Guide,
        "Do the weights carry information to another model?",
        "A token-wise model with given attention weights, {seeds}; right, the paired difference to "
        "uniform weights.",
        {
            "f1_macro": "Macro F1 by weights",
            "difference_f1_macro": "Minus macro F1 with uniform weights",
        },
    ),
)
