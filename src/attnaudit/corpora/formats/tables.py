"""Tables as rows: csv, tsv, jsonl and parquet files, and which file of a folder holds which split."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.numbers import count
from attnaudit.corpora.formats.lines import (
    LONGEST_LINE,
    invalid_utf8,
    most_inflated,
    named_encoding,
    numbered_lines,
    opened,
    suggested_encoding,
)
from attnaudit.corpora.formats.rows import BadCell, Columns, Row, SplitSource, require_columns

Record = tuple[int, list[str]]  # the line where it begins, its fields
_BATCH = (
    1 << 15
)  # rows of a parquet file that are decoded together; with each, Arrow copies all texts of the row group so far
_BUFFER = 1 << 20  # bytes of a column that are read ahead, in place of all of its row group
_FREE_ROWS = 1_000_000  # of any parquet file; a larger one has no more rows than bytes


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


def parquet_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """Rows of a parquet file; only the columns asked for are read.

    Raises InputError, also for columns that hold no texts, labels or lists, and for more rows or characters than a file of its size may
    hold.
    """
    row = 0
    with opened(path) as file:
        source = io.BytesIO(file.read()) if path.suffix == ".gz" else file
        try:
            for cells in _cells(path, source, columns):
                yield Row(row, None, **cells)
                row += 1
        except (pa.ArrowException, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            raise InputError(
                "read corpus", str(path), f"no readable parquet ({reason})", "a whole parquet file"
            ) from error


def _cells(path: Path, source: Any, columns: Columns) -> Iterator[Fields]:
    """The values of each row. A text that is stored once for many rows stays one text, and counts for each row."""
    packed = source.seek(0, io.SEEK_END)
    table, columns = _table(path, source, columns, packed)
    asked, fields = (
        [name for _, name in columns],
        ["evidence" if option == "rationale" else option for option, _ in columns],
    )
    most, characters = most_inflated(packed), 0
    for batch in table.iter_batches(batch_size=_BATCH, columns=list(dict.fromkeys(asked))):
        for cells in zip(*(_values(batch.column(name)) for name in asked), strict=True):
            characters += sum(len(cell) for cell in cells if isinstance(cell, (str, list)))
            if characters > most:
                raise InputError(
                    "read corpus",
                    str(path),
                    f"more than {most} characters in {packed} bytes",
                    "a smaller table",
                    _DISTRUST,
                )
            yield dict(zip(fields, cells, strict=True))


def _table(
    path: Path, source: Any, columns: Columns, packed: int
) -> tuple[pq.ParquetFile, Columns]:
    """A table whose texts are read as they are stored, each different one once, and the columns that it has."""
    try:
        table = pq.ParquetFile(source)
        schema = table.schema_arrow
        names = schema.names
    except UnicodeDecodeError as error:
        got = f"a column name with invalid UTF-8 ({error.object!r:.40})"
        raise InputError(
            "read corpus", str(path), got, "names in UTF-8", "write the file again with other names"
        ) from error
    columns = columns.among(names)
    require_columns(path, names, columns)
    asked = {name: schema.field(name).type for _, name in columns}
    _require_readable(path, table, asked, packed)
    texts = [
        name
        for name, kind in asked.items()
        if pa.types.is_string(kind) or pa.types.is_large_string(kind)
    ]
    return pq.ParquetFile(
        source, metadata=table.metadata, read_dictionary=texts, buffer_size=_BUFFER
    ), columns


_DISTRUST = "do not trust it; where you do, write it again as csv"


def _require_readable(
    path: Path, table: pq.ParquetFile, asked: Mapping[str, pa.DataType], packed: int
) -> None:
    """Raise InputError for columns that hold no texts, labels or lists of numbers, and for rows that take hardly a byte."""
    for name, kind in asked.items():
        if not _is_readable(kind):
            raise InputError(
                "read corpus",
                f"{path}: column '{name}'",
                f"{kind}",
                "texts, numbers or lists",
                "write it as texts",
            )
    held = table.metadata
    unpacked = sum(held.row_group(group).total_byte_size for group in range(held.num_row_groups))
    for got, most, what in (
        (held.num_rows, max(_FREE_ROWS, packed), "rows"),
        (unpacked, most_inflated(packed), "unpacked bytes"),
    ):
        if got > most:
            raise InputError(
                "read corpus",
                str(path),
                f"{got} {what} in {packed} bytes",
                f"at most {most}",
                _DISTRUST,
            )


def _is_readable(kind: pa.DataType) -> bool:
    """Whether values of a type are texts, numbers, true or false, or lists of such, which Python has too."""
    if (
        pa.types.is_dictionary(kind)
        or pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
    ):
        return _is_readable(kind.value_type)
    plain = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_null,
    )
    return any(fits(kind) for fits in plain)


def _values(array: pa.Array) -> list[Any]:
    if pa.types.is_dictionary(
        array.type
    ):  # of which each batch has all texts of its row group so far
        used = array.indices.unique().drop_null()
        values = dict(zip(used.to_pylist(), _values(array.dictionary.take(used)), strict=True))
        return [None if index is None else values[index] for index in array.indices.to_pylist()]
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        raw = array.cast(
            pa.large_binary()
        ).to_pylist()  # a text that is no UTF-8 must cost its row, not the file
        return [
            None if value is None else value.decode("utf-8", errors="surrogateescape")
            for value in raw
        ]
    return array.to_pylist()


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
