"""Parquet files as rows; the only module that needs pyarrow.

Pyarrow reads a file with texts that are no UTF-8, tells how large a file is before it is unpacked,
and reads a text that is stored once for many rows as one text. Polars does none of these.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from attnaudit.core.errors import InputError
from attnaudit.corpora.formats.lines import most_inflated, opened
from attnaudit.corpora.formats.rows import Columns, Row, require_columns

Fields = dict[str, Any]  # of Row
# Rows that are decoded together; with each batch, Arrow copies all texts of the row group so far.
_BATCH = 1 << 15
_BUFFER = 1 << 20  # bytes of a column that are read ahead, in place of all of its row group
_FREE_ROWS = 1_000_000  # of any file; a larger one has no more rows than bytes


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
