"""The outputs of a classifier and their names: its own, those of the corpus, or the user's."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Int32

from attnaudit.core import InputError
from attnaudit.core.given import are_names, named_outputs
from attnaudit.corpora.formats.rows import MISSING, ordered_classes
from attnaudit.hf.model import WRITING
from attnaudit.hf.texts import Texts

OPERATION = "match classes"
NAME_THEM = "name the model's outputs in their order with --set collect.classes=NAME,NAME"
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
    """

    names: tuple[str, ...]
    own: tuple[str, ...]
    of_class: Int32[np.ndarray, " C"]
    matched: Literal["name", "number", "order"]
    classes: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """Notes on assumptions."""
        pairs = zip(self.classes, self.of_class.tolist(), strict=True)
        unknown = " or ".join(name for name, output in pairs if output < 0)
        notes = [f"labels {unknown} are read as not known"] if unknown else []
        if self.matched == "order":
            pairs = zip(self.own, self.names, strict=True)
            given = "the model does not name its outputs; assumed, in the order of the classes"
        elif self.matched == "number" and self.classes:
            # Outputs without names are called by their numbers.
            names = self.own if self.names[0] == "0" else self.names
            numbers = zip(self.classes, self.of_class.tolist(), strict=True)
            pairs = ((name, names[k]) for name, k in numbers if k >= 0)
            given = "labels are assumed to be numbers of the model's outputs"
        else:
            return notes
        named = _listed(
            [f"{one} is {f'“{own}”' if any(map(str.isspace, own)) else own}" for one, own in pairs]
        )
        return [*notes, f"{given}: {named}; if wrong, {NAME_THEM}"]

    def to_json(self) -> dict[str, Any]:
        """Return the part that the metadata of a trace keeps."""
        return {"outputs": dict(zip(self.own, self.names, strict=True)), "matched": self.matched}


def outputs_of(model: Any, texts: Texts, stated: Sequence[str] | None = None) -> Outputs | None:
    """Match the classes of ``texts`` with `match_outputs`; None if the model is no classifier.

    Raises:
        InputError: They do not fit, or names were stated for another model.
    """
    if texts.kind not in WRITING:
        return match_outputs(model, texts.class_names, stated)
    if stated is not None:
        got = f"a model for {texts.kind}"
        raise InputError(OPERATION, "collect.classes", got, "a classifier", "leave it out")
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
        names = ", ".join(map(str, list(model.config.id2label.values())[:LISTED]))
        do = f"audit one output: --set collect.output=NAME, of {names}"
        do = "" if kind == "regression" else do
        raise InputError(OPERATION, type(model).__name__, got, expected, do)


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
    number, config = int(model.config.num_labels), model.config
    own = tuple(str(config.id2label.get(k, f"LABEL_{k}")) for k in range(number))
    if stated is not None:
        stated = named_outputs(OPERATION, "collect.classes", stated)
    names = own if stated is None else tuple(name.strip() for name in stated)
    output = {name.casefold(): k for k, name in enumerate(names)}
    if len(names) != number or len(output) < number or not are_names(names):
        where = type(model).__name__ if stated is None else "collect.classes"
        got, expected = f"{', '.join(names)} ({len(names)})", f"{number} different names"
        raise InputError(OPERATION, where, got, f"{expected}, one for each output", NAME_THEM)
    unnamed = stated is None and all(map(_UNNAMED, own))
    every = tuple(classes)
    classes = [one for one in every if one.casefold() in output or one.lower() not in MISSING]
    how: Literal["name", "number", "order"]
    if all(name.casefold() in output for name in classes):
        how, of_class = "name", [output[name.casefold()] for name in classes]
    elif all(name.isdecimal() and int(name) < number for name in classes):
        if "0" not in classes:
            got = f"classes {_listed(ordered_classes(classes))} without a 0, of {number} outputs"
            expected = "numbers that tell whether they count from 0 or from 1"
            raise InputError(OPERATION, type(model).__name__, got, expected, NAME_THEM)
        how, of_class = "number", [int(name) for name in classes]
        names = tuple(map(str, range(number))) if unnamed else names
    elif unnamed and number == len(classes):
        how, of_class, names = "order", [*range(number)], tuple(classes)
    else:
        got, do = f"classes {_listed(ordered_classes(names))}", NAME_THEM
        if unnamed:
            got = f"{number} classes without names"
        else:
            do = f"rename the labels of the corpus, or {do}"
        got = f"{got} where the corpus has {_listed(ordered_classes(classes))}"
        raise InputError(OPERATION, type(model).__name__, got, "the same classes", do)
    found = dict(zip(classes, of_class, strict=True))
    numbers = np.array([found.get(name, -1) for name in every], dtype=np.int32)
    return Outputs(names, own, numbers, how, every)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:LISTED]) + (", …" if len(names) > LISTED else "")
