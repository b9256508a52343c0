"""Texts of one's own files as they are, for a model that is trained: one split of them, nothing drawn, labels where there are some."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress, silent
from attnaudit.corpora.formats.lines import filled_lines, require_utf8
from attnaudit.corpora.formats.rows import Columns, Row, SplitSource, column_option
from attnaudit.corpora.formats.tables import (
    READERS,
    Dialect,
    file_source,
    split_tables,
    stem_and_format,
)
from attnaudit.corpora.prepare.gathering import (
    Example,
    Gathered,
    Gathering,
    examples_of,
    gather,
    refuse_empty,
    usable_examples,
)
from attnaudit.corpora.read import dialect_of, refuse_words
from attnaudit.corpora.registry import missing_corpus
from attnaudit.corpora.spec import CorpusSpec, refuse_generated

LINES = ".txt"
WHOLE = "all"  # the split of a file that is read whole
IN_ORDER = ("test", "dev", "train")  # of a folder, which the first that it has is read of


def read_own(
    spec: CorpusSpec,
    split: str | None = None,
    *,
    labelled: bool = False,
    label_needed: bool = False,
    progress: Progress = silent,
) -> tuple[str, Gathered]:
    """The texts of a file, which is a table or has a text on every line (``.txt``, ``.txt.gz``), or of one file of a folder; and the split.

    A file is read whole, as split ``all``. Of a folder it is the file of ``split``, by default test, else dev, else train; no other is
    opened. With ``labelled`` rows may have labels, empty ones where they are not known; the column of labels must be there where it is
    ``label_needed``. Empty lines are none. Raises InputError with file and row.
    """
    name, source, how = _read_how(spec, split, labelled, label_needed, progress)
    return name, gather(source, name, how)


def _read_how(
    spec: CorpusSpec, split: str | None, labelled: bool, label_needed: bool, progress: Progress
) -> tuple[str, SplitSource, Gathering]:
    """The split that is read, where from, and how. Raises InputError."""
    refuse_generated(spec)
    refuse_words(spec)
    refuse_shares(spec)
    columns = Columns(
        spec.text, spec.label if labelled else None, spec.question, spec.rationale, label_needed
    )
    name, source = _source(
        require_utf8(Path(spec.source).expanduser()), split, columns, dialect_of(spec), spec.source
    )
    return name, source, _own_gathering(spec, labelled, progress)


def gather_own(
    source: SplitSource, split: str, spec: CorpusSpec, labelled: bool, progress: Progress = silent
) -> Gathered:
    """The rows of a source, checked one by one. Raises InputError."""
    return gather(source, split, _own_gathering(spec, labelled, progress))


def _own_gathering(spec: CorpusSpec, labelled: bool, progress: Progress) -> Gathering:
    return Gathering(
        str.split, spec.on_bad_row == "skip", has_question=spec.question is not None, encoding=dialect_of(spec).encoding, raw=True,
        labels="some" if labelled else "none", progress=lambda split, rows: progress(f"read {split}", rows, 0),
    )  # fmt: skip


@dataclass(frozen=True)
class Draw:
    """At most ``size`` of the texts of a file, drawn by ``seed`` and in their order."""

    size: int
    seed: int

    def of(self, n: int) -> Int64[np.ndarray, " m"]:
        """Which of ``n`` texts."""
        return (
            np.arange(n)
            if n <= self.size
            else np.sort(np.random.default_rng([self.seed, n]).permutation(n)[: self.size])
        )


class Read(NamedTuple):
    """What is known of all ``texts`` of a file of which some are kept: their labels by number of rows, and a digest of what they hold."""

    texts: int
    labels: Mapping[str, int]
    has_spans: bool
    fingerprint: str


def draw_own(
    spec: CorpusSpec, draw: Draw, split: str | None = None, *, labelled: bool = False, label_needed: bool = False,
    progress: Progress = silent,
) -> tuple[str, Gathered, Read]:  # fmt: skip
    """`read_own` of a file that is read twice and never held: once to check and count every row, once for those that are drawn."""
    name, source, how = _read_how(spec, split, labelled, label_needed, progress)
    out, ids, digest = Gathered(source.path, note=source.note), array("q"), _Digest()
    for example in usable_examples(source, name, how, out):
        ids.append(example.instance)
        digest.add(example)
    if not ids:
        refuse_empty(out, how)
    rows = np.frombuffer(ids, np.int64)
    chosen = set(rows[draw.of(len(rows))].tolist())
    out.examples.extend(examples_of(source, chosen, how))
    return name, out, Read(len(rows), digest.labels, digest.has_spans, digest.of(ids))


class _Digest:
    """The sha256 of the JSON of all texts, then all instances, then all labels, made of one row after the other."""

    def __init__(self) -> None:
        self.sha, self.labels, self.has_spans = hashlib.sha256(b"[["), dict[str, int](), False
        self.each, self.numbers = array("l"), dict[str, int]()

    def add(self, example: Example) -> None:
        raw = example.raw
        assert raw is not None
        before = ", " if self.each else ""
        self.sha.update((before + json.dumps([raw.text, raw.question, raw.spans])).encode())
        self.labels[example.label] = self.labels.get(example.label, 0) + 1
        self.each.append(self.numbers.setdefault(example.label, len(self.numbers)))
        self.has_spans = self.has_spans or raw.spans is not None

    def of(self, ids: Iterable[int]) -> str:
        names = [json.dumps(name) for name in self.numbers]
        for parts in (map(str, ids), (names[number] for number in self.each)):
            self.sha.update(b"], [")
            self.sha.update(next(parts, "").encode())
            for part in parts:
                self.sha.update(f", {part}".encode())
        self.sha.update(b"]]")
        return self.sha.hexdigest()


def refuse_shares(spec: CorpusSpec) -> None:
    """Raise InputError for a share of a split where nothing is drawn."""
    for name in ("train_kept", "test_kept"):
        if getattr(spec, name) is not None:
            raise InputError(
                "read settings",
                f"setting corpus.{name}",
                "texts that are read whole",
                "no such setting",
                "leave it out",
            )


def _source(
    path: Path, split: str | None, columns: Columns, dialect: Dialect, given: str
) -> tuple[str, SplitSource]:
    try:
        if path.is_dir():
            name, file = _of_folder(path, split)
            return name, _file(file, columns, dialect)
        if path.exists():
            if split not in (None, WHOLE):
                got, expected = (
                    "a file without splits",
                    "all, or train, dev or test: shares of a table that are drawn by the seed",
                )
                raise InputError("read corpus", f"--split {split}", got, expected)
            return WHOLE, _file(path, columns, dialect)
    except OSError as error:
        raise InputError(
            "read corpus", str(path), error.strerror or str(error), "a place that can be read"
        ) from error
    raise missing_corpus(given)


def _of_folder(folder: Path, split: str | None) -> tuple[str, Path]:
    """The split of a folder that is read, and its file. Raises InputError."""
    found = split_tables(folder, (*READERS, LINES))
    if not found:
        names = ", ".join(path.name for path in sorted(folder.iterdir())[:8])
        expected = f"a file test, dev or train with one of {', '.join((*READERS, LINES))}, perhaps with .gz"
        raise InputError(
            "read corpus",
            str(folder),
            f"no such file among {names or 'no files'}",
            expected,
            "or name a file itself",
        )
    if split is not None and split not in found:
        raise InputError(
            "read corpus",
            f"--split {split}",
            f"a folder with {', '.join(found)}",
            "one of its splits",
        )
    name = split or next(name for name in IN_ORDER if name in found)
    return name, found[name]


def _file(path: Path, columns: Columns, dialect: Dialect) -> SplitSource:
    if stem_and_format(path)[1] != LINES:
        return file_source(path, columns, dialect)
    asked = {"text": columns.text != Columns.text, "label": columns.label_needed}
    given = [column_option(option) for option, _ in columns if asked.get(option, True)]
    given += ["--delimiter"] if dialect.delimiter else []
    if given:
        raise InputError(
            "read corpus",
            str(path),
            "a text on every line, without columns",
            "a table",
            f"leave out {given[0]}",
        )
    return SplitSource(path, partial(_lines, path, dialect.encoding))


def _lines(path: Path, encoding: str) -> Iterator[Row]:
    return (
        Row(row, number, line.rstrip("\r\n")) for row, number, line in filled_lines(path, encoding)
    )
