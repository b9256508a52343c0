"""Tables in memory: frames of any library that narwhals knows, and data sets of Hugging Face."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attnaudit.corpora.formats.columnar import BATCH, as_frame, frame_records, full_name
from attnaudit.corpora.formats.lines import bad_file
from attnaudit.corpora.formats.rows import Columns, Row, SplitSource
from attnaudit.corpora.formats.tables import SPLIT_NAMES, Dialect, require_splits

_TAKEN = (
    "a path, the name of a corpus, a DataFrame of polars or pandas, a Table of pyarrow, "
    "a Dataset of Hugging Face, or a mapping of train and test to such"
)


def is_table(source: object) -> bool:
    """Return True for a table that `frame_source` reads. Raises InputError for a column twice."""
    import narwhals as nw

    return isinstance(as_frame(source), nw.DataFrame | nw.LazyFrame) or _is_dataset(source)


def _is_dataset(source: Any) -> bool:
    # A mapping of data sets has this method too, and a stream as well, which has no length.
    return hasattr(source, "with_format") and hasattr(source, "num_rows")


def frame_name(source: object) -> str:
    """Name the texts of a table or a mapping of tables: as its data set, else ``frame``."""
    first = next(iter(source.values()), None) if isinstance(source, Mapping) else source
    return str(getattr(getattr(first, "info", None), "dataset_name", None) or "frame")


def frame_sources(source: Any, columns: Columns, dialect: Dialect) -> dict[str, SplitSource]:
    """Return the rows of a table as split ``all``, or of a mapping of splits to tables.

    Raises:
        InputError: For any other object, a mapping without train or test, and an option of files.
    """
    name = full_name(source)
    dialect.refuse(name, "a table in memory", "delimiter", "encoding")
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
    path = Path(called or full_name(table))
    if not is_table(table):
        is_stream = hasattr(table, "with_format")
        do = "take rows of the stream into a Dataset" if is_stream else ""
        raise bad_file(path, f"a {full_name(table)}", _TAKEN, do)
    return SplitSource(path, partial(_rows, table, path, columns))


def _rows(table: Any, path: Path, columns: Columns) -> Iterator[Row]:
    batches, classes = [table], {}
    if _is_dataset(table):
        names = [name for _, name in columns if name in table.column_names]
        classes = {name: getattr(table.features[name], "names", None) for name in names}
        batches = table.with_format("arrow").iter(batch_size=BATCH)
    for row, _, cells, _ in frame_records(batches, path, columns):
        for name, known in classes.items():
            if known and cells[name] is not None:  # a label that is not known is −1
                cells[name] = known[cells[name]] if cells[name] >= 0 else None
        yield Row(row, None, **columns.fields(cells))
