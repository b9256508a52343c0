"""Tables of a program as rows: frames of polars and pandas, tables of pyarrow, data sets of Hugging Face; none of these is imported here.

A mapping of names of splits to such tables, as a DatasetDict is, is read as a folder with files of these names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.corpora.formats.rows import Columns, Row, SplitSource, require_columns
from attnaudit.corpora.formats.tables import SPLIT_NAMES, Dialect

TAKEN = (
    "a path, the name of a corpus, a DataFrame of polars or pandas, a Table of pyarrow, a Dataset of Hugging Face, "
    "or a mapping of train and test to such"
)
_TABLES = {
    "polars": ("DataFrame", "LazyFrame"),
    "pandas": ("DataFrame",),
    "pyarrow": ("Table",),
    "datasets": ("Dataset",),
}
_STREAMS = ("IterableDataset", "IterableDatasetDict")
_BATCH = 4096  # rows of a data set that are decoded together


def is_table(source: object) -> bool:
    """Whether ``source`` is a table of one of the known libraries."""
    return _library(source) is not None


def frame_name(source: object) -> str:
    """What a table or a mapping of tables calls its texts: a data set's own name, else ``frame``."""
    first = next(iter(source.values()), None) if isinstance(source, Mapping) else source
    return str(getattr(getattr(first, "info", None), "dataset_name", None) or "frame")


def frame_sources(source: Any, columns: Columns, dialect: Dialect) -> dict[str, SplitSource]:
    """The rows of a table, as split ``all``, or of each split of a mapping of tables; other names of a mapping are left alone.

    Raises InputError for an object that is none of these, for a mapping without train or test, or with two of one split, and for an option
    of files.
    """
    _refuse_dialect(source, dialect)
    if is_table(source):
        return {"all": frame_source(source, columns)}
    if not isinstance(source, Mapping) or type(source).__name__ in _STREAMS:
        raise InputError("read corpus", "source", f"a {_full_name(source)}", TAKEN, _advice(source))
    found: dict[str, str] = {}
    for name in map(str, source):
        if (split := SPLIT_NAMES.get(name.lower())) is not None:
            if split in found:
                raise InputError(
                    "read corpus",
                    _full_name(source),
                    f"both {found[split]} and {name}",
                    f"one table for {split}",
                )
            found[split] = name
    for split in ("train", "test"):
        if split not in found:
            got, hint = (
                f"no {split} split among {', '.join(map(str, source)) or 'no tables'}",
                "to split one table 80/10/10, give the table",
            )
            raise InputError("read corpus", _full_name(source), got, f"a table {split}", hint)
    for name in found.values():
        if not is_table(source[name]):
            raise InputError(
                "read corpus",
                f"{_full_name(source)}: {name}",
                f"a {_full_name(source[name])}",
                "a table",
                _advice(source[name]),
            )
    return {
        split: frame_source(source[name], columns, f"{_full_name(source)}/{name}")
        for split, name in found.items()
    }


def frame_source(table: Any, columns: Columns, called: str = "") -> SplitSource:
    """The rows of one table, whose errors name its type, or what it is ``called``."""
    path = Path(called or _full_name(table))
    return SplitSource(path, partial(_rows, table, path, columns))


def _rows(table: Any, path: Path, columns: Columns) -> Iterator[Row]:
    """Rows by position. Raises InputError for missing columns."""
    table = table.collect() if type(table).__name__ == "LazyFrame" else table
    names = [str(name) for name in _names(table)]
    columns = columns.among(names)
    require_columns(path, names, columns)
    fields = ["evidence" if option == "rationale" else option for option, _ in columns]
    read: Callable[..., Iterable[tuple[Any, ...]]] = (
        _of_dataset if _library(table) == "datasets" else _of_frame
    )
    for row, cells in enumerate(read(table, names, [name for _, name in columns])):
        yield Row(
            row, None, **{field: _plain(cell) for field, cell in zip(fields, cells, strict=True)}
        )


def _names(table: Any) -> Iterable[Any]:
    return table.column_names if _library(table) in ("datasets", "pyarrow") else table.columns


def _of_frame(table: Any, names: list[str], asked: list[str]) -> Iterator[tuple[Any, ...]]:
    read = _READERS[_library(table) or ""]
    return zip(*(read(table, names.index(name)) for name in asked), strict=True)


_READERS: dict[str, Callable[[Any, int], list[Any]]] = {  # of a column by its position
    "polars": lambda table, place: table.to_series(place).to_list(),
    "pandas": lambda table, place: table.iloc[:, place].tolist(),
    "pyarrow": lambda table, place: table.column(place).to_pylist(),
}


def _of_dataset(table: Any, names: list[str], asked: list[str]) -> Iterator[tuple[Any, ...]]:
    """Labels that the data set knows by name are names; those that it does not have, −1, are null."""
    table = table.select_columns(asked).with_format(None)
    called = {name: getattr(table.features[name], "names", None) for name in asked}
    for batch in table.iter(batch_size=_BATCH):
        yield from zip(
            *([_class_name(cell, called[name]) for cell in batch[name]] for name in asked),
            strict=True,
        )


def _class_name(cell: Any, names: list[str] | None) -> Any:
    if not names or not isinstance(cell, int):
        return cell
    return names[cell] if 0 <= cell < len(names) else None


def _plain(cell: Any) -> Any:
    """A cell as Python has it: numbers of numpy, and what pandas has for a missing value, replaced."""
    if cell is None or isinstance(cell, (str, int, float, list)):
        return cell
    if type(cell).__name__ in ("NAType", "NaTType"):
        return None
    return cell.tolist() if hasattr(cell, "tolist") else cell


def _library(source: object) -> str | None:
    for base in type(source).__mro__:
        library = base.__module__.partition(".")[0]
        if base.__name__ in _TABLES.get(library, ()):
            return library
    return None


def _full_name(source: object) -> str:
    kind = type(source)
    return (
        kind.__name__
        if kind.__module__ == "builtins"
        else f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    )


def _advice(source: object) -> str:
    return (
        "a stream has no length: take rows of it into a Dataset"
        if type(source).__name__ in _STREAMS
        else ""
    )


def _refuse_dialect(source: object, dialect: Dialect) -> None:
    for option in ("encoding", "delimiter"):
        if getattr(dialect, option) != getattr(Dialect(), option):
            raise InputError(
                "read corpus",
                _full_name(source),
                f"{option}= for a table in memory",
                "a csv or tsv file",
                "leave it out",
            )
