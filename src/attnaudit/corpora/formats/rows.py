"""A row of a source file before it is interpreted, its rationale, and what makes a text or a label unusable."""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from attnaudit.core.errors import InputError
from attnaudit.corpora.formats.lines import invalid_utf8

_WHOLE_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})(?:\.0*)?", re.ASCII)
_MISSING = {"", "nan", "null"}


@dataclass(frozen=True, slots=True)
class Row:
    """A row as its file has it: ``row`` counts from 0 after the header, ``line`` from 1 (None where a format has no lines).

    ``problem`` is what was found when the row could not be split into its columns, ``left_out`` the reason why a corpus by its own
    definition does not use the row. ``question`` goes with the text where the task has one; ``evidence`` are the stretches of the
    text, as (start, stop) characters, that are known to decide the label (None: not known); ``answers`` are the labels that the row
    allows (None: all). ``file`` is the row's own file where the source is a folder.
    """

    row: int
    line: int | None
    text: object = None
    label: object = None
    problem: str = ""
    left_out: str = ""
    question: object = None
    evidence: object = None
    answers: tuple[str, ...] | None = None
    file: str = ""

    def where(self, source: Path) -> str:
        return f"{self.within(source)}: row {self.row}" + (
            f" (line {self.line})" if self.line is not None else ""
        )

    def within(self, source: Path) -> str:
        """The file that the row comes from."""
        return str(source / self.file if self.file else source)


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a table: ``question`` and ``rationale`` where it has such, and no ``label`` where none is read.

    A table may lack the column ``label`` where that is not ``label_needed``.
    """

    text: str = "text"
    label: str | None = "label"
    question: str | None = None
    rationale: str | None = None
    label_needed: bool = True

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Pairs of an option's name and the column that it gives."""
        options = (
            ("text", self.text),
            ("label", self.label),
            ("question", self.question),
            ("rationale", self.rationale),
        )
        return iter([(option, name) for option, name in options if name is not None])

    def among(self, present: Collection[str]) -> Columns:
        """These columns, but for a label that is not needed and not ``present``."""
        return self if self.label_needed or self.label in present else replace(self, label=None)


@dataclass(frozen=True)
class SplitSource:
    """Where the rows of one split come from; ``rows()`` reads the file from its start, ``note`` is what the user should know of it."""

    path: Path
    rows: Callable[[], Iterator[Row]]
    note: str = ""


class BadCell(ValueError):
    """A text or a label that cannot be used; the message says what was found."""


def usable_text(value: object, called: str = "text", encoding: str = "utf-8") -> str:
    """The text, or the question, of a row of a file in ``encoding``. Raises BadCell."""
    if _is_null(value):
        raise BadCell(f"no {called} (null)")
    if not isinstance(value, str):
        raise BadCell(f"a {called} of type {type(value).__name__}")
    if wrong := invalid_utf8(value, encoding):
        raise BadCell(wrong if called == "text" else f"a {called} with {wrong}")
    if not value.strip():
        raise BadCell(f"an empty {called}")
    return value


def usable_label(value: object, encoding: str = "utf-8") -> str:
    """The name of a row's class: whole numbers lose sign and point (``1.0`` and ``+1`` are ``1``). Raises BadCell."""
    if _is_null(value):
        raise BadCell("no label (null)")
    if not isinstance(value, (bool, int, float, str)):
        raise BadCell(f"a label of type {type(value).__name__}")
    name = str(value).strip()
    if wrong := invalid_utf8(name, encoding):
        raise BadCell(f"a label with {wrong}")
    if name.lower() in _MISSING:
        raise BadCell(f"no label ({name or 'empty'})")
    return sys.intern(str(int(name.split(".")[0])) if _WHOLE_NUMBER.fullmatch(name) else name)


def known_label(value: object, encoding: str = "utf-8") -> str:
    """`usable_label`, or nothing for a row whose label is not known. Raises BadCell."""
    missing = _is_null(value) or (isinstance(value, str) and value.strip().lower() in _MISSING)
    return "" if missing else usable_label(value, encoding)


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def ordered_classes(names: Iterable[str]) -> tuple[str, ...]:
    """Class names sorted: by value when all are numbers, else by alphabet."""
    distinct = sorted(set(names))
    try:
        return tuple(sorted(distinct, key=float))
    except ValueError:
        return tuple(distinct)


def column_option(name: str) -> str:
    """How a column is named on the command line and in Python."""
    return f"--{name}-column ({name}= in Python)"


def require_columns(path: Path, present: list[str], columns: Columns) -> None:
    """Raise InputError unless every column that is asked for is there once, and none is asked for as two things."""
    options: dict[str, str] = {}
    for option, expected in columns:
        if expected in options:
            got = f"column '{expected}' as {options[expected]} and as {option}"
            raise InputError(
                "read corpus",
                str(path),
                got,
                "a column of its own for each",
                f"name another with {column_option(option)}",
            )
        options[expected] = option
        if present.count(expected) == 1:
            continue
        names = ", ".join(name[:40] for name in present[:12]) + (", …" if len(present) > 12 else "")
        if expected in present:
            got, do = f"{present.count(expected)} columns of that name", "rename the others"
        else:
            got, do = (
                f"columns {names or '(none)'}",
                f"{_near(expected, present)} name it with {column_option(option)}".strip(),
            )
        raise InputError("read corpus", str(path), got, f"one column '{expected}'", do)


def _near(expected: str, present: list[str]) -> str:
    """The columns that are called much like the expected one, in capitals or not."""
    alike = difflib.get_close_matches(
        expected.lower(), list({name.lower() for name in present}), n=3
    )
    near = [name for name in present if name.lower() in alike]
    return f"did you mean {' or '.join(near[:3])}?" if near else ""


Span = tuple[int, int]  # of characters, the second not among them
_WORD = re.compile(r"\S+")


def usable_spans(value: object, length: int) -> list[Span]:
    """Pairs (start, stop) within a text of ``length`` characters, in order, joined where they overlap. Raises BadCell."""
    if not isinstance(value, (list, tuple)):
        raise BadCell(
            f"a rationale of type {type(value).__name__} where a list of [start, stop] was expected"
        )
    spans: list[Span] = []
    for start, stop in sorted(_span(item, length) for item in value):
        if spans and start < spans[-1][1]:
            first, end = spans.pop()
            start, stop = first, max(stop, end)
        spans.append((start, stop))
    return spans


def marked_words(
    text: str, spans: list[Span], tokenise: Callable[[str], list[str]]
) -> tuple[list[str], list[bool]]:
    """The words of a text, and which of them lie in a span.

    Pieces between the ends of spans are split into words one by one, spans that white space alone parts together: where spans end at
    white space that gives the words of the whole text, elsewhere it cuts a word in two.
    """
    words: list[str] = []
    marks: list[bool] = []
    for piece, marked in _pieces(text, spans):
        found = tokenise(piece)
        words += found
        marks += [marked] * len(found)
    return words, marks


def word_spans(text: str, stretches: list[Span]) -> list[Span]:
    """Characters of stretches that are given as (first, last + 1) among the words between white space; empty ones mark nothing.

    Raises BadCell.
    """
    words = [found.span() for found in _WORD.finditer(text)]
    for first, end in stretches:
        if not 0 <= first <= end <= len(words):
            raise BadCell(f"evidence from word {first} to {end} in a text of {len(words)} words")
    return [(words[first][0], words[end - 1][1]) for first, end in stretches if first < end]


def _span(item: object, length: int) -> Span:
    if (
        not isinstance(item, (list, tuple))
        or len(item) != 2
        or not all(type(end) is int for end in item)
    ):
        raise BadCell(f"a rationale with {str(item)[:40]!r} where [start, stop] was expected")
    start, stop = item
    if not 0 <= start < stop <= length:
        raise BadCell(f"a rationale from {start} to {stop} in a text of {length} characters")
    return start, stop


def _pieces(text: str, spans: list[Span]) -> Iterator[tuple[str, bool]]:
    done, joined = 0, list(spans[:1])
    for start, stop in spans[1:]:
        if text[joined[-1][1] : start].isspace():
            start = joined.pop()[0]
        joined.append((start, stop))
    for start, stop in joined:
        yield text[done:start], False
        yield text[start:stop], True
        done = stop
    yield text[done:], False
