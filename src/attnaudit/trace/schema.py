"""Columns of the trace in schema versions 1 and 2, with their checks, casts and arrays.

`docs/trace.md` has the same table, for programs that write their own traces.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core import TraceError
from attnaudit.core.ragged import Ragged

# The model sets the width of a vector; 1 stands for it in the types below.
_VECTOR = pl.Array(pl.Float32, 1)
_FLOATS, _BOOLEANS, _IDS = pl.List(pl.Float32), pl.List(pl.Boolean), pl.List(pl.Int32)
_TEXTS = pl.List(pl.String)
# Changes of log-odds need more digits of probabilities near 1 than float32 has.
_RUNS = pl.List(pl.Array(pl.Float64, 1))
# With more outputs, copies keep only three: predicted, the most probable other one, and the rest.
MOST_OUTPUTS, FEW_OUTPUTS = 1000, 3
SHOWN = "shown"  # ``importance_shown`` is the heatmap under judgement


@dataclass(frozen=True)
class Column:
    """One column of the schema.

    Attributes:
        type: Polars type of its values; the model sets the width of an array.
        meaning: Description in Markdown, for `docs/trace.md`.
        required: True if every trace with attention has the column.
        nullable: True if a row may have no value.
        per_position: True if each row is a list as long as ``alpha``.
        since: First version of the schema with the column.
    """

    type: pl.DataType
    meaning: str
    required: bool = False
    nullable: bool = False
    per_position: bool = False
    since: int = 1

    @property
    def holds_floats(self) -> bool:
        """True if the values, within their lists, are floats."""
        return _leaf(self.type).is_float()


COLUMNS = {
    "instance": Column(
        pl.Int64(),
        "a stable number of the text; no two rows are alike in `instance`, `split`, `layer`, "
        "`head` and `query`",
        required=True,
    ),
    "tokens": Column(
        _TEXTS,
        "exactly the positions that attention covers: no BOS, EOS or padding",
        required=True,
        per_position=True,
    ),
    "alpha": Column(_FLOATS, "the attention: 0 or more, sum 1", required=True, per_position=True),
    "readout": Column(
        pl.List(_VECTOR),
        "contribution of each position, before the tail",
        required=True,
        per_position=True,
    ),
    "offset": Column(
        _VECTOR,
        "the part of the output that does not depend on attention: bias and query",
        required=True,
    ),
    "prediction": Column(
        _VECTOR, "probabilities; C = 1: the probability of class 1", required=True
    ),
    "split": Column(pl.String(), "train, dev or test", nullable=True),
    "label": Column(pl.Int32(), "the gold class, from 0", nullable=True),
    "question": Column(
        _TEXTS,
        "what the model read with the text: a hypothesis, the decoder's output so far, or, without "
        "`corpus.task`, a question",
        nullable=True,
    ),
    "candidates": Column(_BOOLEANS, "which answers are allowed; null: all", nullable=True),
    "gradient": Column(
        _FLOATS,
        "importance by gradient, [defined below](#gradient-and-leave-one-out)",
        per_position=True,
    ),
    "loo": Column(
        _FLOATS,
        "importance by leave-one-out, [defined below](#gradient-and-leave-one-out)",
        per_position=True,
    ),
    "rationale": Column(
        _BOOLEANS,
        "tokens known, or annotated, to matter",
        nullable=True,
        per_position=True,
    ),
    "replaced": Column(
        pl.List(_IDS),
        "for each of M copies of the text, the positions whose words were "
        "[replaced](experiments/replacement.md) by words of other texts",
        nullable=True,
    ),
    "replaced_prediction": Column(
        _RUNS,
        "what the model predicted for each of these copies; with more than 1,000 outputs three "
        "numbers will do: the probability of the output that `prediction` favours, that of the "
        "copy's most probable other output, and the sum of the rest",
        nullable=True,
    ),
    "group": Column(
        _IDS,
        "the segment, such as a sentence or a passage, of each token, numbered from 0 without "
        "gaps, for `attnaudit.trace.aggregate(trace, group)`",
        nullable=True,
        per_position=True,
    ),
    "group_names": Column(_TEXTS, "a name for each segment of the row", nullable=True),
    "layer": Column(
        pl.Int32(), "layer of the attention, in a model that has several", nullable=True
    ),
    "head": Column(pl.Int32(), "head of the attention within its layer", nullable=True),
    "query": Column(pl.Int32(), "position that the attention belongs to", nullable=True),
    "alpha_gradient": Column(
        _FLOATS,
        "derivative of the predicted class's probability with respect to each weight, without the "
        "constraint that weights sum to 1; for [erasure](experiments/erasure.md) with the tail "
        "`onnx` or `replay`",
        per_position=True,
        since=2,
    ),
    "special": Column(
        _BOOLEANS,
        "tokens such as [CLS] and [SEP]; importance is compared over the others",
        per_position=True,
        since=2,
    ),
    "word_id": Column(
        _IDS,
        "the word that a piece belongs to, −1 for special tokens; heatmaps join the pieces of a "
        "word",
        per_position=True,
        since=2,
    ),
    "stack": Column(pl.String(), "encoder, decoder or cross", nullable=True, since=2),
    "sink": Column(
        pl.Boolean(),
        "whether the last position is the sink of the attention, with a readout of 0",
        since=2,
    ),
    "first_key": Column(
        pl.Int32(),
        "place of the row's first token in the text, in a sliding window; else 0",
        since=2,
    ),
    "ids": Column(_IDS, "token ids that the model read, for a replay", since=2),
    "type_ids": Column(_IDS, "token type ids that the model read, for a replay", since=2),
    "written_ids": Column(_IDS, "token ids that the decoder read, for a replay", since=2),
}
IDS = ("ids", "type_ids", "written_ids")
# Absent together from a trace of scores: its tail is ``none``.
ATTENTION = ("alpha", "readout", "offset")
REQUIRED = tuple(name for name, column in COLUMNS.items() if column.required)
IMPORTANCE = Column(_FLOATS, "any further importance measure", per_position=True)
_NESTING = ("one value a row", "a list of values a row", "a list of lists of values a row")


def column_of(name: str) -> Column | None:
    """Return the schema's column of this name; None if the schema does not know it."""
    return IMPORTANCE if name.startswith("importance_") else COLUMNS.get(name)


def is_read(name: str) -> bool:
    """Return True if an experiment reads the column; ``input_…`` hold changes of the input."""
    return column_of(name) is not None or name.startswith("input_")


def required_columns(tail: str) -> tuple[str, ...]:
    """Return the columns that a trace with this tail must have."""
    return tuple(name for name in REQUIRED if tail != "none" or name not in ATTENTION)


def check_schema(schema: pl.Schema, origin: str, needed: Sequence[str]) -> None:
    """Check the columns of a table by name, nesting and kind of values.

    Args:
        schema: Names and types of the columns.
        origin: Name of the table in errors.
        needed: Columns that must be present.

    Raises:
        TraceError: If a needed column is missing, or a column has the wrong nesting or kind.
    """
    missing = [name for name in needed if name not in schema]
    if missing:
        got, expected = f"columns {', '.join(schema) or '(none)'}", f"also {', '.join(missing)}"
        raise TraceError("check trace", origin, got, expected, "see docs/trace.md")
    for name, stored in schema.items():
        column = column_of(name)
        if column is None or stored == pl.Null:
            continue
        nesting = _depth(column.type)
        kind, is_readable = _kind_of_values(_leaf(column.type), _leaf(stored))
        if _depth(stored) != nesting or not is_readable:
            expected = f"{_NESTING[nesting]}: {kind}"
            where = f"{origin}: column {name}"
            raise TraceError("check trace", where, f"type {stored}", expected, "see docs/trace.md")


def _kind_of_values(ours: Any, stored: Any) -> tuple[str, bool]:
    """Return the name of a kind of values, and True if ``stored`` is of this kind."""
    # A cast is too lenient a check: it would turn numbers into texts.
    null = stored == pl.Null
    if ours == pl.String:
        return "text", null or stored in (pl.String, pl.Categorical, pl.Enum)
    if ours == pl.Boolean:
        return "true and false", null or stored == pl.Boolean or stored.is_integer()
    return "whole numbers" if ours.is_integer() else "numbers", null or stored.is_numeric()


def _depth(kind: Any) -> int:
    return 1 + _depth(kind.inner) if isinstance(kind, pl.List | pl.Array) else 0


def _leaf(kind: Any) -> Any:
    return _leaf(kind.inner) if isinstance(kind, pl.List | pl.Array) else kind


def conform(
    table: pl.DataFrame, origin: str, first_row: int = 0, needed: Sequence[str] = REQUIRED
) -> pl.DataFrame:
    """Cast a table to the schema; unknown columns are left as they are.

    Args:
        table: Columns by name.
        origin: Name of the table in errors.
        first_row: Number that errors give to the first row.
        needed: Columns that must be present.

    Raises:
        TraceError: If a column is missing, the table is empty, a column that is not nullable has a
            null, or values have the wrong type.
    """
    check_schema(table.schema, origin, needed)
    if table.height == 0:
        raise TraceError("check trace", origin, "no row", "at least one attention distribution")
    return pl.DataFrame([_conform_column(one, origin, first_row) for one in table])


def _conform_column(values: pl.Series, origin: str, first_row: int) -> pl.Series:
    column, where = column_of(values.name), f"{origin}: column {values.name}"
    if column is None:
        return values
    if values.has_nulls() and not column.nullable:
        row = first_row + int(values.is_null().arg_max() or 0)
        raise TraceError("check trace", f"{where}, row {row}", "null", "a value")
    try:
        if _has_vectors(column.type):
            is_list = isinstance(column.type, pl.List)
            vector = pl.Array(_leaf(column.type), _width(flat(values) if is_list else values))
            return values.cast(pl.List(vector) if is_list else vector)
        if _leaf(column.type).is_integer() and not _leaf(values.dtype).is_integer():
            numbers = (flat(values) if _depth(column.type) else values).cast(pl.Float64)
            # Polars would cut off fractions silently.
            if (numbers != numbers.round()).any():
                raise ValueError("numbers that are not whole")
        return values.cast(column.type)
    except (pl.exceptions.PolarsError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]  # hints for programmers follow
        got = f"type {values.dtype} ({reason})"
        raise TraceError("check trace", where, got, "the type of docs/trace.md") from error


def _width(rows: pl.Series) -> int:
    """Return the length that all lists of a series share."""
    if isinstance(rows.dtype, pl.Array):
        return rows.dtype.size
    widths = rows.list.len().drop_nulls().unique().to_list()
    if len(widths) != 1:
        raise ValueError(f"rows of {len(widths)} different widths")
    if widths == [0]:
        raise ValueError("rows of width 0")
    return widths[0]


def width_of(table: pl.DataFrame, name: str) -> int:
    """Return the number of entries in each row of a vector column."""
    kind = table.schema[name]
    assert isinstance(kind, pl.Array)
    return kind.size


def flat(column: pl.Series) -> pl.Series:
    """Return the entries of all lists, row after row; a null row has none."""
    return column.explode(empty_as_null=False, keep_nulls=False)


def lengths_of(column: pl.Series) -> np.ndarray:
    """Return the number of entries of every list, int64 ``(n,)``; -1 for a null row."""
    return column.list.len().cast(pl.Int64).fill_null(-1).to_numpy()


def ragged_column(column: pl.Series) -> Ragged:
    """Return a column with a value per position as rows; a null row has length 0."""
    return Ragged.from_lengths(flat(column).to_numpy(), np.maximum(lengths_of(column), 0))


def array_column(column: pl.Series) -> np.ndarray:
    """Return one value, or one vector, per row; a null number becomes -1."""
    return (column.fill_null(-1) if column.dtype.is_integer() else column).to_numpy()


def list_column(name: str, rows: Ragged) -> pl.Series:
    """Make a column with a list of numbers, or of vectors, per row."""
    # Rows are slices of one flat column, so that no Python object is made per row.
    return nested_column(name, pl.Series(np.ascontiguousarray(rows.values)), rows.lengths)


def nested_column(name: str, values: pl.Series, lengths: np.ndarray) -> pl.Series:
    """Make a column of lists from their entries, row after row, and their lengths."""
    if len(lengths) == 0:
        return pl.Series(name, [], dtype=pl.List(values.dtype))
    slices = pl.DataFrame({"start": np.cumsum(lengths) - lengths, "length": lengths})
    lists = slices.select(pl.lit(values).implode().list.slice("start", "length"))
    return lists.to_series().alias(name)


def series_of(name: str, values: Any) -> pl.Series:
    """Make the column ``name`` from numpy arrays, lists or a `Ragged`.

    Raises:
        ValueError, TypeError, OverflowError, polars error: If the values do not form a column.
    """
    if isinstance(values, list | tuple) and values:
        if all(isinstance(row, np.ndarray) for row in values):
            values = Ragged.from_rows(values)
        else:
            values = [row.tolist() if isinstance(row, np.ndarray) else row for row in values]
    if isinstance(values, Ragged):
        return list_column(name, values)
    column = column_of(name)
    # polars would guess the type of Python lists, and it cannot if all rows are empty or null. The
    # type of vectors is inferred, because the schema does not know their width.
    if column is None or isinstance(values, np.ndarray) or _has_vectors(column.type):
        return pl.Series(name, values)
    if _leaf(column.type).is_numeric() and _has_boolean(values):
        raise TypeError("true and false among numbers")  # which polars would read as 1 and 0
    return pl.Series(name, values, dtype=column.type)


def _has_boolean(values: Any) -> bool:
    if isinstance(values, list | tuple):
        return any(map(_has_boolean, values))
    return isinstance(values, bool)


def _has_vectors(kind: pl.DataType) -> bool:
    return isinstance(kind.inner if isinstance(kind, pl.List) else kind, pl.Array)
