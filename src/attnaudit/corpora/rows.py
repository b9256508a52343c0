"""One row of a source file before it is understood, and what makes a text or a label unusable."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attnaudit.corpora.lines import invalid_utf8
from attnaudit.errors import InputError, did_you_mean

_WHOLE_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})(?:\.0*)?", re.ASCII)
_MISSING = {"", "nan", "null"}


@dataclass(frozen=True, slots=True)
class Row:
    """A row as its file has it: ``row`` counts from 0 after the header, ``line`` from 1 (None where a format has no lines).

    ``problem`` is what came when the row could not be split into its columns, ``left_out`` the reason why a corpus by its own
    definition does not use the row. ``question`` goes with the text where the task has one; ``evidence`` are the stretches of the
    text, as (start, stop) characters, that are known to decide the label (None: not known); ``answers`` are the labels that the row
    allows (None: all).
    """

    row: int
    line: int | None
    text: object = None
    label: object = None
    problem: str = ""
    left_out: str = ""
    question: object = None
    evidence: tuple[tuple[int, int], ...] | None = None
    answers: tuple[str, ...] | None = None

    def where(self, file: str | Path) -> str:
        return f"{file}: row {self.row}" + (f" (line {self.line})" if self.line is not None else "")


@dataclass(frozen=True)
class SplitSource:
    """Where the rows of one split come from; ``rows()`` reads the file anew."""

    path: Path
    rows: Callable[[], Iterator[Row]]


class BadCell(ValueError):
    """A text or a label that cannot be used; the message says what came."""


def usable_text(value: object) -> str:
    """The text of a row. Raises BadCell."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise BadCell("no text (null)")
    if not isinstance(value, str):
        raise BadCell(f"a text of type {type(value).__name__}")
    if wrong := invalid_utf8(value):
        raise BadCell(wrong)
    if not value.strip():
        raise BadCell("an empty text")
    return value


def usable_label(value: object) -> str:
    """The name of a row's class: whole numbers lose sign and point (``1.0`` and ``+1`` are ``1``). Raises BadCell."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise BadCell("no label (null)")
    if not isinstance(value, (bool, int, float, str)):
        raise BadCell(f"a label of type {type(value).__name__}")
    name = str(value).strip()
    if wrong := invalid_utf8(name):
        raise BadCell(f"a label with {wrong}")
    if name.lower() in _MISSING:
        raise BadCell(f"no label ({name or 'empty'})")
    return sys.intern(str(int(name.split(".")[0])) if _WHOLE_NUMBER.fullmatch(name) else name)


def ordered_classes(names: Iterable[str]) -> tuple[str, ...]:
    """Class names sorted: by value when all are numbers, else by alphabet."""
    distinct = sorted(set(names))
    try:
        return tuple(sorted(distinct, key=float))
    except ValueError:
        return tuple(distinct)


def require_columns(path: Path, present: list[str], text: str, label: str) -> None:
    """Raise InputError unless the text and the label column are there, once each."""
    for option, wanted in (("text", text), ("label", label)):
        if present.count(wanted) == 1:
            continue
        names = ", ".join(present[:12]) + (", …" if len(present) > 12 else "")
        if wanted in present:
            came, do = f"{present.count(wanted)} columns of that name", "rename the others"
        else:
            came, do = f"columns {names or '(none)'}", f"{did_you_mean(wanted, present)} name it with the option {option}".strip()
        raise InputError("read corpus", str(path), came, f"one column '{wanted}'", do)
