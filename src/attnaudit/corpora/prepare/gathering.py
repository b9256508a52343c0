"""From the rows of files to token lists with labels, and from these to train, dev and test."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int, Int64

from attnaudit.core.numbers import count
from attnaudit.core.printable import printable
from attnaudit.core.progress import Progress, silent
from attnaudit.corpora.corpus import SPLITS, RawText, SkippedRow, Split, keyed
from attnaudit.corpora.formats.lines import bad_file, first_names
from attnaudit.corpora.formats.rows import (
    BadCell,
    Row,
    SplitSource,
    column_option,
    marked_words,
    ordered_classes,
    usable_label,
    usable_spans,
    usable_text,
)
from attnaudit.corpora.registry import Bounds, Parting

_PROGRESS_EVERY = 1000  # rows


@dataclass(frozen=True, slots=True)
class Example:
    """A usable row; ``length`` is its number of words before any cut."""

    instance: int
    tokens: list[str]
    length: int
    label: str
    question: list[str] | None = None
    rationale: list[bool] | None = None
    answers: tuple[str, ...] | None = None
    sentences: list[int] | None = None
    raw: RawText | None = None

    @property
    def content(self) -> bytes:
        """All of the raw row that a model could learn from, for a digest."""
        parts = [self.instance, self.label, self.raw and list(astuple(self.raw))]
        return json.dumps(parts).encode()


@dataclass
class Gathered:
    """The examples of one file of so many ``rows``, in order, and what was not used of it."""

    path: Path
    examples: list[Example] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    skipped: list[SkippedRow] = field(default_factory=list)
    rows: int = 0
    note: str = ""


@dataclass(frozen=True)
class Gathering:
    """Settings by which rows become examples.

    Attributes:
        tokenise: Function from a text to its words.
        skip_bad: Skip bad rows instead of refusing them.
        max_tokens: Words of a text that are kept.
        bounds: Lengths of texts that are kept.
        classes: Allowed labels; None for any.
        answers: Pattern of the words of a text that may be its answer.
        has_question: Every row has a question.
        progress: Called with the number of rows now and then.
        lines: Every line is a sentence.
        encoding: Encoding of a user's own file; None for others.
        raw: Keep the texts as they are in the file, too.
        labels: Every row has a label, or some have, or none is read.
    """

    tokenise: Callable[[str], list[str]]
    skip_bad: bool
    max_tokens: int | None = None
    bounds: Bounds = field(default_factory=Bounds)
    classes: tuple[str, ...] | None = None
    answers: str = ""
    has_question: bool = False
    progress: Progress = silent
    lines: bool = False
    encoding: str | None = None
    raw: bool = False
    labels: Literal["all", "some", "none"] = "all"

    def example(self, row: Row) -> Example:
        """Make an example of a row. Raises BadCell."""
        if row.problem:
            raise BadCell(row.problem)
        encoding = self.encoding or "utf-8"
        text, question, answers = usable_text(row.text, encoding=encoding), None, None
        label = row.label if self.labels != "none" else ""
        label = usable_label(label, encoding, self.labels == "all")
        if self.classes is not None and label not in self.classes:
            raise BadCell(f"label '{label}' where {first_names(self.classes)} was expected")
        marks = spans = None
        if row.rationale is None:
            tokens = self.tokenise(text)
        else:
            spans = usable_spans(row.rationale, len(text))
            tokens, marks = marked_words(text, spans, self.tokenise)
            marks = marks[: self.max_tokens]
        if self.has_question:
            question = self.tokenise(usable_text(row.question, "question", encoding))
        if (not tokens and self.bounds.more_than == 0) or question == []:
            raise BadCell("a text or a question without a word")
        if self.answers:
            answers = tuple(dict.fromkeys(re.findall(self.answers, text)))
            if label not in answers:
                raise BadCell(f"a passage without its answer entity ({label[:40]})")
        sentences = self._sentences(text, tokens) if self.lines else None
        asked = row.question if isinstance(row.question, str) else None
        raw = RawText(text, asked, None if spans is None else tuple(spans)) if self.raw else None
        cut = tokens[: self.max_tokens]
        return Example(row.row, cut, len(tokens), label, question, marks, answers, sentences, raw)

    def _sentences(self, text: str, tokens: list[str]) -> list[int]:
        """Count the words of each line. Raises BadCell if a line or span cuts a word in two."""
        lines = [self.tokenise(line) for line in text.splitlines()]
        if list(chain.from_iterable(lines)) != tokens:
            raise BadCell("lines or a rationale that cut a word in two")
        most = len(tokens) if self.max_tokens is None else self.max_tokens
        ends = np.minimum(np.cumsum([0, *map(len, lines)]), most)
        return [length for length in np.diff(ends).tolist() if length]


def gather(source: SplitSource, split: str, how: Gathering) -> Gathered:
    """Read one file to its end. Raises InputError for it, and for a bad row unless skipped."""
    out, bounds = Gathered(source.path, note=source.note), how.bounds
    found = list(usable_examples(source, split, how, out))
    below = np.inf if bounds.less_than is None else bounds.less_than
    if bounds.below_longest:
        below = min(below, max((example.length for example in found), default=0))
    for example in found:
        if example.length <= bounds.more_than:
            out.left_out[f"at most {bounds.more_than} words"] += 1
        elif example.length >= below:
            out.left_out[f"{below:.0f} words or more"] += 1
        else:
            out.examples.append(example)
    if not out.examples:
        raise no_rows(out)
    return out


def no_rows(out: Gathered) -> Exception:
    """Make the error for a file without an example."""
    got = f"no usable row among {out.rows}" if out.rows else "no row"
    return bad_file(out.path, got, "at least one row")


def usable_examples(
    source: SplitSource, split: str, how: Gathering, out: Gathered
) -> Iterator[Example]:
    """Read the examples of one file in order; ``out`` counts what is not used.

    Raises:
        InputError: For the file, and for a bad row unless bad rows are skipped.
    """
    for out.rows, row in enumerate(source.rows(), start=1):
        if row.left_out:
            out.left_out[row.left_out] += 1
        else:
            try:
                yield how.example(row)
            except BadCell as error:
                if not how.skip_bad:
                    raise _bad_row(out, row, how, str(error)) from error
                where = printable(row.within(out.path))
                out.skipped.append(SkippedRow(where, row.row, printable(str(error))))
        if out.rows % _PROGRESS_EVERY == 0:
            how.progress(f"read {split}", out.rows, 0)
    how.progress(f"read {split}", out.rows, 0)


def _bad_row(out: Gathered, row: Row, how: Gathering, got: str) -> Exception:
    do = "correct the row, or skip such rows: --set corpus.on_bad_row=skip"
    if how.encoding and "(byte" in got:  # or every row with an accent would be skipped
        do = "name the encoding in which it was saved, such as --set corpus.encoding=cp1252"
    parts = {"a text": True, "a question": how.has_question, "a label": how.labels == "all"}
    expected = " and ".join(part for part, is_needed in parts.items() if is_needed)
    return bad_file(row.where(out.path), got, expected, do)


def examples_of(source: SplitSource, rows: Collection[int], how: Gathering) -> Iterator[Example]:
    """Read the examples of these usable rows of a file, and no row after the last of them."""
    last = max(rows, default=-1)
    for row in source.rows():
        if row.row in rows:
            yield how.example(row)
        if row.row >= last:
            return


def as_split(examples: Sequence[Example], classes: Sequence[str]) -> Split:
    """Make a split of examples; answers that are no class are no candidates."""
    number = {name: index for index, name in enumerate(classes)}

    def column(name: str) -> list[Any] | None:
        values = [getattr(example, name) for example in examples]
        is_known = any(value is not None for value in values)
        return [value or [] for value in values] if is_known else None

    candidates = None
    if answers := column("answers"):
        candidates = np.zeros((len(examples), len(number)), dtype=bool)
        for row, names in zip(candidates, answers, strict=True):
            row[[number[name] for name in names if name in number]] = True
    return Split(
        np.array([example.instance for example in examples], dtype=np.int64),
        [example.tokens for example in examples],
        np.array([number[example.label] for example in examples], dtype=np.int32),
        column("rationale"),
        column("question"),
        candidates,
        column("sentences"),
        raw=column("raw"),
    )


Examples = dict[str, list[Example]]


def stratified_split(
    label: Int[np.ndarray, " n"], shares: Mapping[str, float], seed: int, rest: str = "train"
) -> dict[str, Int64[np.ndarray, " m"]]:
    """Draw rows by class.

    Every class gives each split its share, within one row. A class with more rows than there are
    shares gives each at least one; a smaller one goes to ``rest`` whole.

    Args:
        label: Class of each row.
        shares: Share of each split.
        seed: Seed of the draw.
        rest: Split of the rows that are left.

    Returns:
        Rows of each split in rising order.
    """
    parts: dict[str, list[np.ndarray]] = {name: [] for name in (rest, *shares)}
    for number in np.unique(label):
        rows = keyed(seed, "split", str(number)).permutation(np.flatnonzero(label == number))
        is_small = len(rows) <= len(shares)
        sizes = [0 if is_small else max(1, round(share * len(rows))) for share in shares.values()]
        for name, chosen in zip((*shares, rest), np.split(rows, np.cumsum(sizes)), strict=True):
            parts[name].append(chosen)
    return {name: np.sort(np.concatenate(chosen)) for name, chosen in parts.items()}


def divided(
    gathered: Mapping[str, Gathered], how: Gathering, registered: bool, parting: Parting, seed: int
) -> tuple[Examples, list[str]]:
    """Divide examples into train, dev and test.

    Labels that train lacks cannot be learned: their rows are excluded from a registered corpus, and
    are bad rows of a user's own.

    Returns:
        The examples of each split, and remarks.

    Raises:
        InputError: If a split would be empty, or train lacks classes.
    """
    called, found = "one file", dict(gathered)
    if "all" not in found and (parting.pooled or "train" not in found):
        called = f"{' and '.join(found)} taken together"
        found = {"all": _pooled([*found.values()])}
    train = found.get("all") or found["train"]
    labels = [example.label for example in train.examples]
    known = how.classes or learnt_classes(train.examples)
    _check_classes(train.path, labels, how.classes, registered)
    for split in SPLITS[1:]:
        if split in found:
            _drop_unknown(found[split], known, registered, how.skip_bad)
    # Answers that are no label come after the labels, whose draws do not depend on them.
    names = dict.fromkeys([*(how.classes or ordered_classes(labels)), *known])
    number = {name: index for index, name in enumerate(names)}
    drawn = {split: rows.examples for split, rows in found.items()}
    remarks = [rows.note for rows in found.values() if rows.note]
    got = f"{len(labels)} rows, too few of each class"

    def draw(split: str, shares: Mapping[str, float], rest: str, told: str) -> Examples:
        examples = drawn.pop(split)
        classes = np.array([number[example.label] for example in examples])
        rows = stratified_split(classes, shares, seed, rest)
        made = {name: [examples[row] for row in rows[name]] for name in SPLITS if name in rows}
        sizes = ", ".join(f"{name} {len(part)}" for name, part in made.items())
        remarks.append(f"{told} by class with seed {seed}: {sizes} of {len(examples)}")
        return made

    if "all" in found:
        dev, test = parting.pool_shares
        shares = "/".join(f"{100 * share:.0f}" for share in (1 - dev - test, dev, test))
        told = f"{called}, split {shares}"
        drawn = draw("all", {"dev": dev, "test": test}, "train", told)
    elif "dev" not in found:
        told = f"no dev file: {100 * parting.dev_share:.0f} % of train, drawn"
        drawn |= draw("train", {"dev": parting.dev_share}, "train", told)
        got = f"no dev file, and {got}"
    for split, share in (("train", parting.train_kept), ("test", parting.test_kept)):
        if share < 1:
            got = f"{split}_kept={share} of {count(len(drawn[split]), 'row')}, too few of a class"
            drawn |= draw(split, {split: share}, "", f"{100 * share:.3g} % of {split}, drawn")
    if empty := [split for split in SPLITS if not drawn[split]]:
        raise bad_file(train.path, got, f"more rows, for {empty[0]} too")
    return {split: drawn[split] for split in SPLITS}, remarks


def _pooled(parts: Sequence[Gathered]) -> Gathered:
    """Join parts; the instances of later ones follow the rows of those before."""
    whole = Gathered(parts[0].path.parent, note=parts[0].note)
    for part in parts:
        for example in part.examples:
            whole.examples.append(replace(example, instance=example.instance + whole.rows))
        whole.rows += part.rows
    return whole


def learnt_classes(train: Sequence[Example]) -> tuple[str, ...]:
    """Return the labels of train and the answers that its rows allow, in order."""
    return ordered_classes(name for one in train for name in (one.label, *(one.answers or ())))


def _check_classes(
    path: Path, labels: list[str], classes: tuple[str, ...] | None, registered: bool
) -> None:
    """Raise InputError if train lacks classes, or nearly every row has a label of its own."""
    present = set(labels)
    if not registered and len(present) > max(20, len(labels) // 2):
        got = f"{len(present)} different labels in {len(labels)} rows"
        do = f"name the right column with {column_option('label')}"
        raise bad_file(path, got, "classes that many rows share", do)
    if len(present) == 1 or present < set(classes or ()):
        got, number = f"only rows of class {', '.join(sorted(present))}", len(classes or ())
        raise bad_file(path, got, f"{number or 'at least two'} classes to train on")


def _drop_unknown(rows: Gathered, known: Sequence[str], registered: bool, skip_bad: bool) -> None:
    classes = set(known)
    for one in rows.examples:
        got, where = f"label '{one.label}' is not in train", f"{rows.path}: row {one.instance}"
        if one.label in classes:
            continue
        if registered:
            rows.left_out["with an answer that train does not have"] += 1
        elif skip_bad:
            rows.skipped.append(SkippedRow(str(rows.path), one.instance, got))
        else:
            do = "add rows of that class to train, or skip such rows: --set corpus.on_bad_row=skip"
            raise bad_file(where, got, f"one of {first_names(known)}", do)
    rows.examples = [example for example in rows.examples if example.label in classes]
