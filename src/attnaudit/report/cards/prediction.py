"""How good is the model that is being explained?"""

from attnaudit.core import count
from attnaudit.report.cards.card import Card, CardRows, card_row
from attnaudit.report.cards.wording import MOST_NAMED
from attnaudit.report.words import figure, listed, percent, with_interval
from attnaudit.results import TEXT, About, SummaryRows
from attnaudit.results.measures import CHANCE
from attnaudit.results.summary import POSITION
from attnaudit.stats.inference import FEWEST

QUESTION = "How well does the model predict?"
OF_TOKENS = ("language_modelling", "causal-lm", "seq2seq", "translation")
"""Tasks whose outputs are tokens of a vocabulary."""


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word the quality of the model; the other rows matter only if it is good."""
    f1, macro, accuracy, auc = (
        rows.get("prediction", name) for name in ("f1", "f1_macro", "accuracy", "roc_auc")
    )
    # F1 of one class depends on the choice of class 1; macro F1 does not.
    main = accuracy if about.has_question else macro or accuracy
    if main is None:
        return
    classes = about.class_names
    named = {"macro F1": macro, "accuracy": accuracy, "ROC-AUC": auc}
    if len(classes) == 2:
        named[f"F1 of class {classes[1]}"] = f1
    others = [
        f"{name} {figure(row['value'])}" for name, row in named.items() if row not in (None, main)
    ]
    yield card_row(
        QUESTION,
        "accuracy" if main is accuracy else "macro F1",
        main,
        ", ".join(others) or "–",
        _sentence(rows, about),
        of_model=True,
    )


def _sentence(rows: SummaryRows, about: About) -> str:
    accuracy, auc = rows.get("prediction", "accuracy"), rows.get("prediction", "roc_auc")
    majority, text = rows.value("prediction", "majority"), ""
    if accuracy is not None:
        labelled = count(accuracy["n"], f"labelled {rows.prediction_unit}")
        if rows.prediction_unit == POSITION and accuracy.get("texts"):
            labelled += f" of {count(accuracy['texts'], TEXT)}"
        text = f"Correct on {percent(accuracy['value'])} of {labelled}"
        if majority is not None:
            text += f" (always predicting the most frequent label: {percent(majority)})"
        text += f". {_never_predicted(rows, about)}"
        if (rows.texts("prediction", "accuracy") or 0) < FEWEST:
            return f"{text}Too few to judge the model by: {FEWEST} or more are needed."
    # Below chance a model has learned something, under names that are exchanged.
    worse = _worse_than_chance(rows, len(about.class_names))
    if worse and about.assumed_classes:
        return (
            f"{text}{worse}, and which output of the model is which class was assumed: the names "
            "may be exchanged. State them in the order of the outputs (--set collect.classes=…)."
        )
    if worse and auc is not None:
        return f"{text}{worse}: the labels, or the names of the model's outputs, may be exchanged."
    if auc is not None and auc["low"] is not None and auc["low"] <= CHANCE:
        return (
            f"{text}It is not shown to rank the classes better than chance, so explaining its "
            "output means little."
        )
    least = None if accuracy is None else accuracy["low"]
    if least is not None and majority is not None and least <= majority:
        text += "Its decisions are not shown to be better than always predicting the most frequent"
        text += " label."
        if auc is not None:
            score = f"ROC-AUC {figure(auc['value'])}"
            text += f" It does rank {rows.prediction_unit}s better than chance ({score})."
        return text
    return (
        f"{text}The rows below describe this one model; another model trained on the same texts "
        "can give other answers."
    )


def _never_predicted(rows: SummaryRows, about: About) -> str:
    """Name the classes that no text is predicted to be of; nothing without classes."""
    never = [name for name in about.class_names if name not in rows.predicted]
    if not rows.predicted or not never or about.metadata.get("corpus", {}).get("task") in OF_TOKENS:
        return ""
    many = f"{len(never)} of {len(about.class_names)} classes"
    return f"It never predicts {listed(never, 'or') if len(never) <= MOST_NAMED else many}. "


def _worse_than_chance(rows: SummaryRows, classes: int) -> str:
    """Say that a model is significantly worse than chance; else nothing."""
    name, row, chance = "ROC-AUC", rows.get("prediction", "roc_auc"), CHANCE
    if row is None:  # labels of one class have none
        name, row, chance = "accuracy", rows.get("prediction", "accuracy"), 1 / max(classes, 1)
    if row is None or row["high"] is None or row["high"] >= chance:
        return ""
    return f"That is worse than chance ({name} {with_interval(row)}, chance {figure(chance)})"


CARD = Card(QUESTION, card_rows, plain="The model is good enough")
