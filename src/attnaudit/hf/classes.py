"""The outputs of a classifier and their names: its own, those of the corpus, or those that the user states."""

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
_UNNAMED = re.compile(r"LABEL_\d+")
_LISTED = 8


@dataclass(frozen=True)
class Outputs:
    """The ``names`` of a classifier's outputs, and the output of each class of a corpus, ``of_class``.

    ``own`` are the names in the model's configuration, of which ``doubt`` says where it contradicts itself. Classes were ``matched`` by
    name, by number, or by order alone.
    """

    names: tuple[str, ...]
    own: tuple[str, ...]
    of_class: Int32[np.ndarray, " C"]
    matched: Literal["name", "number", "order"]
    classes: tuple[str, ...] = ()
    doubt: str = ""

    @property
    def notes(self) -> list[str]:
        """What the user should know of the names, and of how classes were matched where it is an assumption."""
        return [note for note in (self.doubt, self._assumed) if note]

    @property
    def _assumed(self) -> str:
        if self.matched == "order":
            pairs = [
                f"{own} is {_quoted(name)}" for own, name in zip(self.own, self.names, strict=True)
            ]
            other = (
                f"--classes {quote(','.join(self.names[::-1]))}"
                if len(pairs) == 2
                else "name the outputs in their order with --classes"
            )
            return f"the model does not name its outputs; assumed, in the order of the corpus's classes: {_listed(pairs)}; if wrong, {other}"
        if self.matched == "number" and self.classes:
            places = zip(self.classes, self.of_class.tolist(), strict=True)
            pairs = [
                f"{label} is {_quoted(self.own[k] if self.names[k] == label else self.names[k])}"
                for label, k in places
            ]
            return f"labels are assumed to be numbers of the model's outputs: {_listed(pairs)}; if wrong, name the outputs with --classes"
        return ""

    def to_json(self) -> dict[str, Any]:
        """``{"outputs": {own name: name}, "matched": …}`` for the metadata of a trace."""
        return {"outputs": dict(zip(self.own, self.names, strict=True)), "matched": self.matched}


def outputs_of(model: Any, texts: Texts, stated: Sequence[str] | None = None) -> Outputs | None:
    """`match_outputs` with the classes of ``texts``; None of models that are no classifiers. Raises InputError."""
    if texts.kind == "classification":
        return match_outputs(model, texts.class_names, stated)
    if stated is not None:
        raise InputError(
            OPERATION, "--classes", f"a model for {texts.kind}", "a classifier", "leave it out"
        )
    return None


def require_classes(model: Any) -> None:
    """Raise InputError for a model with one output, for a regression, and for several classes of a text."""
    config = model.config
    count = int(config.num_labels)
    if count < 2 or config.problem_type in ("regression", "multi_label_classification"):
        got = f"num_labels {count}, problem_type {config.problem_type}"
        raise InputError(
            OPERATION,
            type(model).__name__,
            got,
            "a classifier with one class for each text, of two or more",
        )


def match_outputs(
    model: Any, classes: Sequence[str] = (), stated: Sequence[str] | None = None
) -> Outputs:
    """The outputs of a classifier, and which of them each of the ``classes`` of a corpus is; ``stated`` are names in place of its own.

    Names are compared without regard to case. Classes that are numbers mean the outputs by their number, and a classifier without names
    (``LABEL_0`` …) otherwise takes those of the corpus, in their order. Raises InputError where both do not fit.
    """
    require_classes(model)
    config, where = model.config, type(model).__name__
    count = int(config.num_labels)
    own = _names_of(config, count)
    names = own if stated is None else _stated(stated, own)
    doubt = _doubt(config, own) if stated is None else ""
    number = {name.casefold(): output for output, name in enumerate(names)}
    if len(number) < count:
        twice = next(name for output, name in enumerate(names) if number[name.casefold()] != output)
        raise InputError(
            OPERATION,
            where,
            f"two outputs named {_quoted(twice)}",
            "a name for each output",
            NAME_THEM,
        )
    if all(name.casefold() in number for name in classes):
        return Outputs(
            names,
            own,
            _numbers(number[name.casefold()] for name in classes),
            "name",
            tuple(classes),
            doubt,
        )
    unnamed = stated is None and all(map(_UNNAMED.fullmatch, own))
    if all(name.isdecimal() and int(name) < count for name in classes):
        shown = tuple(map(str, range(count))) if unnamed else names
        return Outputs(shown, own, _numbers(map(int, classes)), "number", tuple(classes), doubt)
    if unnamed and count == len(classes):
        return Outputs(tuple(classes), own, _numbers(range(count)), "order", tuple(classes))
    if unnamed:
        got = f"{count} classes without names where the corpus has {len(classes)}: {_listed(ordered_classes(classes))}"
        raise InputError(OPERATION, where, got, "as many classes as the corpus has", NAME_THEM)
    got = f"classes {_listed(ordered_classes(names))} where the corpus has {_listed(ordered_classes(classes))}"
    raise InputError(
        OPERATION, where, got, "the same names", f"rename the labels of the corpus, or {NAME_THEM}"
    )


def _names_of(config: Any, count: int) -> tuple[str, ...]:
    """The names of the outputs by ``id2label`` of a configuration; by ``label2id`` where that alone has names."""
    own = tuple(str(config.id2label.get(number, f"LABEL_{number}")) for number in range(count))
    other = {number: str(name) for name, number in (config.label2id or {}).items()}
    if not all(map(_UNNAMED.fullmatch, own)) or other.keys() != set(range(count)):
        return own
    return tuple(other[number] for number in range(count))


def _doubt(config: Any, own: Sequence[str]) -> str:
    """Where ``label2id`` of a configuration gives a name another number than ``id2label``."""
    found = config.label2id or {}
    for number, name in enumerate(own):
        if found.get(name, number) != number:
            other = f"config.json contradicts itself: output {number} is {_quoted(name)} in id2label, and output {found[name]} in label2id"
            return f"{other}; id2label is used; if it is wrong, name the outputs with --classes"
    return ""


def _quoted(name: str) -> str:
    """A name, in quotes where it could be read as more words than one."""
    return f"“{name}”" if any(map(str.isspace, name)) else name


def _stated(stated: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in stated)
    if (
        len(names) != len(own)
        or len({name.casefold() for name in names}) < len(names)
        or not all(names)
    ):
        got, expected = (
            f"{', '.join(names)} ({len(names)})",
            f"{len(own)} different names, one for each output of the model",
        )
        raise InputError(OPERATION, "--classes", got, expected)
    return names


def _numbers(outputs: Any) -> Int32[np.ndarray, " C"]:
    return np.fromiter(outputs, dtype=np.int32)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
