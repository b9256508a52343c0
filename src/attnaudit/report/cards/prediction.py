"""How good is the model that is being explained?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attnaudit.core.numbers import count
from attnaudit.report.cards.card import Card
from attnaudit.results.about import About
from attnaudit.results.card import MOST_NAMED, CardRow, SummaryRows, card_row, listed
from attnaudit.results.skill import CHANCE
from attnaudit.results.words import POSITION, TEXT, figure, interval, percent
from attnaudit.stats.inference import FEWEST

QUESTION = "How well does the model predict?"

OF_TOKENS = (
    "language_modelling",
    "causal-lm",
    "seq2seq",
    "translation",
)  # tasks whose outputs are tokens of a vocabulary


def _sentence(rows: SummaryRows, about: About) -> str:
    accuracy, auc, majority = (
        rows.get("prediction", "accuracy"),
        rows.get("prediction", "roc_auc"),
        rows.value("prediction", "majority"),
    )
    correct = (
        f"Correct on {percent(accuracy['value'])} of {_labelled(accuracy, rows)}"
        if accuracy
        else ""
    )
    if accuracy:
        correct += (
            f" (always predicting the most frequent label: {percent(majority)}). "
            if majority is not None
            else ". "
        )
        correct += _never_predicted(rows, about)
    if accuracy is not None and (rows.instances("prediction", "accuracy") or 0) < FEWEST:
        return f"{correct}Too few to judge the model by: {FEWEST} or more are needed."
    worse = _worse_than_chance(accuracy, auc, len(about.class_names))
    if worse and about.assumed_classes:
        return (
            f"{correct}{worse}, and which output of the model is which class was assumed: the names may be exchanged. State them, in the "
            "order of the outputs, with --classes."
        )
    if worse and auc is not None:
        return (
            f"{correct}{worse}: the labels, or the names of the model's outputs, may be exchanged."
        )
    if auc is not None and auc["low"] is not None and auc["low"] <= CHANCE:
        return (
            correct
            + "It is not shown to rank the classes better than chance, so explaining its output means little."
        )
    if auc is not None and auc["value"] < 0.6:
        return (
            correct
            + "It ranks the classes hardly better than chance, so explaining its output means little."
        )
    if (
        accuracy is not None
        and majority is not None
        and accuracy["low"] is not None
        and accuracy["low"] <= majority
    ):
        ranks = (
            ""
            if auc is None
            else f" It does rank {rows.text}s better than chance (ROC-AUC {figure(auc['value'])})."
        )
        return f"{correct}Its decisions are not shown to be better than always predicting the most frequent label.{ranks}"
    return (
        correct
        + "The rows below describe this one model; another model trained on the same texts can give other answers."
    )


def _never_predicted(rows: SummaryRows, about: About) -> str:
    """Which classes no instance is predicted to be of, which no table below has; empty where the summary has no classes."""
    never = [name for name in about.class_names if name not in rows.predicted]
    if not rows.predicted or not never or about.metadata.get("corpus", {}).get("task") in OF_TOKENS:
        return ""
    many = f"{len(never)} of {len(about.class_names)} classes"
    return f"It never predicts {listed(never, 'or') if len(never) <= MOST_NAMED else many}. "


def _labelled(accuracy: Mapping[str, Any], rows: SummaryRows) -> str:
    """``500 labelled texts``, ``118 labelled positions of 12 texts``."""
    several = (
        f" of {count(accuracy['texts'], TEXT)}"
        if rows.text == POSITION and accuracy.get("texts")
        else ""
    )
    return f"{count(accuracy['n'], f'labelled {rows.text}')}{several}"


def _worse_than_chance(
    accuracy: Mapping[str, Any] | None, auc: Mapping[str, Any] | None, classes: int
) -> str:
    """A clause where a model is significantly worse than chance: by ROC-AUC, or by accuracy where labels of one class have none."""
    chance = (
        [("ROC-AUC", auc, CHANCE)]
        if auc is not None
        else [("accuracy", accuracy, 1 / max(classes, 1))]
    )
    for name, row, least in chance:
        if row is not None and row["high"] is not None and row["high"] < least:
            return f"That is worse than chance ({name} {figure(row['value'])} {interval(row)}, chance {figure(least)})"
    return ""


def _f1_name(classes: Sequence[str]) -> str:
    return (
        f"F1 of class {classes[1]}"
        if len(classes) == 2
        else "F1, mean over classes"
        if classes
        else "F1"
    )


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """How good the model is; the other rows matter only if it is good."""
    f1, accuracy, auc = (rows.get("prediction", name) for name in ("f1", "accuracy", "roc_auc"))
    main = (
        accuracy if about.has_question else f1 or accuracy
    )  # as Jain & Wallace: accuracy for question answering and inference
    if main is None:
        return
    named = {_f1_name(about.class_names): f1, "accuracy": accuracy, "ROC-AUC": auc}
    others = [
        f"{name} {figure(row['value'])}" for name, row in named.items() if row and row is not main
    ]
    name = "accuracy" if main is accuracy else _f1_name(about.class_names)
    sentence = _sentence(rows, about)
    yield card_row(
        "How well does the model predict?",
        name,
        main,
        ", ".join(others) or "–",
        sentence,
        of_model=True,
    )


CARD = Card(question=QUESTION, rows=card_rows)
