"""From the rows of a file to token lists with labels: rows are checked one by one, and what cannot be used is refused or set aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np
from jaxtyping import Bool

from attnaudit.core.errors import InputError
from attnaudit.core.printable import printable
from attnaudit.corpora.corpus import RawText, SkippedRow, Split
from attnaudit.corpora.entry import NO_BOUNDS, Bounds
from attnaudit.corpora.formats.lines import suggested_encoding
from attnaudit.corpora.formats.rows import (
    BadCell,
    Row,
    SplitSource,
    known_label,
    marked_words,
    usable_label,
    usable_spans,
    usable_text,
)


@dataclass(frozen=True, slots=True)
class Example:
    """A row that can be used; ``length`` is its number of words before any cut, ``sentences`` the words of each where they are given."""

    instance: int
    tokens: list[str]
    length: int
    label: str
    question: list[str] | None = None
    rationale: list[bool] | None = None
    answers: tuple[str, ...] | None = None
    sentences: list[int] | None = None
    raw: RawText | None = None


@dataclass
class Gathered:
    """The examples of one file in the order of its ``rows``, and what was not used of it."""

    path: Path
    examples: list[Example] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    skipped: list[SkippedRow] = field(default_factory=list)
    rows: int = 0
    note: str = ""

    @property
    def labels(self) -> list[str]:
        return [example.label for example in self.examples]


def pooled(parts: Sequence[Gathered]) -> Gathered:
    """All parts as one; instances of later ones count on from the rows of those before."""
    whole = Gathered(parts[0].path.parent, note=parts[0].note)
    for part in parts:
        whole.examples += [
            replace(example, instance=example.instance + whole.rows) for example in part.examples
        ]
        whole.left_out += part.left_out
        whole.skipped += part.skipped
        whole.rows += part.rows
    return whole


def as_split(examples: Sequence[Example], classes: Sequence[str]) -> Split:
    """Examples with numbered classes; answers that are no class are not among the candidates."""
    number = {name: index for index, name in enumerate(classes)}

    def of(name: str) -> list | None:
        values = [getattr(example, name) for example in examples]
        return (
            [value or [] for value in values]
            if any(value is not None for value in values)
            else None
        )

    return Split(
        np.array([example.instance for example in examples], dtype=np.int64),
        [example.tokens for example in examples],
        np.array([number[example.label] for example in examples], dtype=np.int32),
        of("rationale"), of("question"), _candidates(examples, number), of("sentences"), raw=of("raw"),
    )  # fmt: skip


def _candidates(
    examples: Sequence[Example], number: dict[str, int]
) -> Bool[np.ndarray, "n C"] | None:
    if all(example.answers is None for example in examples):
        return None
    allowed = np.zeros((len(examples), len(number)), dtype=bool)
    for row, example in enumerate(examples):
        if example.answers is None:
            allowed[row] = True
        else:
            allowed[row, [number[name] for name in example.answers if name in number]] = True
    return allowed


Progress = Callable[[str, int], None]
_PROGRESS_EVERY = 1000
_REMEDY = "or skip such rows: --on-bad-row skip"


@dataclass(frozen=True)
class Gathering:
    """How rows become token lists.

    ``classes`` are the allowed labels, None for any; ``has_question``: every row has a question; ``lines``: every line is a sentence;
    ``encoding``: that of files of one's own, whose errors name another one where bytes are not of it; None of registered corpora;
    ``raw``: the texts are kept as they are in the file, too; ``labels``: every row has one, or some have (those of the others are empty),
    or none is read.
    """

    tokenise: Callable[[str], list[str]]
    skip_bad: bool
    max_tokens: int | None = None
    bounds: Bounds = NO_BOUNDS
    classes: tuple[str, ...] | None = None
    has_question: bool = False
    progress: Progress | None = None
    lines: bool = False
    encoding: str | None = None
    raw: bool = False
    labels: Literal["all", "some", "none"] = "all"

    @property
    def expected(self) -> str:
        """What a row should have."""
        parts = [
            "a text",
            *(["a question"] if self.has_question else []),
            *(["a label"] if self.labels == "all" else []),
        ]
        return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def gather(source: SplitSource, split: str, how: Gathering) -> Gathered:
    """Read one file to its end. Raises InputError for the file, and for a bad row unless bad rows are skipped."""
    out = Gathered(source.path, note=source.note)
    out.examples.extend(usable_examples(source, split, how, out))
    _apply_bounds(out, how.bounds)
    if not out.examples:
        refuse_empty(out, how)
    return out


def refuse_empty(out: Gathered, how: Gathering) -> NoReturn:
    """Raise InputError for a file without an example."""
    got = f"no usable row among {out.rows}" if out.rows else "no row"
    raise InputError(
        "read corpus",
        str(out.path),
        got,
        "at least one row of each class" if how.labels == "all" else "at least one row",
    )


def usable_examples(
    source: SplitSource, split: str, how: Gathering, out: Gathered
) -> Iterator[Example]:
    """The examples of one file one by one, in order; ``out`` counts what is not used. Raises InputError as `gather`, but for a file
    without any.
    """
    for out.rows, row in enumerate(source.rows(), start=1):
        if row.left_out:
            out.left_out[row.left_out] += 1
        else:
            yield from _taken(out, row, how)
        if how.progress and out.rows % _PROGRESS_EVERY == 0:
            how.progress(split, out.rows)
    if how.progress:
        how.progress(split, out.rows)


def examples_of(source: SplitSource, rows: Collection[int], how: Gathering) -> Iterator[Example]:
    """The examples of these ``rows`` of a file, all of which can be used; no row after the last of them is read."""
    last = max(rows, default=-1)
    for row in source.rows():
        if row.row in rows:
            yield _understood(row, how)
        if row.row >= last:
            return


def _taken(out: Gathered, row: Row, how: Gathering) -> Iterator[Example]:
    """The example of a row, or none where bad rows are skipped."""
    try:
        yield _understood(row, how)
    except BadCell as error:
        if not how.skip_bad:
            raise InputError(
                "read corpus", row.where(out.path), str(error), how.expected, _remedy(row, how)
            ) from error
        out.skipped.append(
            SkippedRow(printable(row.within(out.path)), row.row, printable(str(error)))
        )


def _remedy(row: Row, how: Gathering) -> str:
    cells = " ".join(cell for cell in (row.text, row.label, row.question) if isinstance(cell, str))
    option = (
        suggested_encoding(cells, how.encoding) if how.encoding and row.line is not None else ""
    )  # parquet states its own
    return (
        f"read the file with {option}" if option else f"correct the row, {_REMEDY}"
    )  # else every row with an accent would be skipped


def _understood(row: Row, how: Gathering) -> Example:
    if row.problem:
        raise BadCell(row.problem)
    encoding = how.encoding or "utf-8"
    text, label = usable_text(row.text, encoding=encoding), _label(row, how.labels, encoding)
    if how.classes is not None and label not in how.classes:
        raise BadCell(f"label '{label}' where {listed(how.classes)} was expected")
    if row.evidence is None:
        tokens, marks = how.tokenise(text), None
    else:
        tokens, marks = marked_words(text, usable_spans(row.evidence, len(text)), how.tokenise)
    if not tokens and how.bounds.more_than == 0:
        raise BadCell("a text without a word")
    question = (
        how.tokenise(usable_text(row.question, "question", encoding)) if how.has_question else None
    )
    if question is not None and not question:
        raise BadCell("a question without a word")
    cut = None if marks is None else marks[: how.max_tokens]
    sentences = (
        _cut_to(_sentences_of_lines(text, tokens, how.tokenise), how.max_tokens)
        if how.lines
        else None
    )
    raw = _raw(row, text) if how.raw else None
    return Example(
        row.row,
        tokens[: how.max_tokens],
        len(tokens),
        label,
        question,
        cut,
        row.answers,
        sentences,
        raw,
    )


def _label(row: Row, labels: str, encoding: str) -> str:
    if labels == "none":
        return ""
    return (
        usable_label(row.label, encoding) if labels == "all" else known_label(row.label, encoding)
    )


def _raw(row: Row, text: str) -> RawText:
    spans = None if row.evidence is None else tuple(usable_spans(row.evidence, len(text)))
    return RawText(text, row.question if isinstance(row.question, str) else None, spans)


def _sentences_of_lines(
    text: str, tokens: list[str], tokenise: Callable[[str], list[str]]
) -> list[int]:
    """The words of every line that has some. Raises BadCell where lines and rationale cut the text into other words."""
    lines = [tokenise(line) for line in text.splitlines()]
    if [word for line in lines for word in line] != tokens:
        raise BadCell("lines or a rationale that cut a word in two")
    return [len(line) for line in lines if line]


def _cut_to(sentences: list[int], most: int | None) -> list[int]:
    """The sentences of the first ``most`` words."""
    ends = np.minimum(np.cumsum(sentences), np.inf if most is None else most).astype(int)
    return [length for length in np.diff(ends, prepend=0).tolist() if length]


def _apply_bounds(out: Gathered, bounds: Bounds) -> None:
    lengths = [example.length for example in out.examples]
    below = min(
        np.inf if bounds.less_than is None else bounds.less_than,
        max(lengths, default=0) if bounds.below_longest else np.inf,
    )
    short = sum(length <= bounds.more_than for length in lengths)
    out.examples = [
        example for example in out.examples if bounds.more_than < example.length < below
    ]
    long = len(lengths) - len(out.examples) - short
    out.left_out.update(
        {f"at most {bounds.more_than} words": short, f"{below:.0f} words or more": long}
    )


def listed(names: tuple[str, ...]) -> str:
    """The first eight names."""
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
