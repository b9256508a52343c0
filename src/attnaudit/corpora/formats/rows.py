"""A row of a source file before it is interpreted, and what makes it unusable."""

import csv
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

from attnaudit.core.errors import nearest
from attnaudit.core.given import plain
from attnaudit.corpora.formats.lines import bad_file, filled_lines, first_names, invalid_characters

SPLITS = ("train", "dev", "test")
SPLIT_NAMES = {name: name for name in SPLITS} | dict.fromkeys(("valid", "val", "validation"), "dev")
Task = Literal["classification", "question_answering", "inference", "translation"]
ROLES = ("text", "label", "question", "rationale", "segments", "answer")  # of columns
Span = tuple[int, int]  # characters from the first to before the second
Segment = tuple[int, int, str]  # its characters, and its name, which may be empty
_WHOLE_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})(?:\.0*)?", re.ASCII)
# Names that columns of a role often have, the most usual first.
_USUAL = {
    "text": ("review", "sentence", "body", "content", "comment", "document", "message", "tweet"),
    "label": ("class", "category", "sentiment", "target", "stars", "rating", "labels"),
}
# Besides empty cells, the labels of a file that say that there is none.
MISSING = ("nan", "null")


@dataclass(frozen=True, slots=True)
class Row:
    """A row as its file has it.

    Attributes:
        row: Number from 0, not counting a header.
        line: Line from 1; None in a format without lines.
        text: The text.
        label: The label.
        problem: Description of a row that could not be split into its columns.
        left_out: Reason why the corpus by its own definition does not use the row.
        question: Question or hypothesis, if the task has one.
        rationale: Characters that are known to decide the label; None if not known.
        segments: Parts of the text, such as passages, in order; None if not known.
        answer: What a model that predicts tokens is to write after the text.
        file: File of the row, if its source is a folder.
        cells: Cells of a table by column.
    """

    row: int
    line: int | None
    text: object = None
    label: object = None
    problem: str = ""
    left_out: str = ""
    question: object = None
    rationale: object = None
    segments: object = None
    answer: object = None
    file: str = ""
    cells: dict[str, Any] = field(default_factory=dict)

    def where(self, source: Path) -> str:
        """Name the row in an error."""
        line = "" if self.line is None else f" (line {self.line})"
        return f"{self.file or source}: row {self.row}{line}"


class SplitSource(NamedTuple):
    """The rows of one split: ``rows()`` reads ``path`` from its start; ``note`` is for the user."""

    path: Path
    rows: Callable[[], Iterator[Row]]
    note: str = ""


@dataclass(frozen=True)
class Columns:
    """Names of a table's columns. With ``label_needed`` the label's column must be there.

    Raises:
        InputError: If one column has two uses.
    """

    text: str = "text"
    label: str | None = "label"
    question: str | None = None
    rationale: str | None = None
    segments: str | None = None
    answer: str | None = None
    label_needed: bool = True

    def __post_init__(self) -> None:
        roles: dict[str, str] = {}
        for role, name in self:
            if (other := roles.setdefault(name, role)) != role:
                got = f"column {name!r}, which is that of {other}"
                raise bad_file(column_option(role), got, "a column of its own", "name another")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Iterate over the roles that have a column, with its name."""
        for role in ROLES:
            if (name := getattr(self, role)) is not None:
                yield role, name

    def among(self, present: Sequence[str]) -> list[str]:
        """Return the names that are present."""
        return [name for _, name in self if name in present]

    def named(self, row: Row) -> Row:
        """Give a row the fields that its cells hold."""
        return replace(row, **{role: row.cells.get(name) for role, name in self})


def column_option(role: str) -> str:
    """Name the option that names a column."""
    return f"--column {role}=NAME ({role}= in Python)"


def require_columns(
    path: Path, present: Sequence[str], columns: Columns | None, command: str = ""
) -> None:
    """Raise InputError unless each column is there once; one error names all that are not.

    Args:
        path: The table.
        present: Names of its columns.
        columns: The columns that are asked for.
        command: Start of a command for this table, which the error completes.
    """
    missing = {
        role: name
        for role, name in columns or ()
        if present.count(name) != 1
        and not (columns and role == "label" and not columns.label_needed and name not in present)
    }
    if not missing:
        return
    present = list(map(str, present))  # which pandas also numbers, or names by several levels
    chosen = {role: name for role, name in columns or () if role not in missing}
    for role, name in missing.items():
        free = {known.lower(): known for known in present if known not in chosen.values()}
        wanted = (name, *_USUAL.get(role, ()))
        near = filter(None, (nearest(one.lower(), free, 0.75) for one in wanted))
        chosen[role] = free.get(next(near, ""), "NAME")
    listed = first_names((known[:40] for known in present), 12)
    several = "columns" if len(missing) > 1 else "one column"
    expected = f"{several} {' and '.join(map(repr, missing.values()))}"
    options = [f"--column {role}={name}" for role, name in chosen.items() if role != name]
    do = " ".join(filter(None, (command, *options)))
    python = ", ".join(f"{role}=" for role in missing)
    said = f"type: {do}" if command else f"did you mean {do} ({python} in Python)?"
    raise bad_file(path, f"columns {listed}", expected, said)


def header_of(path: Path) -> list[str]:
    """Return the names of the columns of a csv or tsv file; none of other files."""
    # Without a table library, so that a mistyped column is refused before slow imports.
    ending = Path(path.name.removesuffix(".gz")).suffix.lower()
    if ending not in (".csv", ".tsv") or not path.is_file():
        return []
    _, _, header = next(filled_lines(path), (0, 0, ""))
    fields = next(csv.reader([header], delimiter=delimiter_of(header, ending)), [])
    return [name.strip() for name in fields]


def delimiter_of(header: str, ending: str) -> str:
    """Return the mark that is most frequent in a header, which separates its columns."""
    return max(",;\t|" if ending == ".csv" else "\t,;|", key=header.count)


def require_splits(found: Collection[str], where: object, names: str, do: str) -> None:
    """Raise InputError unless train and test are among the splits that were found."""
    for split in ("train", "test"):
        if split not in found:
            raise bad_file(where, f"no {split} split among {names}", f"a table {split}", do)


class BadCell(ValueError):
    """A text, label or rationale that cannot be used; the message says what was found."""


def usable_text(value: object, called: str = "text") -> str:
    """Return the text, or the question, of a row. Raises BadCell."""
    if _is_null(value):
        raise BadCell(f"no {called} (null)")
    if not isinstance(value, str):
        raise BadCell(f"a {called} of type {type(value).__name__}")
    _require_valid(value, called)
    if not value.strip():
        raise BadCell(f"an empty {called}")
    return value


def usable_label(value: object, needed: bool) -> str:
    """Return the name of a row's class; ``1.0`` and ``+1`` are ``1``.

    A label that is not known is empty, or raises BadCell if it is needed. If not, a name of
    `MISSING` stays, since an output of a model may be called so (`match_outputs`).
    """
    name = "" if _is_null(value) else str(value).strip()
    if needed and (not name or name.lower() in MISSING):
        raise BadCell(f"no label ({name or 'empty'})")
    if not name:
        return ""
    if not isinstance(value, bool | int | float | str):
        raise BadCell(f"a label of type {type(value).__name__}")
    _require_valid(name, "label")
    return sys.intern(str(int(name.split(".")[0])) if _WHOLE_NUMBER.fullmatch(name) else name)


def _require_valid(text: str, called: str) -> None:
    if wrong := invalid_characters(text):
        raise BadCell(f"a {called} with {wrong}")


def _is_null(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def ordered_classes(names: Iterable[str]) -> tuple[str, ...]:
    """Sort class names, by value if all are numbers."""
    distinct = sorted(set(names))
    try:
        return tuple(sorted(distinct, key=float))
    except ValueError:
        return tuple(distinct)


def _is_pair(span: Any) -> bool:
    is_pair = isinstance(span, list | tuple) and len(span) == 2
    return is_pair and all(type(end) is int for end in span)


def usable_spans(value: Any, length: int) -> list[Span]:
    """Sort the spans of a rationale and join those that overlap.

    Args:
        value: Pairs of start and stop.
        length: Characters of the text.

    Raises:
        BadCell: For anything else, or a span beyond the text.
    """
    value = plain(value)
    for span in value if isinstance(value, list | tuple) else [value]:
        if not _is_pair(span) or not 0 <= span[0] < span[1] <= length:
            expected = f"[start, stop] in a text of {length} characters was expected"
            raise BadCell(f"a rationale with {str(span)[:40]!r} where {expected}")
    spans: list[Span] = []
    for start, stop in sorted(map(tuple, value)):
        if spans and start < spans[-1][1]:
            start, stop = spans[-1][0], max(stop, spans.pop()[1])
        spans.append((start, stop))
    return spans


def usable_segments(value: Any, text: str) -> list[Segment]:
    """Return a text's segments, which hold all of it but white space.

    Args:
        value: The segments in order: their texts, perhaps with titles, or pairs of start and stop.
        text: The text.

    Raises:
        BadCell: For anything else, for segments that overlap or leave characters out.
    """
    value = plain(value)
    parts, segments, end = value if isinstance(value, list | tuple) else [value], [], 0
    for number, part in enumerate(parts, start=1):
        span: Any = part
        name = ""
        if isinstance(part, dict):
            span, name = part.get("text"), usable_text(part.get("title"), "title of a segment")
        if isinstance(span, str):
            start = text.find(span.strip(), end)
            span = (start, start + len(span.strip()))
        called = f"segment {number} of {len(parts)}, {str(part)[:40]!r},"
        if not _is_pair(span):
            raise BadCell(f"{called} where a text, [start, stop] or a title and text was expected")
        start, stop = span
        if not 0 <= start < stop <= len(text):
            raise BadCell(f"{called} that is not in the rest of a text of {len(text)} characters")
        if start < end:
            raise BadCell(f"{called} that overlaps the one before it")
        if missing := text[end:start].strip():
            raise BadCell(f"{called} after {missing[:40]!r}, which is in no segment")
        segments.append((start, stop, name))
        end = stop
    if missing := text[end:].strip():
        raise BadCell(f"segments that leave out the end of the text, {missing[:40]!r}")
    return segments


def marked_words(
    text: str, spans: list[Span], tokenise: Callable[[str], list[str]]
) -> tuple[list[str], list[bool]]:
    """Tokenise a text and mark the words within spans.

    The text is cut at the ends of spans, and the pieces are tokenised one by one. If spans end at
    white space that gives the words of the whole text; elsewhere it cuts a word in two.
    """
    # Spans with only white space between them are one: the tokeniser may join words across it.
    ends = [0]
    for start, stop in spans:
        if len(ends) > 1 and text[ends[-1] : start].isspace():
            ends[-1] = stop
        else:
            ends += [start, stop]
    ends.append(len(text))
    words: list[str] = []
    marks: list[bool] = []
    for piece, (start, stop) in enumerate(pairwise(ends)):
        found = tokenise(text[start:stop])
        words += found
        marks += [piece % 2 == 1] * len(found)
    return words, marks


def word_spans(text: str, stretches: Iterable[Span]) -> list[Span]:
    """Find the characters of stretches of words.

    Args:
        text: The text; words are separated by white space.
        stretches: First word and the word after the last; empty ones mark nothing.

    Raises:
        BadCell: For a stretch beyond the text.
    """
    words = [found.span() for found in re.finditer(r"\S+", text)]
    spans = []
    for first, end in stretches:
        if not 0 <= first <= end <= len(words):
            raise BadCell(f"evidence from word {first} to {end} in a text of {len(words)} words")
        if first < end:
            spans.append((words[first][0], words[end - 1][1]))
    return spans
