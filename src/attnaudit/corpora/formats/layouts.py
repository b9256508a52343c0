"""Layouts of a registered corpus: the files of each split, and their reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.corpora.formats.lines import filled_lines, first_names
from attnaudit.corpora.formats.readers import READERS
from attnaudit.corpora.formats.rows import Row, SplitSource, word_spans
from attnaudit.corpora.formats.tables import (
    TABLES,
    first_that_fits,
    listed,
    split_tables,
    stem_and_format,
)

Sources = dict[str, SplitSource]


class MissingFiles(InputError):
    """A folder lacks files of a corpus; another folder may have them."""


@dataclass(frozen=True)
class Layout:
    """Files of a corpus, and how to read them; called with a folder it gives the sources there.

    Attributes:
        read: Name of a reader in `READERS`, or a function from a path to rows.
        files: Patterns of the file, plain or gzipped, or folder of each split, or of ``all``; the
            first that fits is read. By default tables named as splits, or the only table.
        needed: Splits that must be there if any is.
        options: Further arguments of the reader.
        parts: Part of its file that each split is, passed to the reader as ``part``.
        begins: Pattern that the first line of each file must match.
        labels: Class of each label in the files; the number of a class or, for a corpus without
            class names, its name.
        left_out: Labels whose rows are excluded, with the reason.
        masks: Pattern of the file with a 0 or 1 for every word of a split, ``{}`` for the split.
        note: Remark for the user.
    """

    read: str | Callable[..., Iterator[Row]]
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    needed: Sequence[str] = ("train", "test")
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    begins: str = ""
    labels: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    masks: str = ""
    note: str = ""

    def __call__(self, folder: Path) -> Sources:
        """Return the sources of a folder, none if it has no file of this layout.

        Raises:
            MissingFiles: If a needed split is missing.
        """
        found = self._files(folder)
        if self.begins and not all(map(self._begins, found.values())):
            return {}
        for split in self.needed if found else ():
            if split not in found and "all" not in found:
                expected = self.files.get(split, (f"{split}.csv",))[0]
                expected = f"{expected} next to {', '.join(path.name for path in found.values())}"
                got = f"no {split} split among {listed(folder)}"
                raise MissingFiles("read corpus", str(folder), got, expected)
        return {
            split: SplitSource(path, partial(self._rows, split, path), self.note)
            for split, path in found.items()
        }

    def _files(self, folder: Path) -> dict[str, Path]:
        if self.files:
            fits = {split: first_that_fits(folder, names) for split, names in self.files.items()}
            return {split: path for split, path in fits.items() if path}
        if found := split_tables(folder):
            return found
        tables = [path for path in sorted(folder.iterdir()) if stem_and_format(path)[1] in TABLES]
        return {"all": tables[0]} if len(tables) == 1 else {}

    def _begins(self, path: Path) -> bool:
        _, _, first = next(filled_lines(path))
        return re.match(self.begins, first) is not None

    def _rows(self, split: str, path: Path) -> Iterator[Row]:
        read = READERS[self.read] if isinstance(self.read, str) else self.read
        part = {"part": self.parts[split]} if self.parts else {}
        rows = read(path, **part, **self.options)
        rows = map(self._classified, rows) if self.labels else rows
        if not self.masks:
            return rows
        name = self.masks.format(split)
        return _masked(rows, first_that_fits(path.parent, [name]) or path.parent / name)

    def _classified(self, row: Row) -> Row:
        label = str(row.label).strip()
        if row.problem or row.left_out or row.label is None:
            return row
        if label in self.left_out:
            return replace(row, left_out=self.left_out[label])
        if label in self.labels:
            return replace(row, label=str(self.labels[label]))
        expected = first_names(self.labels, 10)
        return replace(row, problem=f"label '{label[:40]}' where one of {expected} was expected")


def _masked(rows: Iterator[Row], path: Path) -> Iterator[Row]:
    """Mark the words of each row by the same line of a file of masks."""
    masks = (line.split() for _, _, line in filled_lines(path))
    for row, mask in zip_longest(rows, masks, fillvalue=()):
        if not isinstance(row, Row):
            return
        text, words = str(row.text), len(str(row.text).split())
        problem, rationale = row.problem, None
        if not problem and (len(mask) != words or set(mask) - {"0", "1"}):
            problem = f"a mask of {len(mask)} entries in {path.name} for {words} words, where a "
            problem += "0 or 1 for each was expected"
        if not problem:
            rationale = word_spans(text, [(k, k + 1) for k, bit in enumerate(mask) if bit == "1"])
        yield replace(row, problem=problem, rationale=rationale)
