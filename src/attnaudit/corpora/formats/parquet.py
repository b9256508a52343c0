"""Parquet files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from attnaudit.core.errors import InputError
from attnaudit.corpora.formats.lines import opened
from attnaudit.corpora.formats.rows import Columns, Row, require_columns


def parquet_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """Rows of a parquet file; only the columns asked for are read. Raises InputError."""
    asked = [name for _, name in columns]
    fields = ["evidence" if option == "rationale" else option for option, _ in columns]
    row = 0
    with opened(path) as file:
        source = io.BytesIO(file.read()) if path.suffix == ".gz" else file
        try:
            for batch in _table(path, source, columns).iter_batches(batch_size=4096, columns=list(dict.fromkeys(asked))):
                for cells in zip(*(_values(batch.column(name)) for name in asked), strict=True):
                    yield Row(row, None, **dict(zip(fields, cells, strict=True)))
                    row += 1
        except (pa.ArrowException, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            raise InputError("read corpus", str(path), f"no readable parquet ({reason})", "a whole parquet file") from error


def _table(path: Path, source: Any, columns: Columns) -> pq.ParquetFile:
    try:
        table = pq.ParquetFile(source)
        names = table.schema_arrow.names
    except UnicodeDecodeError as error:
        got = f"a column name with invalid UTF-8 ({error.object!r:.40})"
        raise InputError("read corpus", str(path), got, "names in UTF-8", "write the file again with other names") from error
    require_columns(path, names, columns)
    return table


def _values(array: pa.Array) -> list[object]:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        raw = array.cast(pa.large_binary()).to_pylist()  # a text that is no UTF-8 must cost its row, not the file
        return [None if value is None else value.decode("utf-8", errors="surrogateescape") for value in raw]
    return array.to_pylist()
