"""Records of tables that are stored by column: parquet files, and frames of any library."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.corpora.formats.lines import bad_file, most_inflated, opened, whole_bytes
from attnaudit.corpora.formats.rows import Columns, Record, require_columns

BATCH = 1 << 13  # rows that are decoded together
_FREE_ROWS = 1_000_000  # a parquet file with more has no more rows than bytes


def parquet_records(path: Path, columns: Columns | None) -> Iterator[Record]:
    """Read the records of a parquet file; only the columns asked for are decoded.

    Raises:
        InputError: For a missing column, one without texts, numbers or lists, a damaged file, and
            one with more rows or characters than a file of its size may hold.
    """
    import polars as pl

    with opened(path):
        packed = path.stat().st_size
    try:
        table = pl.scan_parquet(io.BytesIO(whole_bytes(path)) if path.suffix == ".gz" else path)
        names = table.collect_schema().names()
        if columns:
            require_columns(path, names, columns)
            names = list(dict.fromkeys(name for _, name in columns if name in names))
        rows = table.select(pl.len()).collect().item()
        if rows > max(_FREE_ROWS, packed):
            raise _too_large(path, f"{rows} rows", packed)
        batches = table.select(names).collect_batches(chunk_size=BATCH, maintain_order=True)
        yield from frame_records(_bounded(path, batches, packed), path, columns)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        got = f"no readable parquet ({' '.join(str(error).split())})"
        raise bad_file(path, got, "a whole parquet file") from error


def _bounded(path: Path, batches: Iterable[Any], packed: int) -> Iterator[Any]:
    """Raise InputError for more characters and numbers than a file of this size may hold."""
    import polars as pl

    held, most = 0, most_inflated(packed)
    for batch in batches:
        for column in batch:
            if column.dtype in (pl.String, pl.Categorical, pl.Enum):
                held += column.cast(pl.String).str.len_bytes().sum()
            elif column.dtype == pl.List:
                held += column.list.len().sum()
        if held > most:
            raise _too_large(path, f"more than {most} characters", packed)
        yield batch


def _too_large(path: Path, got: str, packed: int) -> InputError:
    do = "do not trust it; if you do, write it again as csv"
    return bad_file(path, f"{got} in {packed} bytes", "a smaller table", do)


def frame_records(batches: Iterable[Any], path: Path, columns: Columns | None) -> Iterator[Record]:
    """Read the records of frames that follow each other. Raises InputError for its columns."""
    row = 0
    for batch in batches:
        frame = as_frame(batch).lazy().collect()
        names = frame.columns
        if columns:
            require_columns(path, names, columns)
            names = [name for _, name in columns if name in names]
        for values in zip(*(_values(frame.get_column(name), path) for name in names), strict=True):
            yield Record(row, None, dict(zip(names, values, strict=True)))
            row += 1


def _values(column: Any, path: Path) -> list[Any]:
    """Convert a column to Python's values. Raises InputError for other than texts or numbers."""
    import narwhals as nw

    kind = column.dtype
    while kind in (nw.List, nw.Array):
        kind = kind.inner
    if kind.is_temporal() or kind in (nw.Binary, nw.Struct):
        where, do = f"{path}: column '{column.name}'", "write it as texts"
        raise bad_file(where, str(kind), "texts, numbers or lists", do)
    # pandas has a value of its own for missing cells, and numpy's arrays for lists.
    cells = (getattr(cell, "tolist", lambda cell=cell: cell)() for cell in column.to_list())
    nulls = column.is_null().to_list()
    return [None if null else cell for cell, null in zip(cells, nulls, strict=True)]


def as_frame(source: Any) -> Any:
    """Wrap a table that narwhals knows; anything else stays as it is."""
    import narwhals as nw

    try:
        return nw.from_native(source, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        got, do = " ".join(str(error).split()), "rename the others"
        raise bad_file(full_name(source), got, "each column once", do) from error


def full_name(source: object) -> str:
    """Name the type of a table with its library."""
    kind = type(source)
    library = kind.__module__.partition(".")[0]
    return kind.__name__ if library == "builtins" else f"{library}.{kind.__name__}"
