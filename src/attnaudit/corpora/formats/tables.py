"""Tables in files: csv, tsv, jsonl, parquet, and texts on lines; and the file of each split."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from attnaudit.core.errors import did_you_mean
from attnaudit.core.numbers import count
from attnaudit.corpora.formats.frames import BATCH, frame_records
from attnaudit.corpora.formats.lines import (
    LONGEST_LINE,
    Dialect,
    bad_file,
    filled_lines,
    first_names,
    invalid_utf8,
    most_inflated,
    numbered_lines,
    opened,
    too_large,
    whole_bytes,
)
from attnaudit.corpora.formats.rows import (
    SPLIT_NAMES,
    Columns,
    Record,
    SplitSource,
    require_columns,
)


def csv_fields(path: Path, dialect: Dialect = Dialect()) -> Iterator[tuple[int, list[str]]]:
    """Read the first line and the fields of each record of a csv file; empty lines are none."""
    # The module's own limit, 128 KiB, is shorter than a long document.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    lines = (line for _, line in numbered_lines(path, dialect.encoding))
    reader = csv.reader(lines, delimiter=dialect.delimiter or ",", strict=True)
    begins = 1
    try:
        for fields in reader:
            if fields:
                yield begins, fields
            begins = reader.line_num + 1
    except csv.Error as error:
        where = f"{path}: row that begins in line {begins}"
        do = "correct its quotation marks or line ends, or set corpus.delimiter"
        raise bad_file(where, str(error), "fields quoted as in RFC 4180", do) from error


def _tsv_fields(path: Path, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """Read tab-separated fields.

    If every line has the same number of tabs, a line is a row and a quotation mark inside a text is
    only that; otherwise fields are quoted as in csv.
    """
    lines = partial(filled_lines, path, dialect.encoding)
    if len({line.count("\t") for _, _, line in lines()}) != 1:
        yield from csv_fields(path, Dialect(dialect.encoding, "\t"))
        return
    for _, number, line in lines():
        yield number, [_unquoted(field) for field in line.rstrip("\r\n").split("\t")]


def _unquoted(field: str) -> str:
    whole = re.fullmatch(r'"((?:[^"]|"")*)"', field)
    return whole[1].replace('""', '"') if whole else field


def _csv(path: Path, columns: Columns | None, dialect: Dialect) -> Iterator[Record]:
    is_plain = stem_and_format(path)[1] != ".csv" and dialect.delimiter in ("", "\t")
    fields = (_tsv_fields if is_plain else csv_fields)(path, dialect)
    _, header = next(fields, (0, []))
    names = [name.strip() for name in header]
    if wrong := next(filter(None, (invalid_utf8(name, dialect.encoding) for name in names)), ""):
        raise bad_file(f"{path}: header", wrong, "readable names", "set corpus.encoding")
    if columns:
        require_columns(path, names, columns)
        if columns.rationale is not None:
            raise bad_file(path, "a table without lists", "jsonl or parquet for rationales")
    for row, (line, cells) in enumerate(fields):
        problem = f"{count(len(cells), 'field')} where the header has {len(names)}"
        is_whole = len(cells) == len(names)
        yield Record(row, line, dict(zip(names, cells, strict=False)), "" if is_whole else problem)


def _jsonl(path: Path, columns: Columns | None, dialect: Dialect) -> Iterator[Record]:
    for row, number, line in filled_lines(path, dialect.encoding):
        found, problem = {}, invalid_utf8(line, dialect.encoding)
        try:
            found = {} if problem else json.loads(line)
        except (ValueError, RecursionError) as error:
            problem = f"no JSON ({error})"
        if not isinstance(found, dict):
            found, problem = {}, f"a JSON {type(found).__name__} where an object was expected"
        if columns and not problem:
            require_columns(path, list(found), columns)
            columns = None  # later objects that lack one have bad cells
        yield Record(row, number, found, problem)


def _lines(path: Path, columns: Columns | None, dialect: Dialect) -> Iterator[Record]:
    if columns:
        require_columns(path, ["text"], columns)
    for row, number, line in filled_lines(path, dialect.encoding):
        yield Record(row, number, {"text": line.rstrip("\r\n")})


def _parquet(path: Path, columns: Columns | None, dialect: Dialect) -> Iterator[Record]:
    """Read a parquet file; only the columns asked for are decoded.

    Raises:
        InputError: For a missing column, one without texts, numbers or lists, a damaged file, and
            one that holds more than a file of its size may hold.
    """
    import polars as pl

    with opened(path):
        most = most_inflated(path.stat().st_size)

    def bounded(batches: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        held = 0
        for batch in batches:
            held += batch.estimated_size() + 8 * batch.height  # a row without texts is one, too
            if held > most:
                raise too_large(path, most)
            yield batch

    try:
        table = pl.scan_parquet(io.BytesIO(whole_bytes(path)) if path.suffix == ".gz" else path)
        names = table.collect_schema().names()
        if columns:
            require_columns(path, names, columns)
            table = table.select({name for _, name in columns if name in names})
        # Texts of categories are written once; here each row has its own.
        table = table.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
        batches = table.collect_batches(chunk_size=BATCH, maintain_order=True)
        yield from frame_records(bounded(batches), path, columns)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        got = f"no readable parquet ({' '.join(str(error).split())})"
        raise bad_file(path, got, "a whole parquet file") from error


READERS: dict[str, Callable[[Path, Columns | None, Dialect], Iterator[Record]]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".parquet": _parquet,
    ".txt": _lines,
}
TABLES = [kind for kind in READERS if kind != ".txt"]  # with labels


def stem_and_format(path: Path) -> tuple[str, str]:
    """Split a name: ``reviews`` and ``.csv`` of ``reviews.csv.gz``; the format may be empty."""
    plain = Path(path.name.removesuffix(".gz"))
    return plain.stem, plain.suffix.lower()


def records(
    path: Path, columns: Columns | None = None, dialect: Dialect = Dialect(), kind: str = ""
) -> Iterator[Record]:
    """Read the records of a table.

    Args:
        path: The file.
        columns: Columns that must be there; None to read all of whatever is there.
        dialect: How a file of texts is written.
        kind: Format, if the ending does not tell it.

    Raises:
        InputError: For an unknown format, a missing column or an unreadable file.
    """
    kind = kind or stem_and_format(path)[1]
    if kind not in READERS:
        expected = f"one of {', '.join(TABLES)}, perhaps with .gz"
        hint = did_you_mean(kind, READERS)
        raise bad_file(path, f"a file of format '{kind}'", expected, hint)
    return READERS[kind](path, columns, dialect)


def file_source(path: Path, columns: Columns, dialect: Dialect) -> SplitSource:
    """Return the rows of a table as a source. Raises InputError for an unknown format."""
    records(path, columns, dialect)  # reads nothing yet, but knows the format
    return SplitSource(path, lambda: map(columns.row, records(path, columns, dialect)))


def split_tables(folder: Path, formats: Collection[str] = TABLES) -> dict[str, Path]:
    """Find the tables that are named as splits. Raises InputError for two of one split."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        stem, kind = stem_and_format(path)
        split = SPLIT_NAMES.get(stem.lower(), "")
        if split and kind in formats and path.is_file():
            if split in found:
                got = f"both {found[split].name} and {path.name}"
                raise bad_file(folder, got, f"one file for {split}", "move one of them away")
            found[split] = path
    return found


def listed(folder: Path) -> str:
    """Name the first files of a folder."""
    return first_names(sorted(path.name for path in folder.iterdir()))


def first_that_fits(folder: Path, patterns: Sequence[str]) -> Path | None:
    """Find the first file or folder that fits a pattern, plain or gzipped, tried in order."""
    both = (end for pattern in patterns for end in (pattern, f"{pattern}.gz"))
    return next((path for pattern in both for path in sorted(folder.glob(pattern))), None)
