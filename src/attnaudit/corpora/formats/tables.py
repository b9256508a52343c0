"""Tables as rows: csv, tsv, jsonl and parquet files, and which file of a folder holds which split."""

from __future__ import annotations

import contextlib
import csv
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.extras import require
from attnaudit.core.numbers import count
from attnaudit.corpora.formats.lines import (
    LONGEST_LINE,
    invalid_utf8,
    named_encoding,
    numbered_lines,
    suggested_encoding,
)
from attnaudit.corpora.formats.rows import BadCell, Columns, Row, SplitSource, require_columns

Record = tuple[int, list[str]]  # the line where it begins, its fields


@dataclass(frozen=True)
class Dialect:
    """How a file of texts is written: its ``encoding``, and the ``delimiter`` of its fields (default: as its name says).

    Raises InputError for an encoding that Python does not know, and a delimiter that is no single character.
    """

    encoding: str = "utf-8"
    delimiter: str = ""

    def __post_init__(self) -> None:
        if len(self.delimiter) > 1 or self.delimiter in ('"', "\r", "\n"):
            raise InputError(
                "read settings",
                "setting corpus.delimiter",
                repr(self.delimiter),
                "one character, or tab",
            )
        try:
            "\n".encode(self.encoding)
        except (LookupError, ValueError) as error:
            expected = "an encoding that Python knows, as utf-8, latin-1, cp1252 or utf-16"
            raise InputError(
                "read settings", "setting corpus.encoding", repr(self.encoding), expected
            ) from error


def csv_records(path: Path, delimiter: str = ",", encoding: str = "utf-8") -> Iterator[Record]:
    """Fields of every record, the header's too; empty lines are none. Raises InputError."""
    reader = csv.reader(
        (line for _, line in numbered_lines(path, encoding=encoding)),
        delimiter=delimiter,
        strict=True,
    )
    begins = 1
    with _long_fields():
        try:
            for fields in reader:
                if fields:  # an empty line is no row
                    yield begins, fields
                begins = reader.line_num + 1
        except csv.Error as error:
            where, do = (
                f"{path}: row that begins in line {begins}",
                "correct its quotation marks or line ends",
            )
            _, header = next(numbered_lines(path, encoding=encoding))
            if begins == 1 and (found := re.search(r'"([;\t|])', header)):
                mark = _named_delimiter(found[1])
                do = f"save the table with commas between its fields, not {mark}, or read a file of your own with --delimiter {mark}"
            raise InputError(
                "read corpus", where, f"{error}", "fields quoted as RFC 4180 says", do
            ) from error


def tsv_records(path: Path, encoding: str = "utf-8") -> Iterator[Record]:
    """Fields of every record of a tab-separated file.

    Where every line has the header's number of tabs, a line is a row and a quotation mark inside a text is only that;
    otherwise fields are quoted as in csv. Raises InputError.
    """
    tabs = {
        line.count("\t")
        for _, line in numbered_lines(path, encoding=encoding)
        if line.strip("\r\n")
    }
    return _plain_records(path, encoding) if len(tabs) == 1 else csv_records(path, "\t", encoding)


def header_indices(path: Path, header: Sequence[str], names: Sequence[str]) -> list[int]:
    """Which fields the columns of those names are, in capitals or not. Raises InputError."""
    present = [name.strip().upper() for name in header]
    mark = _other_delimiter(header)
    do = f"save the table with commas between its fields, not {mark}" if mark else ""
    for name in names:
        if present.count(name.upper()) != 1:
            got = f"columns {', '.join(header[:12]) or '(none)'}"
            raise InputError("read corpus", str(path), got, f"one column {name} in its header", do)
    return [present.index(name.upper()) for name in names]


def table_rows(
    path: Path, columns: Columns, read: Callable[[Path], Iterator[Record]] = csv_records, encoding: str = "utf-8"
) -> Iterator[Row]:  # fmt: skip
    """Rows of a comma-separated file with a header, or of one that ``read`` takes apart, in ``encoding``. Raises InputError."""
    records = read(path)
    _, header = next(records, (0, []))
    names = [name.strip() for name in header]
    for name in names:
        if wrong := invalid_utf8(name, encoding):
            do = f"save the file as UTF-8, or read it with {suggested_encoding(name, encoding)}"
            raise InputError("read corpus", f"{path}: header", wrong, named_encoding(encoding), do)
    if columns.rationale is not None:
        raise InputError(
            "read corpus",
            str(path),
            "a table without lists",
            "jsonl or parquet for a column of rationales",
        )
    _require_delimiter(path, names)
    columns = columns.among(names)
    require_columns(path, names, columns)
    positions = {option: names.index(name) for option, name in columns}
    for row, (line, fields) in enumerate(records):
        if len(fields) == len(header):
            cells: dict[str, Any] = {
                option: fields[position] for option, position in positions.items()
            }
            yield Row(row, line, **cells)
        else:
            yield Row(
                row,
                line,
                problem=f"{count(len(fields), 'field')} where the header has {len(header)}",
            )


def _require_delimiter(path: Path, names: Sequence[str]) -> None:
    """Raise InputError for a header that is one field, which another delimiter than the expected one parts."""
    if mark := _other_delimiter(names):
        raise InputError(
            "read corpus",
            f"{path}: header",
            f"one column '{names[0][:80]}'",
            "a column each",
            f"is it --delimiter {mark}?",
        )


def _other_delimiter(names: Sequence[str]) -> str:
    """The delimiter that parts a header of one field, as messages name it; nothing for a header of several."""
    return (
        next((_named_delimiter(mark) for mark in ";\t|" if mark in names[0]), "")
        if len(names) == 1
        else ""
    )


def _named_delimiter(mark: str) -> str:
    return "tab" if mark == "\t" else f"'{mark}'"


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    before = csv.field_size_limit(
        LONGEST_LINE
    )  # the module's own limit, 128 KiB, is shorter than a long document
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _plain_records(path: Path, encoding: str) -> Iterator[Record]:
    for number, line in numbered_lines(path, encoding=encoding):
        if fields := line.rstrip("\r\n"):
            yield number, [_unquoted(field) for field in fields.split("\t")]


def _unquoted(field: str) -> str:
    inner = field[1:-1]
    whole = len(field) >= 2 and field[0] == field[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if whole else field


Fields = dict[str, Any]  # of Row


def jsonl_rows(path: Path, columns: Columns, encoding: str = "utf-8") -> Iterator[Row]:
    """Rows of a jsonl file; empty lines are none. Raises InputError when the first object lacks a column."""

    def fields(found: dict[str, Any]) -> Fields:
        cells: Fields = {option: found.get(name) for option, name in columns}
        if "rationale" in cells:
            cells["evidence"] = cells.pop("rationale")
        return cells

    return object_rows(path, columns, fields, numbered_lines(path, encoding=encoding), encoding)


def object_rows(
    path: Path, needed: Columns | None, fields: Callable[[dict[str, Any]], Fields], lines: Iterator[tuple[int, str]] | None = None,
    encoding: str = "utf-8",
) -> Iterator[Row]:  # fmt: skip
    """A row for each object of a file, or of ``lines`` in ``encoding`` from elsewhere, with the ``fields`` that are made of it.

    Where these raise BadCell, or a line holds no object, the row is bad; empty lines are none. Raises InputError when the first object
    lacks a needed column.
    """
    filled = ((number, line) for number, line in lines or numbered_lines(path) if line.strip())
    for row, (number, line) in enumerate(filled):
        found = _object(line, encoding)
        if isinstance(found, str):
            yield Row(row, number, line, problem=found)
            continue
        if needed:
            require_columns(path, list(found), needed.among(found))
            needed = None
        try:
            cells = fields(found)
        except BadCell as error:
            cells: Fields = {"problem": str(error)}
        yield Row(row, number, **cells)


def _object(line: str, encoding: str) -> dict | str:
    if wrong := invalid_utf8(line, encoding):
        return wrong
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        return f"no JSON ({error.msg} at column {error.colno})"
    except (ValueError, RecursionError) as error:
        return f"no usable JSON ({error})"
    return (
        found
        if isinstance(found, dict)
        else f"a JSON {type(found).__name__} where an object was expected"
    )


def _csv(path: Path, columns: Columns, dialect: Dialect) -> Iterator[Row]:
    read = partial(csv_records, delimiter=dialect.delimiter or ",", encoding=dialect.encoding)
    return table_rows(path, columns, read, dialect.encoding)


def _tsv(path: Path, columns: Columns, dialect: Dialect) -> Iterator[Row]:
    if dialect.delimiter not in ("", "\t"):
        return _csv(path, columns, dialect)
    return table_rows(
        path, columns, partial(tsv_records, encoding=dialect.encoding), dialect.encoding
    )


def _jsonl(path: Path, columns: Columns, dialect: Dialect) -> Iterator[Row]:
    _refuse(path, dialect, "a jsonl file", "delimiter")
    return jsonl_rows(path, columns, dialect.encoding)


def _parquet(path: Path, columns: Columns, dialect: Dialect) -> Iterator[Row]:
    _refuse(path, dialect, "a parquet file", "delimiter", "encoding")
    require("parquet", f"read corpus: {path}")
    from attnaudit.corpora.formats.parquet import parquet_rows

    return parquet_rows(path, columns)


def _refuse(path: Path, dialect: Dialect, kind: str, *options: str) -> None:
    for option in options:
        if getattr(dialect, option) != getattr(Dialect(), option):
            raise InputError(
                "read corpus",
                str(path),
                f"--{option} for {kind}, which states it",
                "a csv or tsv file",
                "leave it out",
            )


READERS: dict[str, Callable[[Path, Columns, Dialect], Iterator[Row]]] = {
    ".csv": _csv, ".tsv": _tsv, ".jsonl": _jsonl, ".ndjson": _jsonl, ".parquet": _parquet,
}  # fmt: skip
SPLIT_NAMES = {
    "train": "train",
    "dev": "dev",
    "valid": "dev",
    "val": "dev",
    "validation": "dev",
    "test": "test",
}
_KNOWN = ", ".join(READERS)


def stem_and_format(path: Path) -> tuple[str, str]:
    """``reviews`` and ``.csv`` of ``reviews.csv.gz``; the format is empty where a name has none."""
    plain = Path(path.name.removesuffix(".gz"))
    return plain.stem, plain.suffix.lower()


def file_source(path: Path, columns: Columns, dialect: Dialect = Dialect()) -> SplitSource:
    """The rows of one file. Raises InputError for a format that is not known."""
    _, kind = stem_and_format(path)
    if kind not in READERS:
        hint = did_you_mean(kind, READERS)
        raise InputError(
            "read corpus",
            str(path),
            f"a file of format '{kind}'",
            f"one of {_KNOWN}, perhaps with .gz",
            hint,
        )
    return SplitSource(path, partial(READERS[kind], path, columns, dialect))


def folder_sources(
    folder: Path, columns: Columns, dialect: Dialect = Dialect()
) -> dict[str, SplitSource]:
    """The splits that a folder holds; other files are left alone. Raises InputError without train or test, or with two of one."""
    found = split_tables(folder)
    for split in ("train", "test"):
        if split not in found:
            names = ", ".join(path.name for path in sorted(folder.iterdir())[:8])
            expected = f"a file {split} with one of {_KNOWN}, perhaps with .gz"
            hint = "to split one file 80/10/10, name the file itself"
            raise InputError(
                "read corpus",
                str(folder),
                f"no {split} split among {names or 'no files'}",
                expected,
                hint,
            )
    return {split: file_source(path, columns, dialect) for split, path in found.items()}


def split_tables(folder: Path, formats: Collection[str] = READERS) -> dict[str, Path]:
    """The tables of a folder that are named as splits are, of these ``formats``. Raises InputError with two of one."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        stem, kind = stem_and_format(path)
        split = SPLIT_NAMES.get(stem.lower())
        if split is None or kind not in formats or not path.is_file():
            continue
        if split in found:
            got = f"both {found[split].name} and {path.name}"
            raise InputError(
                "read corpus", str(folder), got, f"one file for {split}", "move one of them away"
            )
        found[split] = path
    return found
