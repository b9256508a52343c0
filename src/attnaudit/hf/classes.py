"""The outputs of a classifier and their names: its own, those of the corpus, or the user's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Literal

import numpy as np
from jaxtyping import Int32

from attnaudit.core.errors import InputError
from attnaudit.corpora.formats.rows import ordered_classes
from attnaudit.hf.texts import Texts

OPERATION = "match classes"
NAME_THEM = (
    "name the model's outputs in their order with --classes NAME,NAME (class_names= in Python)"
)
LISTED = 8  # names shown in a message
_UNNAMED = re.compile(r"LABEL_\d+").fullmatch


@dataclass(frozen=True)
class Outputs:
    """The outputs of a classifier, and which of them each class of a corpus is.

    Attributes:
        names: Names of the outputs.
        own: Their names in the model's configuration.
        of_class: Output of each class of the corpus.
        matched: How classes were matched: by ``name``, by ``number``, or by ``order`` alone.
        classes: Classes of the corpus.
        doubt: Contradiction in the configuration, if there is one.
    """

    names: tuple[str, ...]
    own: tuple[str, ...]
    of_class: Int32[np.ndarray, " C"]
    matched: Literal["name", "number", "order"]
    classes: tuple[str, ...] = ()
    doubt: str = ""

    @property
    def notes(self) -> list[str]:
        """Notes on names that contradict each other, and on assumptions."""
        notes = [self.doubt] if self.doubt else []
        if self.matched == "order":
            pairs = zip(self.own, self.names, strict=True)
            named = _listed([f"{own} is {_quoted(name)}" for own, name in pairs])
            advice = "name the outputs in their order with --classes"
            if len(self.names) == 2:
                advice = f"--classes {quote(','.join(self.names[::-1]))}"
            given = (
                "the model does not name its outputs; assumed, in the order of the corpus's classes"
            )
            notes.append(f"{given}: {named}; if wrong, {advice}")
        if self.matched == "number" and self.classes:
            shown = []
            for label, k in zip(self.classes, self.of_class.tolist(), strict=True):
                name = self.own[k] if self.names[k] == label else self.names[k]
                shown.append(f"{label} is {_quoted(name)}")
            given = "labels are assumed to be numbers of the model's outputs"
            notes.append(f"{given}: {_listed(shown)}; if wrong, name the outputs with --classes")
        return notes

    def to_json(self) -> dict[str, Any]:
        """Return the part that the metadata of a trace keeps."""
        return {"outputs": dict(zip(self.own, self.names, strict=True)), "matched": self.matched}


def outputs_of(model: Any, texts: Texts, stated: Sequence[str] | None = None) -> Outputs | None:
    """Match the classes of ``texts`` with `match_outputs`; None if the model is no classifier.

    Raises:
        InputError: They do not fit, or names were stated for another model.
    """
    if texts.kind == "classification":
        return match_outputs(model, texts.class_names, stated)
    if stated is not None:
        got = f"a model for {texts.kind}"
        raise InputError(OPERATION, "--classes", got, "a classifier", "leave it out")
    return None


def require_classes(model: Any) -> None:
    """Check that a classifier chooses one of several classes for each text.

    Raises:
        InputError: It has one output, or is a regression, or chooses several classes.
    """
    number, kind = int(model.config.num_labels), model.config.problem_type
    if number < 2 or kind in ("regression", "multi_label_classification"):
        got = f"num_labels {number}, problem_type {kind}"
        expected = "a classifier with one class for each text, of two or more"
        raise InputError(OPERATION, type(model).__name__, got, expected)


def match_outputs(
    model: Any, classes: Sequence[str] = (), stated: Sequence[str] | None = None
) -> Outputs:
    """Find the output of each class of a corpus.

    Names are compared without regard to case. Classes that are numbers mean the outputs by number.
    A classifier without names (``LABEL_0`` …) otherwise takes those of the corpus in their order.

    Args:
        model: The classifier.
        classes: Classes of the corpus.
        stated: Names of the outputs in place of the model's own.

    Raises:
        InputError: Model, classes and names do not fit each other.
    """
    require_classes(model)
    where, number = type(model).__name__, int(model.config.num_labels)
    own, doubt = _own_names(model.config, number)
    names = own
    if stated is not None:
        names, doubt = tuple(name.strip() for name in stated), ""
        if len(names) != number or not all(names) or len({*map(str.casefold, names)}) < number:
            got = f"{', '.join(names)} ({len(names)})"
            expected = f"{number} different names, one for each output of the model"
            raise InputError(OPERATION, "--classes", got, expected)
    output = {name.casefold(): k for k, name in enumerate(names)}
    if len(output) < number:
        twice = next(name for k, name in enumerate(names) if output[name.casefold()] != k)
        got = f"two outputs named {_quoted(twice)}"
        raise InputError(OPERATION, where, got, "a name for each output", NAME_THEM)

    def matched(names: Sequence[str], outputs: Any, how: Any, doubt: str = doubt) -> Outputs:
        of_class = np.fromiter(outputs, dtype=np.int32)
        return Outputs(tuple(names), own, of_class, how, tuple(classes), doubt)

    if all(name.casefold() in output for name in classes):
        return matched(names, (output[name.casefold()] for name in classes), "name")
    unnamed = stated is None and all(map(_UNNAMED, own))
    if all(name.isdecimal() and int(name) < number for name in classes):
        shown = [str(k) for k in range(number)] if unnamed else names
        return matched(shown, map(int, classes), "number")
    if unnamed and number == len(classes):
        return matched(classes, range(number), "order", doubt="")
    had = _listed(ordered_classes(classes))
    if unnamed:
        got = f"{number} classes without names where the corpus has {len(classes)}: {had}"
        raise InputError(OPERATION, where, got, "as many classes as the corpus has", NAME_THEM)
    got = f"classes {_listed(ordered_classes(names))} where the corpus has {had}"
    do = f"rename the labels of the corpus, or {NAME_THEM}"
    raise InputError(OPERATION, where, got, "the same names", do)


def _own_names(config: Any, number: int) -> tuple[tuple[str, ...], str]:
    """Return the names in a configuration, and where it contradicts itself.

    Programs of the transformers library read ``id2label``. If only ``label2id`` has names, they are
    taken from there.
    """
    own = tuple(str(config.id2label.get(k, f"LABEL_{k}")) for k in range(number))
    label2id = config.label2id or {}
    other = {k: str(name) for name, k in label2id.items()}
    if all(map(_UNNAMED, own)) and other.keys() == set(range(number)):
        own = tuple(other[k] for k in range(number))
    for k, name in enumerate(own):
        if label2id.get(name, k) != k:
            other_id = label2id[name]
            got = f"output {k} is {_quoted(name)} in id2label, and output {other_id} in label2id"
            advice = "id2label is used; if it is wrong, name the outputs with --classes"
            return own, f"config.json contradicts itself: {got}; {advice}"
    return own, ""


def _quoted(name: str) -> str:
    return f"“{name}”" if any(map(str.isspace, name)) else name


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:LISTED]) + (", …" if len(names) > LISTED else "")
