"""csv and tsv files, quoted as RFC 4180 says; a field may hold line ends."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.corpora.formats.lines import invalid_utf8, numbered_lines
from attnaudit.corpora.formats.rows import Columns, Row, require_columns

Record = tuple[int, list[str]]  # the line where it begins, its fields
_LONGEST_FIELD = 2**31 - 1


def csv_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """Rows of a comma-separated file with a header. Raises InputError."""
    return _rows(path, csv_records(path), columns)


def tsv_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """Rows of a tab-separated file with a header. Raises InputError."""
    return _rows(path, tsv_records(path), columns)


def csv_records(path: Path, delimiter: str = ",") -> Iterator[Record]:
    """Fields of every record, the header's too; empty lines are none. Raises InputError."""
    reader = csv.reader((line for _, line in numbered_lines(path)), delimiter=delimiter, strict=True)
    begins = 1
    with _long_fields():
        try:
            for fields in reader:
                if fields:  # an empty line is no row
                    yield begins, fields
                begins = reader.line_num + 1
        except csv.Error as error:
            where = f"{path}: row that begins in line {begins}"
            raise InputError(
                "read corpus", where, f"{error}", "fields quoted as RFC 4180 says", "correct its quotation marks or line ends"
            ) from error


def tsv_records(path: Path) -> Iterator[Record]:
    """Fields of every record of a tab-separated file.

    Where every line has the header's number of tabs, a line is a row and a quotation mark inside a text is only that;
    otherwise fields are quoted as in csv. Raises InputError.
    """
    return _plain_records(path) if _one_row_a_line(path) else csv_records(path, "\t")


def header_indices(path: Path, header: Sequence[str], names: Sequence[str]) -> list[int]:
    """Which fields the columns of those names are, in capitals or not. Raises InputError."""
    present = [name.strip().upper() for name in header]
    for name in names:
        if present.count(name.upper()) != 1:
            raise InputError("read corpus", str(path), f"columns {', '.join(header[:12]) or '(none)'}", f"one column {name} in its header")
    return [present.index(name.upper()) for name in names]


def _places(path: Path, header: list[str], columns: Columns) -> dict[str, int]:
    names = [name.strip() for name in header]
    for name in names:
        if wrong := invalid_utf8(name):
            raise InputError("read corpus", f"{path}: header", wrong, "UTF-8", "save the file as UTF-8")
    if columns.rationale is not None:
        raise InputError("read corpus", str(path), "a table without lists", "jsonl or parquet for a column of rationales")
    require_columns(path, names, columns)
    return {option: names.index(name) for option, name in columns}


def _rows(path: Path, records: Iterable[Record], columns: Columns) -> Iterator[Row]:
    records = iter(records)
    _, header = next(records, (0, []))
    places = _places(path, header, columns)
    for row, (line, fields) in enumerate(records):
        if len(fields) == len(header):
            cells: dict[str, Any] = {option: fields[place] for option, place in places.items()}
            yield Row(row, line, **cells)
        else:
            yield Row(row, line, problem=f"{len(fields)} field(s) where the header has {len(header)}")


@contextlib.contextmanager
def _long_fields() -> Iterator[None]:
    before = csv.field_size_limit(_LONGEST_FIELD)  # the module's own limit, 128 KiB, is shorter than a long document
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _one_row_a_line(path: Path) -> bool:
    tabs = {line.count("\t") for _, line in numbered_lines(path) if line.strip("\r\n")}
    return len(tabs) == 1


def _plain_records(path: Path) -> Iterator[Record]:
    for number, line in numbered_lines(path):
        if fields := line.rstrip("\r\n"):
            yield number, [_unquoted(field) for field in fields.split("\t")]


def _unquoted(field: str) -> str:
    inner = field[1:-1]
    whole = len(field) >= 2 and field[0] == field[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if whole else field
