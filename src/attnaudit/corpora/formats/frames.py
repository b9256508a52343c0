"""Tables in memory: frames of any library that narwhals knows, and data sets of Hugging Face."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attnaudit.core.files import write_text
from attnaudit.corpora.formats.lines import bad_file
from attnaudit.corpora.formats.rows import (
    SPLIT_NAMES,
    Columns,
    Record,
    Row,
    SplitSource,
    require_columns,
    require_splits,
)

BATCH = 1 << 13  # rows that are decoded together
_TAKEN = (
    "a path, the name of a corpus, a DataFrame of polars or pandas, a Table of pyarrow, "
    "a Dataset of Hugging Face, or a mapping of train and test to such"
)


def frame_records(batches: Iterable[Any], path: Path, columns: Columns | None) -> Iterator[Record]:
    """Read the records of frames that follow each other. Raises InputError for its columns."""
    row = 0
    for batch in batches:
        frame = _as_frame(batch).lazy().collect()
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
        where = f"{path}: column '{column.name}'"
        raise bad_file(where, str(kind), "texts, numbers or lists", "write it as texts")
    # pandas has a value of its own for missing cells, and numpy's arrays for lists.
    cells = (getattr(cell, "tolist", lambda cell=cell: cell)() for cell in column.to_list())
    return [None if null else cell for cell, null in zip(cells, column.is_null(), strict=True)]


def _as_frame(source: Any) -> Any:
    """Wrap a table that narwhals knows; anything else stays as it is."""
    import narwhals as nw

    try:
        return nw.from_native(source, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        got = " ".join(str(error).split())
        raise bad_file(_name(source), got, "each column once", "rename the others") from error


def _name(source: object) -> str:
    """Name the type of a table with its library."""
    kind = type(source)
    library = kind.__module__.partition(".")[0]
    return kind.__name__ if library == "builtins" else f"{library}.{kind.__name__}"


def is_table(source: object) -> bool:
    """Return True for a table that `frame_source` reads. Raises InputError for a column twice."""
    import narwhals as nw

    return isinstance(_as_frame(source), nw.DataFrame | nw.LazyFrame) or _is_dataset(source)


def _is_dataset(source: Any) -> bool:
    # A mapping of data sets has this method too, and a stream as well, which has no length.
    return hasattr(source, "with_format") and hasattr(source, "num_rows")


def frame_name(source: object) -> str:
    """Name the texts of a table or a mapping of tables: as its data set, else ``frame``."""
    first = next(iter(source.values()), None) if isinstance(source, Mapping) else source
    return str(getattr(getattr(first, "info", None), "dataset_name", None) or "frame")


def frame_sources(source: Any, columns: Columns) -> dict[str, SplitSource]:
    """Return the rows of a table as split ``all``, or of a mapping of splits to tables.

    Raises:
        InputError: For any other object, and a mapping without train or test.
    """
    name = _name(source)
    if not isinstance(source, Mapping):
        return {"all": frame_source(source, columns)}
    found = {SPLIT_NAMES[key.lower()]: key for key in source if str(key).lower() in SPLIT_NAMES}
    do = "to split one table 80/10/10, give the table"
    require_splits(found, name, ", ".join(map(str, source)) or "no tables", do)
    return {
        split: frame_source(source[key], columns, f"{name}/{key}") for split, key in found.items()
    }


def frame_source(table: Any, columns: Columns, called: str = "") -> SplitSource:
    """Return the rows of a table, whose errors name its type or what it is ``called``."""
    path = Path(called or _name(table))
    if not is_table(table):
        is_stream = hasattr(table, "with_format")
        do = "take rows of the stream into a Dataset" if is_stream else ""
        raise bad_file(path, f"a {_name(table)}", _TAKEN, do)
    return SplitSource(path, partial(_rows, table, path, columns))


def _rows(table: Any, path: Path, columns: Columns) -> Iterator[Row]:
    batches, classes = [table], {}
    if _is_dataset(table):
        names = [name for _, name in columns if name in table.column_names]
        classes = {name: getattr(table.features[name], "names", None) for name in names}
        batches = table.with_format("arrow").iter(batch_size=BATCH)
    for record in frame_records(batches, path, columns):
        cells = record.cells
        for name, known in classes.items():
            if known and cells[name] is not None:  # a label that is not known is −1
                cells[name] = known[cells[name]] if cells[name] >= 0 else None
        yield columns.row(record)


def keep_table(source: Any, folder: Path, columns: Columns, name: str = "") -> Path:
    """Write a table, or a mapping of splits to tables, so that training on it can be resumed.

    Args:
        source: The table.
        folder: Place of the file.
        columns: Columns that are written.
        name: Name of the file; by default the table's own.

    Returns:
        The file, or the folder of splits. Its name ends in a digest of the texts: the same table is
        written again with the same bytes, another is another file.

    Raises:
        InputError: For an object that is no table.
    """
    parts = {
        split: "".join(
            json.dumps({column: getattr(row, option) for option, column in columns}) + "\n"
            for row in part.rows()
        )
        for split, part in frame_sources(source, columns).items()
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]
    place = folder / f"{name or frame_name(source)}-{digest}"
    place = place.with_name(f"{place.name}.jsonl") if "all" in parts else place
    for split, lines in parts.items():
        write_text(place if split == "all" else place / f"{split}.jsonl", lines)
    return place
