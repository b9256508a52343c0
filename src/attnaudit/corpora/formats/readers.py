"""Which tables can be read, by their names, and which file of a folder holds which split."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.corpora.formats.delimited import csv_rows, tsv_rows
from attnaudit.corpora.formats.jsonl import jsonl_rows
from attnaudit.corpora.formats.parquet import parquet_rows
from attnaudit.corpora.formats.rows import Columns, Row, SplitSource

READERS: dict[str, Callable[[Path, Columns], Iterator[Row]]] = {
    ".csv": csv_rows, ".tsv": tsv_rows, ".jsonl": jsonl_rows, ".ndjson": jsonl_rows, ".parquet": parquet_rows,
}  # fmt: skip
SPLIT_NAMES = {"train": "train", "dev": "dev", "valid": "dev", "val": "dev", "validation": "dev", "test": "test"}
_KNOWN = ", ".join(READERS)


def stem_and_format(path: Path) -> tuple[str, str]:
    """``reviews`` and ``.csv`` of ``reviews.csv.gz``; the format is empty where a name has none."""
    plain = Path(path.name.removesuffix(".gz"))
    return plain.stem, plain.suffix.lower()


def file_source(path: Path, columns: Columns) -> SplitSource:
    """The rows of one file. Raises InputError for a format that is not known."""
    _, kind = stem_and_format(path)
    if kind not in READERS:
        hint = did_you_mean(kind, READERS)
        raise InputError("read corpus", str(path), f"a file of format '{kind}'", f"one of {_KNOWN}, perhaps with .gz", hint)
    return SplitSource(path, partial(READERS[kind], path, columns))


def folder_sources(folder: Path, columns: Columns) -> dict[str, SplitSource]:
    """The splits that a folder holds; other files are left alone. Raises InputError without train or test, or with two of one."""
    found = split_tables(folder)
    for split in ("train", "test"):
        if split not in found:
            names = ", ".join(path.name for path in sorted(folder.iterdir())[:8])
            expected = f"a file {split} with one of {_KNOWN}, perhaps with .gz"
            hint = "to split one file 80/10/10, name the file itself"
            raise InputError("read corpus", str(folder), f"no {split} split among {names or 'no files'}", expected, hint)
    return {split: file_source(path, columns) for split, path in found.items()}


def split_tables(folder: Path) -> dict[str, Path]:
    """The tables of a folder that are named as splits are. Raises InputError with two of one."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        stem, kind = stem_and_format(path)
        split = SPLIT_NAMES.get(stem.lower())
        if split is None or kind not in READERS or not path.is_file():
            continue
        if split in found:
            got = f"both {found[split].name} and {path.name}"
            raise InputError("read corpus", str(folder), got, f"one file for {split}", "move one of them away")
        found[split] = path
    return found
