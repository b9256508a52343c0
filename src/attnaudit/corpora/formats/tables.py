"""Tables in files and in memory: csv, tsv, jsonl, parquet, texts on lines, frames, data sets."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from attnaudit.core import count, describe_error, did_you_mean, write_text
from attnaudit.corpora.formats.lines import (
    LONGEST_LINE,
    bad_file,
    filled_lines,
    first_names,
    invalid_characters,
    most_inflated,
    numbered_lines,
    opened,
    too_large,
    whole_bytes,
    whole_text,
)
from attnaudit.corpora.formats.rows import (
    SPLIT_NAMES,
    Columns,
    Row,
    SplitSource,
    delimiter_of,
    require_columns,
    require_splits,
)

_BATCH = 1 << 13  # rows of a parquet file that are decoded together
_TAKEN = (
    "a path, the name of a corpus, a DataFrame of polars or pandas, a Table of pyarrow, "
    "a Dataset of Hugging Face, or a mapping of train and test to such"
)
Fields = Iterator[tuple[int, list[str]]]


def csv_fields(path: Path, encoding: str = "utf-8", delimiter: str = ",") -> Fields:
    """Read the first line and the fields of each record of a csv file; empty lines are none."""
    # The module's own limit, 128 KiB, is shorter than a long document.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    lines = (line for _, line in numbered_lines(path, encoding))
    first = [line for _, _, line in islice(filled_lines(path, encoding), 2)]
    # By RFC 4180 a blank belongs to its field; before a quotation mark it would make it a letter.
    blanks = any(f'{delimiter} "' in line for line in first)
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=blanks)
    begins = 1
    try:
        for fields in reader:
            if fields:
                yield begins, fields
            begins = reader.line_num + 1
    except csv.Error as error:
        where = f"{path}: row that begins in line {begins}"
        do = "correct its quotation marks or line ends"
        raise bad_file(where, str(error), "fields quoted as in RFC 4180", do) from error


def _tsv_fields(path: Path, encoding: str) -> Fields:
    """Read tab-separated fields.

    If every line has the same number of tabs, a line is a row and a quotation mark inside a text is
    only that; otherwise fields are quoted as in csv.
    """
    if len({line.count("\t") for _, _, line in filled_lines(path, encoding)}) != 1:
        yield from csv_fields(path, encoding, "\t")
        return
    for _, number, line in filled_lines(path, encoding):
        fields = line.rstrip("\r\n").split("\t")
        quoted = (re.fullmatch(r'"((?:[^"]|"")*)"', field) for field in fields)
        pairs = zip(quoted, fields, strict=True)
        yield number, [inner[1].replace('""', '"') if inner else field for inner, field in pairs]


def _csv(path: Path, columns: Columns | None, encoding: str) -> Iterator[Row]:
    """Read a table with a header."""
    _, _, header = next(filled_lines(path, encoding), (0, 0, ""))
    delimiter = delimiter_of(header, stem_and_format(path)[1])
    is_tsv = delimiter == "\t"
    fields = _tsv_fields(path, encoding) if is_tsv else csv_fields(path, encoding, delimiter)
    names = [name.strip() for name in next(fields, (0, []))[1]]
    if wrong := next(filter(None, map(invalid_characters, names)), ""):
        raise bad_file(f"{path}: header", wrong, "readable names", "set corpus.encoding")
    require_columns(path, names, columns)
    if columns and (columns.rationale or columns.segments) is not None:
        raise bad_file(path, "a table without lists", "jsonl or parquet for spans")
    for row, (line, cells) in enumerate(fields):
        problem = f"{count(len(cells), 'field')} where the header has {len(names)}"
        is_whole = len(cells) == len(names)
        named = dict(zip(names, cells, strict=False))
        yield Row(row, line, problem="" if is_whole else problem, cells=named)


def _jsonl(path: Path, columns: Columns | None, encoding: str) -> Iterator[Row]:
    for row, number, line in filled_lines(path, encoding):
        cells, problem = {}, ""
        try:
            cells = json.loads(line)
        except (ValueError, RecursionError) as error:
            problem = f"no JSON ({error})"
        if not isinstance(cells, dict):
            cells, problem = {}, f"a JSON {type(cells).__name__} where an object was expected"
        if not problem:
            require_columns(path, list(cells), columns)
            columns = None  # later objects that lack one have bad cells
        yield Row(row, number, problem=problem, cells=cells)


def _json(path: Path, columns: Columns | None, encoding: str) -> Iterator[Row]:
    """Read an array of objects, or a file of an object on each line."""
    text = whole_text(path, encoding)
    if not text.lstrip().startswith("["):
        yield from _jsonl(path, columns, encoding)
        return
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_file(path, f"no JSON ({error})", "an array of objects") from error
    for row, cells in enumerate(rows):
        if not isinstance(cells, dict):
            got = f"a JSON {type(cells).__name__}"
            raise bad_file(f"{path}: row {row}", got, "an object with a field for each column")
        require_columns(path, list(cells), columns if row == 0 else None)
        yield Row(row, None, cells=cells)


def _texts(path: Path, columns: Columns | None, encoding: str) -> Iterator[Row]:
    require_columns(path, ["text"], columns)
    for row, number, line in filled_lines(path, encoding):
        yield Row(row, number, cells={"text": line.rstrip("\r\n")})


def _parquet(path: Path, columns: Columns | None, encoding: str) -> Iterator[Row]:
    """Read a parquet file; only the columns asked for are decoded.

    Raises:
        InputError: For a missing column, one without texts, numbers or lists, a damaged file, and
            one that holds more than a file of its size may hold.
    """
    import polars as pl

    with opened(path):
        most = most_inflated(path.stat().st_size)

    def bounded(batches):
        held = 0
        for batch in batches:
            held += batch.estimated_size() + 8 * batch.height  # a row without texts is one, too
            if held > most:
                raise too_large(path, most)
            yield batch

    try:
        table = pl.scan_parquet(io.BytesIO(whole_bytes(path)) if path.suffix == ".gz" else path)
        names = table.collect_schema().names()
        require_columns(path, names, columns)
        if columns:
            table = table.select(columns.among(names))
        # Texts of categories are written once; here each row has its own.
        table = table.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
        batches = table.collect_batches(chunk_size=_BATCH, maintain_order=True)
        yield from _frame_rows(bounded(batches), path, columns)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        got = f"no readable parquet ({' '.join(str(error).split())})"
        raise bad_file(path, got, "a whole parquet file") from error


READERS: dict[str, Callable[[Path, Columns | None, str], Iterator[Row]]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json,
    ".parquet": _parquet,
    ".txt": _texts,
}
TABLES = [kind for kind in READERS if kind != ".txt"]  # with labels


def stem_and_format(path: Path) -> tuple[str, str]:
    """Split a name: ``reviews`` and ``.csv`` of ``reviews.csv.gz``; the format may be empty."""
    plain = Path(path.name.removesuffix(".gz"))
    return plain.stem, plain.suffix.lower()


def table_rows(
    path: Path, columns: Columns | None = None, encoding: str = "utf-8", kind: str = ""
) -> Iterator[Row]:
    """Read the rows of a table.

    Args:
        path: The file.
        columns: Columns that must be there; None to read only the cells of whatever is there.
        encoding: Encoding of a file of texts.
        kind: Format, if the ending does not tell it.

    Raises:
        InputError: For an unknown format, a missing column or an unreadable file.
    """
    kind = kind or stem_and_format(path)[1]
    if kind not in READERS:
        expected = f"one of {', '.join(TABLES)}, perhaps with .gz"
        raise bad_file(path, f"a file of format '{kind}'", expected, did_you_mean(kind, READERS))
    rows = READERS[kind](path, columns, encoding)
    return map(columns.named, rows) if columns else rows


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


def _frame_rows(frames: Iterable[Any], path: Path, columns: Columns | None) -> Iterator[Row]:
    """Read the rows of frames that follow each other. Raises InputError for their columns."""
    row = 0
    for one in frames:
        frame = _as_frame(one)
        names = frame.columns
        require_columns(path, names, columns)
        names = columns.among(names) if columns else names
        for cells in zip(*(_values(frame.get_column(name), path) for name in names), strict=True):
            yield Row(row, None, cells=dict(zip(names, cells, strict=True)))
            row += 1


def _values(column: Any, path: Path) -> list[Any]:
    """Convert a column to Python's values. Raises InputError for other than texts or numbers."""
    import narwhals as nw

    kind = column.dtype
    while kind in (nw.List, nw.Array):
        kind = kind.inner
    if kind.is_temporal() or nw.Binary == kind or column.dtype == nw.Struct:
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


def collected(table: Any) -> Any:
    """Return a table in memory: the result of a query, such as polars' LazyFrame, else itself.

    Raises:
        InputError: The query fails.
    """
    import narwhals as nw
    import polars as pl

    frame = _as_frame(table)
    if not isinstance(frame, nw.LazyFrame):
        return table
    try:
        return frame.collect().to_native()
    except (Exception, pl.exceptions.PanicException) as error:  # whatever the query raises
        got, expected = describe_error(error), "a query that gives a table"
        raise bad_file(_name(table), got, expected) from error


def _is_dataset(source: Any) -> bool:
    # A mapping of data sets has this method too, and a stream as well, which has no length.
    own = hasattr(source, "with_format") and hasattr(source, "num_rows")
    return own and not isinstance(source, Mapping)


def frame_name(source: object) -> str:
    """Name the texts of a table or a mapping of tables: as its data set, else ``frame``."""
    first = next(iter(source.values()), None) if isinstance(source, Mapping) else source
    return str(getattr(getattr(first, "info", None), "dataset_name", None) or "frame")


def frame_sources(source: Any, columns: Columns) -> dict[str, SplitSource]:
    """Return the rows of a table as split ``all``, or of a mapping of splits to tables.

    Raises:
        InputError: For any other object, and a mapping without train or test.
    """
    if not isinstance(source, Mapping):
        return {"all": frame_source(source, columns)}
    name = _name(source)
    keys = {SPLIT_NAMES[key.lower()]: key for key in source if str(key).lower() in SPLIT_NAMES}
    do = "to split one table 80/10/10, give the table"
    require_splits(keys, name, ", ".join(map(str, source)) or "no tables", do)
    return {
        split: frame_source(source[key], columns, f"{name}/{key}") for split, key in keys.items()
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
    classes: dict[str, Any] = {}
    table = collected(table)
    if _is_dataset(table):
        classes = {name: getattr(kind, "names", None) for name, kind in table.features.items()}
        table = table.with_format("arrow")[:]
    for row in _frame_rows([table], path, columns):
        for name in filter(classes.get, row.cells):
            label = row.cells[name]  # −1 if it is not known
            row.cells[name] = None if label is None or label < 0 else classes[name][label]
        yield columns.named(row)


def keep_table(source: Any, folder: Path, columns: Columns, name: str) -> Path:
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
