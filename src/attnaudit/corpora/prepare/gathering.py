"""From the rows of files to token lists with labels, and from these to train, dev and test."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Int64

from attnaudit.core import Progress, printable, silent
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
    usable_segments,
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


class Excluded(Exception):
    """A row that the corpus by its own definition does not use; the message says why."""


@dataclass(frozen=True)
class Gathering:
    """Settings by which rows become examples.

    Attributes:
        tokenise: Function from a text to its words.
        skip_bad: Skip bad rows instead of refusing them.
        max_tokens: Words of a text that are kept.
        bounds: Lengths of texts that are kept.
        classes: Allowed labels; None for any.
        unknown: Reason for which rows with other labels are excluded; without one they are bad.
        answers: Pattern of the words of a text that may be its answer.
        has_question: Every row has a question.
        progress: Called with the number of rows now and then.
        own: A user may name the encoding of the file.
        raw: Keep the texts as they are in the file, too.
        label_needed: Every row has a label.
    """

    tokenise: Callable[[str], list[str]]
    skip_bad: bool
    max_tokens: int | None = None
    bounds: Bounds = field(default_factory=Bounds)
    classes: tuple[str, ...] | None = None
    unknown: str = ""
    answers: str = ""
    has_question: bool = False
    progress: Progress = silent
    own: bool = False
    raw: bool = False
    label_needed: bool = True

    def example(self, row: Row) -> Example:
        """Make an example of a row. Raises BadCell, or Excluded."""
        if row.left_out:
            raise Excluded(row.left_out)
        if row.problem:
            raise BadCell(row.problem)
        text, question, answers = usable_text(row.text), None, None
        label = usable_label(row.label, self.label_needed)
        if self.classes is not None and label not in self.classes:
            if self.unknown:
                raise Excluded(self.unknown)
            raise BadCell(f"label '{label}' where {first_names(self.classes)} was expected")
        marks = spans = None
        if row.rationale is None:
            tokens = self.tokenise(text)
        else:
            spans = usable_spans(row.rationale, len(text))
            tokens, marks = marked_words(text, spans, self.tokenise)
            marks = marks[: self.max_tokens]
        if self.has_question:
            question = self.tokenise(usable_text(row.question, "question"))
        if (not tokens and self.bounds.more_than == 0) or question == []:
            raise BadCell("a text or a question without a word")
        if self.answers:
            answers = tuple(dict.fromkeys(re.findall(self.answers, text)))
            if label not in answers:
                raise BadCell(f"a passage without its answer entity ({label[:40]})")
        asked = row.question if isinstance(row.question, str) else None
        raw = None
        if self.raw:
            parts = None if row.segments is None else tuple(usable_segments(row.segments, text))
            answer = None if row.answer is None else usable_text(row.answer, "answer")
            raw = RawText(text, asked, None if spans is None else tuple(spans), parts, answer)
        cut = tokens[: self.max_tokens]
        return Example(row.row, cut, len(tokens), label, question, marks, answers, raw)


def gather(source: SplitSource, split: str, how: Gathering) -> Gathered:
    """Read one file to its end. Raises InputError for it, and for a bad row unless skipped."""
    out, bounds, examples = Gathered(source.path), how.bounds, []
    for out.rows, row in enumerate(source.rows(), start=1):
        if out.rows % _PROGRESS_EVERY == 0:
            how.progress(f"read {split}", out.rows, 0)
        try:
            examples.append(how.example(row))
        except Excluded as reason:
            out.left_out[str(reason)] += 1
        except BadCell as error:
            if not how.skip_bad:
                raise _bad_row(row.where(source.path), str(error), how) from error
            file, reason = printable(row.file or str(source.path)), printable(str(error))
            out.skipped.append(SkippedRow(file, row.row, reason))
    how.progress(f"read {split}", out.rows, 0)
    below = np.inf if bounds.less_than is None else bounds.less_than
    if bounds.below_longest:
        below = min(below, max((example.length for example in examples), default=0))
    for example in examples:
        if example.length <= bounds.more_than:
            out.left_out[f"at most {bounds.more_than} words"] += 1
        elif example.length >= below:
            out.left_out[f"{below:.0f} words or more"] += 1
        else:
            out.examples.append(example)
    if not out.examples:
        got = f"no usable row among {out.rows}" if out.rows else "no row"
        raise bad_file(out.path, got, "at least one row")
    return out


def _bad_row(where: str, got: str, how: Gathering) -> Exception:
    do = "correct the row, or skip such rows: --set corpus.on_bad_row=skip"
    if how.own and "(byte" in got:  # or every row with an accent would be skipped
        do = "name the encoding in which it was saved, such as --set corpus.encoding=cp1252"
    parts = {"a text": True, "a question": how.has_question, "a label": how.label_needed}
    expected = " and ".join(part for part, is_needed in parts.items() if is_needed)
    return bad_file(where, got, expected, do)


def as_split(examples: Sequence[Example], classes: Sequence[str]) -> Split:
    """Make a split of examples; answers that are no class are no candidates."""
    number = {name: index for index, name in enumerate(classes)}

    def column(name) -> Any:
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

    Returns:
        The examples of each split, and remarks.

    Raises:
        InputError: If a split would be empty, or train lacks classes.
    """
    origin, files = "one file", dict(gathered)
    if "all" not in files and (parting.pooled or "train" not in files):
        origin, files = f"{' and '.join(files)} taken together", {"all": _pooled([*files.values()])}
    train = files.get("all") or files["train"]
    require_classes(train, how.classes, registered)
    labels = ordered_classes(example.label for example in train.examples)
    # Answers that are no label come after the labels, whose draws do not depend on them.
    known = dict.fromkeys([*(how.classes or labels), *learnt_classes(train.examples)])

    # Each draw is from a split: the shares of others, the split of the rest, and a remark.
    draws: list[tuple[str, dict[str, float], str, str]] = []
    if "all" in files:
        dev, test = parting.pool_shares
        shares = "/".join(f"{100 * share:.0f}" for share in (1 - dev - test, dev, test))
        draws.append(("all", {"dev": dev, "test": test}, "train", f"{origin}, split {shares}"))
    elif "dev" not in files:
        told = f"no dev file: {100 * parting.dev_share:.0f} % of train, drawn"
        draws.append(("train", {"dev": parting.dev_share}, "train", told))
    for split, share in (("train", parting.train_kept), ("test", parting.test_kept)):
        if share < 1:
            draws.append((split, {split: share}, "", f"{100 * share:.3g} % of {split}, drawn"))
    number = {name: index for index, name in enumerate(known)}
    parts = {split: file.examples for split, file in files.items()}
    remarks: list[str] = []
    for split, shares, rest, told in draws:
        examples = parts.pop(split)
        classes = np.array([number[example.label] for example in examples])
        drawn = stratified_split(classes, shares, seed, rest)
        made = {name: [examples[row] for row in drawn[name]] for name in SPLITS if name in drawn}
        sizes = ", ".join(f"{name} {len(part)}" for name, part in made.items())
        remarks.append(f"{told} by class with seed {seed}: {sizes} of {len(examples)}")
        if empty := [name for name, part in made.items() if not part]:
            raise bad_file(train.path, remarks[-1], f"more rows of a class, for {empty[0]} too")
        parts |= made
    return {split: parts[split] for split in SPLITS}, remarks


def _pooled(files: Sequence[Gathered]) -> Gathered:
    """Join files; the instances of later ones follow the rows of those before."""
    whole = Gathered(files[0].path.parent)
    for file in files:
        for example in file.examples:
            whole.examples.append(replace(example, instance=example.instance + whole.rows))
        whole.rows += file.rows
    return whole


def learnt_classes(train: Sequence[Example]) -> tuple[str, ...]:
    """Return the labels of train and the answers that its rows allow, in order."""
    return ordered_classes(name for one in train for name in (one.label, *(one.answers or ())))


def require_classes(train: Gathered, classes: Sequence[str] | None, registered: bool) -> None:
    """Raise InputError if train lacks classes, or nearly every row has a label of its own."""
    present, rows = {example.label for example in train.examples}, len(train.examples)
    if not registered and len(present) > max(20, rows // 2):
        got = f"{len(present)} different labels in {rows} rows"
        do = f"name the right column with {column_option('label')}"
        raise bad_file(train.path, got, "classes that many rows share", do)
    if len(present) == 1 or present < set(classes or ()):
        got, number = f"only rows of class {', '.join(sorted(present))}", len(classes or ())
        raise bad_file(train.path, got, f"{number or 'at least two'} classes to train on")
