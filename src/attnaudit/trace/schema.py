"""Schema versions 1 and 2 of the trace: the type of every column, casts to it, and columns as numpy arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from attnaudit.core.errors import TraceError
from attnaudit.core.ragged import Ragged

REQUIRED = ("instance", "tokens", "alpha", "readout", "offset", "prediction")

_SCALARS = {
    "instance": pa.int64(),
    "split": pa.dictionary(pa.int32(), pa.string()),
    "label": pa.int32(),
    "layer": pa.int32(),
    "head": pa.int32(),
    "query": pa.int32(),
    "stack": pa.dictionary(pa.int32(), pa.string()),
    "sink": pa.bool_(),
    "first_key": pa.int32(),
}
_PER_POSITION = {
    "tokens": pa.list_(pa.string()),
    "alpha": pa.list_(pa.float32()),
    "gradient": pa.list_(pa.float32()),
    "loo": pa.list_(pa.float32()),
    "rationale": pa.list_(pa.bool_()),
    "special": pa.list_(pa.bool_()),
    "word_id": pa.list_(pa.int32()),
    "alpha_gradient": pa.list_(pa.float32()),
}
IDS = ("ids", "type_ids", "written_ids")  # what a network was given, for a replay
OF_OTHER_LENGTH = {
    "candidates": pa.list_(pa.bool_()),
    "question": pa.list_(pa.string()),
    **dict.fromkeys(IDS, pa.list_(pa.int32())),
}
OF_TRANSFORMERS = (
    "special",
    "word_id",
    "stack",
    "sink",
    "first_key",
    "alpha_gradient",
    *IDS,
)  # since schema 2
_OF_THE_MODEL = {
    "readout": 2,
    "offset": 1,
    "prediction": 1,
}  # lists within lists, of a width that the model sets
_NESTED = ("one value a row", "a list of values a row", "a list of lists of values a row")
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_VALUES = (  # what a type of ours is read from: by the type, what it is called, and which types it may be
    (
        pa.types.is_string,
        "text",
        (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    ),
    (pa.types.is_boolean, "true and false", (pa.types.is_boolean, pa.types.is_integer)),
    (pa.types.is_integer, "whole numbers", _NUMBERS),
    (pa.types.is_floating, "numbers", _NUMBERS),
)
_NULLABLE = {
    "label",
    "candidates",
    "question",
    "rationale",
    "layer",
    "head",
    "query",
    "split",
    "stack",
}


def arrow_type(name: str) -> pa.DataType | None:
    """The type of a column, None where it depends on the model (``readout``, ``offset``, ``prediction``)."""
    if name.startswith("importance_"):
        return pa.list_(pa.float32())
    return _SCALARS.get(name) or _PER_POSITION.get(name) or OF_OTHER_LENGTH.get(name)


def is_ours(name: str) -> bool:
    """Whether the schema knows a column; others are kept as they are."""
    return name in REQUIRED or arrow_type(name) is not None


def is_read(name: str) -> bool:
    """Whether an experiment reads a column: one of the schema, or one about tokens deleted from the input."""
    return is_ours(name) or name.startswith("input_")


def check_schema(schema: pa.Schema, origin: str, needed: Sequence[str] = REQUIRED) -> None:
    """Raise TraceError unless the columns ``needed`` are there, each column once, and those of ours are nested as `docs/trace.md` says,
    of values of its kind.
    """
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise TraceError(
            "check trace",
            f"{origin}: column {twice[0]}",
            f"{schema.names.count(twice[0])} columns of this name",
            "each column once",
        )
    missing = [name for name in needed if name not in schema.names]
    if missing:
        got = f"columns {', '.join(schema.names) or '(none)'}"
        raise TraceError(
            "check trace", origin, got, f"also {', '.join(missing)}", "see docs/trace.md"
        )
    for name in filter(is_ours, schema.names):
        found, expected = (
            schema.field(name).type,
            _OF_THE_MODEL.get(name, _nesting(arrow_type(name))),
        )
        words, types = _values(arrow_type(name) or pa.float32())
        readable = pa.types.is_null(leaf := _leaf(found)) or any(is_one(leaf) for is_one in types)
        if not pa.types.is_null(found) and (_nesting(found) != expected or not readable):
            raise TraceError(
                "check trace",
                f"{origin}: column {name}",
                f"type {found}",
                f"{_NESTED[expected]}: {words}",
                "see docs/trace.md",
            )


def _values(kind: pa.DataType) -> tuple[str, Sequence[Callable[[pa.DataType], bool]]]:
    """What the values of a type of ours are called, and the types that they are read from: a cast to it would take others, too."""
    return next((words, types) for is_one, words, types in _VALUES if is_one(_leaf(kind)))


def _leaf(kind: pa.DataType) -> pa.DataType:
    """The type of the values within lists and dictionaries."""
    while _is_list(kind) or pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind


def _is_list(kind: pa.DataType) -> bool:
    return (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _nesting(kind: pa.DataType | None) -> int:
    """How many lists lie around the values; -1 where these are no plain values."""
    depth = 0
    while kind is not None and _is_list(kind):
        kind, depth = kind.value_type, depth + 1
    return -1 if kind is None or pa.types.is_nested(kind) else depth


def conform(
    table: pa.Table, origin: str, first_row: int = 0, needed: Sequence[str] = REQUIRED
) -> pa.Table:
    """``table`` cast to the schema, unknown columns kept as they are. Raises TraceError."""
    check_schema(table.schema, origin, needed)
    if table.num_rows == 0:
        raise TraceError("check trace", origin, "no row", "at least one attention distribution")
    columns = {name: _conform_column(table, name, origin, first_row) for name in table.column_names}
    return pa.table(columns)


def _conform_column(table: pa.Table, name: str, origin: str, first_row: int) -> pa.Array:
    array = table.column(name).combine_chunks()
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if array.null_count and name not in _NULLABLE and is_ours(name):
        row = first_row + int(np.flatnonzero(np.asarray(array.is_null()))[0])
        raise TraceError("check trace", f"{origin}: column {name}, row {row}", "null", "a value")
    try:
        target = arrow_type(name) or _model_type(name, array)
        conformed = array if target is None or array.type == target else array.cast(target)
        conformed.validate(full=is_ours(name))  # text must be UTF-8
        return conformed
    except (pa.ArrowException, ValueError) as error:
        reason = " ".join(str(error).split())
        raise TraceError(
            "check trace",
            f"{origin}: column {name}",
            f"type {array.type} ({reason})",
            "the type of docs/trace.md",
        ) from error


def _model_type(name: str, array: pa.Array) -> pa.DataType | None:
    if name in ("offset", "prediction"):
        return pa.list_(pa.float32(), _width(array))
    if name == "readout":
        return pa.list_(pa.list_(pa.float32(), _width(array.flatten())))
    return None


def _width(array: pa.Array) -> int:
    fixed = pa.types.is_fixed_size_list(array.type)
    widths = (
        {array.type.list_size}
        if fixed
        else set(array.value_lengths().drop_null().unique().to_pylist())
    )
    if len(widths) != 1:
        raise ValueError(f"rows of {len(widths)} different widths")
    if 0 in widths:
        raise ValueError("rows of width 0")
    return widths.pop()


def ragged_column(table: pa.Table, name: str) -> Ragged:
    """A column with a value per position; a null row has length 0."""
    array = table.column(name).combine_chunks()
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return Ragged.from_lengths(_numpy_rows(array.flatten()), lengths)


def array_column(table: pa.Table, name: str) -> np.ndarray:
    """A column with one value, or one fixed-size row of values, per trace row; null becomes -1."""
    array = table.column(name).combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.cast(pa.string())
    if pa.types.is_integer(array.type):
        array = array.fill_null(-1)
    return _numpy_rows(array)


def candidates_column(table: pa.Table) -> np.ndarray | None:
    """Candidate answers, bool ``(n, C)``; None where all are allowed."""
    if "candidates" not in table.column_names:
        return None
    rows = table.column("candidates").to_pylist()
    classes = array_column(table, "prediction").shape[1]
    return np.array([[True] * classes if row is None else row for row in rows], dtype=bool).reshape(
        -1, classes
    )


def _numpy_rows(array: pa.Array) -> np.ndarray:
    if pa.types.is_fixed_size_list(array.type):
        return (
            array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), array.type.list_size)
        )
    return array.to_numpy(zero_copy_only=False)
