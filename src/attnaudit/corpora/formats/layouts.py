"""The ways in which the files of a named corpus may lie in a folder: as its authors publish them, or as plain tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from attnaudit.core.errors import InputError
from attnaudit.corpora.corpus import SPLITS
from attnaudit.corpora.formats.rows import Columns, Row, SplitSource
from attnaudit.corpora.formats.tables import (
    READERS,
    SPLIT_NAMES,
    file_source,
    split_tables,
    stem_and_format,
)

Sources = dict[str, SplitSource]
Layout = Callable[[Path], Sources]  # nothing where the folder has no file of the layout
Rows = Callable[[Path], Iterator[Row]]


class MissingFiles(InputError):
    """A folder that lacks files of a corpus; another folder may have them."""


def any_layout(
    *layouts: Layout, expected: str, within: Sequence[str] = ()
) -> Callable[[Path], Sources]:
    """The first layout whose files are all there, in a folder or in those ``within`` it that archives unpack to.

    Raises MissingFiles, which says what is ``expected``.
    """

    def sources(folder: Path) -> Sources:
        missing: list[MissingFiles] = []
        for place in (folder, *(folder / name for name in within)):
            for layout in layouts if place.is_dir() else ():
                try:
                    if found := layout(place):
                        return _with_notes(found, place, missing)
                except MissingFiles as error:
                    missing.append(error)
        if missing:
            raise missing[0]
        raise MissingFiles(
            "read corpus", str(folder), f"none of its files among {listed(folder)}", expected
        )

    return sources


def _with_notes(found: Sources, place: Path, missing: Sequence[MissingFiles]) -> Sources:
    """Sources whose notes name the folders that were skipped because files are missing there."""
    remarks = [
        f"{error.where}: {error.got}; read from {place} instead"
        for error in missing
        if error.where != str(place)
    ]
    return {
        split: replace(source, note="; ".join(filter(None, [source.note, *remarks])))
        for split, source in found.items()
    }


def split_files(
    files: Mapping[str, Sequence[str]],
    rows: Rows,
    needed: Sequence[str] = ("train", "test"),
    note: str = "",
) -> Layout:
    """A file, or a folder, for each split: the first that fits one of the patterns."""

    def layout(folder: Path) -> Sources:
        found = {
            split: path
            for split, patterns in files.items()
            if (path := first_that_fits(folder, patterns))
        }
        _require_splits(
            folder, found, needed, {split: patterns[0] for split, patterns in files.items()}
        )
        return {
            split: SplitSource(path, partial(rows, path), note) for split, path in found.items()
        }

    return layout


def one_file(
    name: str, rows: Callable[[Path, str], Iterator[Row]], parts: Mapping[str, str]
) -> Layout:
    """One file with all splits: ``rows(path, part)`` reads the part of a split."""

    def layout(folder: Path) -> Sources:
        path = first_that_fits(folder, (name,))
        return (
            {split: SplitSource(path, partial(rows, path, part)) for split, part in parts.items()}
            if path
            else {}
        )

    return layout


def jsonl_files(rows: Rows, needed: Sequence[str] = ("train", "test")) -> Layout:
    """A jsonl file for each split, gzipped or not."""
    return split_files(
        {split: (f"{split}.jsonl", f"{split}.jsonl.gz") for split in SPLITS}, rows, needed
    )


def tables(
    columns: Columns | None = None, classes: Mapping[str, str] | None = None, left_out: Mapping[str, str] | None = None,
    needed: Sequence[str] = ("train", "test"), note: str = "",
) -> Layout:  # fmt: skip
    """Tables with a header, named train, dev and test, or one named all; ``classes`` and ``left_out`` as in `renamed`."""

    def rows(path: Path) -> Iterator[Row]:
        plain = file_source(path, columns or Columns()).rows()
        return plain if classes is None else renamed(plain, classes, left_out)

    def layout(folder: Path) -> Sources:
        found = split_tables(folder)
        _require_splits(folder, found, needed, {split: f"{split}.csv" for split in needed})
        found = found or _whole(folder)
        return {
            split: SplitSource(path, partial(rows, path), note) for split, path in found.items()
        }

    return layout


def whole_table(columns: Columns | None = None) -> Layout:
    """The only table of a folder, whatever its name but that of a split."""

    def layout(folder: Path) -> Sources:
        found = _tables_named(folder, lambda stem: stem not in SPLIT_NAMES)
        return {"all": file_source(found[0], columns or Columns())} if len(found) == 1 else {}

    return layout


def class_files(
    names: Mapping[str, Sequence[str]], rows: Callable[[Path, str], Iterator[Row]]
) -> Layout:
    """A file for each class, given by its number, and no splits."""

    def layout(folder: Path) -> Sources:
        found = {
            label: path
            for label, patterns in names.items()
            if (path := first_that_fits(folder, patterns))
        }
        for label in names if found else ():
            if label not in found:
                expected = (
                    f"{names[label][0]} next to {', '.join(path.name for path in found.values())}"
                )
                raise MissingFiles(
                    "read corpus",
                    str(folder),
                    f"no file of one class among {listed(folder)}",
                    expected,
                )

        def one_after_another() -> Iterator[Row]:
            found_rows = (
                (path.name, row) for label, path in found.items() for row in rows(path, label)
            )
            return (
                replace(row, row=number, file=name) for number, (name, row) in enumerate(found_rows)
            )

        return {"all": SplitSource(folder, one_after_another)} if found else {}

    return layout


def renamed(
    rows: Iterator[Row], classes: Mapping[str, str], left_out: Mapping[str, str] | None = None
) -> Iterator[Row]:
    """Rows with the labels that ``classes`` gives for theirs; those with a label of ``left_out`` are excluded for that reason."""
    reasons = left_out or {}
    expected = ", ".join(list(classes)[:10])
    for row in rows:
        label = str(row.label).strip()
        if row.problem or row.left_out or row.label is None:
            yield row
        elif label in classes:
            yield replace(row, label=classes[label])
        elif label in reasons:
            yield replace(row, left_out=reasons[label])
        else:
            yield replace(row, problem=f"label '{label[:40]}' where one of {expected} was expected")


def _require_splits(
    folder: Path, found: Mapping[str, Path], needed: Sequence[str], names: Mapping[str, str]
) -> None:
    for split in needed if found else ():
        if split not in found:
            expected = f"{names[split]} next to {', '.join(path.name for path in found.values())}"
            raise MissingFiles(
                "read corpus", str(folder), f"no {split} split among {listed(folder)}", expected
            )


def first_that_fits(folder: Path, patterns: Sequence[str]) -> Path | None:
    """The first file or folder that fits one of the patterns, tried in order."""
    return next((path for pattern in patterns for path in sorted(folder.glob(pattern))), None)


def listed(folder: Path) -> str:
    """A few names of what is in a folder."""
    names = sorted(path.name for path in folder.iterdir())
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "") or "no files"


def _whole(folder: Path) -> dict[str, Path]:
    found = _tables_named(folder, lambda stem: stem == "all")
    if len(found) > 1:
        got = f"both {found[0].name} and {found[1].name}"
        raise InputError(
            "read corpus", str(folder), got, "one file with all rows", "move one of them away"
        )
    return {"all": found[0]} if found else {}


def _tables_named(folder: Path, fits: Callable[[str], bool]) -> list[Path]:
    parts = ((path, *stem_and_format(path)) for path in sorted(folder.iterdir()) if path.is_file())
    return [path for path, stem, kind in parts if kind in READERS and fits(stem.lower())]
