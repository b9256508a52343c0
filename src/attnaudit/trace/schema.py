"""Schema version 1 of the trace: exact types, and the checks that every row passes on reading and writing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from attnaudit.core.errors import TraceError
from attnaudit.stats.measures import tvd

if TYPE_CHECKING:
    from attnaudit.trace import Trace

REQUIRED = ("instance", "tokens", "alpha", "readout", "offset", "prediction")
TOLERANCE = 1e-4  # of the sum of alpha, and of the readout against the prediction

_SCALARS = {
    "instance": pa.int64(), "split": pa.dictionary(pa.int32(), pa.string()), "label": pa.int32(),
    "layer": pa.int32(), "head": pa.int32(), "query": pa.int32(),
}  # fmt: skip
_PER_POSITION = {
    "tokens": pa.list_(pa.string()), "alpha": pa.list_(pa.float32()), "gradient": pa.list_(pa.float32()),
    "loo": pa.list_(pa.float32()), "rationale": pa.list_(pa.bool_()),
}  # fmt: skip
_OF_OTHER_LENGTH = {"candidates": pa.list_(pa.bool_()), "question": pa.list_(pa.string())}
_NULLABLE = {"label", "candidates", "question", "rationale", "layer", "head", "query", "split"}


def arrow_type(name: str) -> pa.DataType | None:
    """The type of a column, None where it depends on the model (``readout``, ``offset``, ``prediction``)."""
    if name.startswith("importance_"):
        return pa.list_(pa.float32())
    return _SCALARS.get(name) or _PER_POSITION.get(name) or _OF_OTHER_LENGTH.get(name)


def is_ours(name: str) -> bool:
    """Whether the schema knows a column; others are kept as they are."""
    return name in REQUIRED or arrow_type(name) is not None


def conform(table: pa.Table, origin: str, first_row: int = 0, needed: Sequence[str] = REQUIRED) -> pa.Table:
    """``table`` cast to the schema, unknown columns kept as they are. Raises TraceError."""
    missing = [name for name in needed if name not in table.column_names]
    if missing:
        got = f"columns {', '.join(table.column_names) or '(none)'}"
        raise TraceError("check trace", origin, got, f"also {', '.join(missing)}", "see docs/trace.md")
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
        return array if target is None or array.type == target else array.cast(target)
    except (pa.ArrowException, ValueError) as error:
        reason = " ".join(str(error).split())
        raise TraceError("check trace", f"{origin}: column {name}", f"type {array.type} ({reason})", "the type of docs/trace.md") from error


def _model_type(name: str, array: pa.Array) -> pa.DataType | None:
    if name in ("offset", "prediction"):
        return pa.list_(pa.float32(), _width(array))
    if name == "readout":
        return pa.list_(pa.list_(pa.float32(), _width(array.flatten())))
    return None


def _width(array: pa.Array) -> int:
    if pa.types.is_fixed_size_list(array.type):
        return array.type.list_size
    lengths = set(array.value_lengths().to_pylist())
    if len(lengths) != 1:
        raise ValueError(f"rows of {len(lengths)} different widths")
    return lengths.pop()


def check_rows(trace: Trace, origin: str, first_row: int = 0) -> float:
    """Check every row of a conformed trace and return the largest residual of its readout. Raises TraceError."""
    check = _RowCheck(trace, origin, first_row)
    check.lengths()
    check.numbers()
    check.classes()
    return check.residual()


class _RowCheck:
    def __init__(self, trace: Trace, origin: str, first_row: int) -> None:
        self.trace, self.origin, self.first_row = trace, origin, first_row
        self.rows = trace.ragged("alpha")

    def refuse(self, bad: np.ndarray, column: str, got: np.ndarray, expected: str) -> None:
        """Raise for the first row of the boolean ``bad``; ``got`` holds what each row has."""
        if bad.any():
            row = int(bad.argmax())
            where = f"{self.origin}: column {column}, instance {self.trace.instance[row]} (row {self.first_row + row})"
            value = got[row].item() if isinstance(got[row], np.generic) else got[row]
            shown = f"{value:.6g}" if isinstance(value, float) else str(value)
            raise TraceError("check trace", where, shown, expected, f"{int(bad.sum())} such row(s)")

    def lengths(self) -> None:
        positions = self.rows.lengths
        self.refuse(positions == 0, "alpha", positions, "at least one position")
        for name in self.trace.table.column_names:
            kind = self.trace.table.schema.field(name).type
            if name in _OF_OTHER_LENGTH or not is_ours(name) or not pa.types.is_list(kind):
                continue
            column = self.trace.table.column(name).combine_chunks()
            lengths = column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
            wrong = (lengths != positions) & (lengths >= 0)
            self.refuse(wrong, name, lengths, "as many entries as alpha")
            if not pa.types.is_floating(kind.value_type):
                self._no_holes(name, column)

    def _no_holes(self, name: str, column: pa.ListArray) -> None:
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        row_of_entry = np.repeat(np.arange(len(lengths)), lengths)
        holes = np.bincount(row_of_entry[np.asarray(column.flatten().is_null())], minlength=len(lengths))
        self.refuse(holes > 0, name, np.full(len(lengths), "null"), "no null within a row")

    def numbers(self) -> None:
        for name in self.trace.table.column_names:
            kind = self.trace.table.schema.field(name).type
            if is_ours(name) and pa.types.is_list(kind) and (name == "readout" or pa.types.is_floating(kind.value_type)):
                self._finite(name, self.trace.ragged(name).values, self.rows.row_of_value)
        for name in ("offset", "prediction"):
            self._finite(name, self.trace.array(name), np.arange(len(self.trace)))
        alpha = self.rows.with_values(self.rows.values.astype(np.float64))
        lowest = -alpha.with_values(-alpha.values).max()
        self.refuse(lowest < 0, "alpha", lowest, "weights of 0 or more")
        total = alpha.sum()
        self.refuse(np.abs(total - 1) > TOLERANCE, "alpha", total, f"a sum of 1 within {TOLERANCE:g}")

    def _finite(self, name: str, values: np.ndarray, row_of_value: np.ndarray) -> None:
        flat = values.reshape(len(values), -1)
        finite = np.isfinite(flat).all(axis=1)
        if not finite.all():
            bad, got = np.zeros(len(self.trace), bool), np.zeros(len(self.trace))
            first = int(np.argmin(finite))
            bad[row_of_value[~finite]] = True
            got[row_of_value[first]] = flat[first][~np.isfinite(flat[first])][0]
            self.refuse(bad, name, got, "finite numbers")

    def classes(self) -> None:
        trace = self.trace
        prediction = trace.prediction
        outputs = prediction.shape[1]
        classes = max(outputs, 2)
        outside = np.any((prediction < -TOLERANCE) | (prediction > 1 + TOLERANCE), axis=1)
        self.refuse(np.asarray(outside), "prediction", prediction.max(axis=1), "probabilities")
        if trace.has("candidates"):
            self._candidates(outputs)
        self._class_names(classes, outputs)
        if trace.has("label"):
            label = trace.array("label")
            self.refuse((label < -1) | (label >= classes), "label", label, f"null or 0 to {classes - 1}")

    def _class_names(self, classes: int, outputs: int) -> None:
        where, names = f"{self.origin}: metadata class_names", self.trace.metadata.get("class_names") or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise TraceError("check trace", where, str(names), "a list of different texts", "see docs/trace.md")
        if names and len(names) != classes:
            expected = f"{classes}, as prediction has {outputs} column(s)"
            raise TraceError("check trace", where, f"{len(names)} class names", expected)

    def _candidates(self, outputs: int) -> None:
        column = self.trace.table.column("candidates").combine_chunks()
        lengths = column.value_lengths().fill_null(outputs).to_numpy(zero_copy_only=False)
        self.refuse(lengths != outputs, "candidates", lengths, f"null or {outputs} entries, as prediction has")
        self._no_holes("candidates", column)
        allowed = self.trace.candidates
        assert allowed is not None
        answers = allowed.sum(axis=1)
        self.refuse(answers == 0, "candidates", answers, "at least one answer allowed")

    def residual(self) -> float:
        trace = self.trace
        width, offset = trace.ragged("readout").values.shape[1], trace.array("offset").shape[1]
        if width != offset:
            raise TraceError("check trace", f"{self.origin}: column offset", f"{offset} numbers a row", f"{width}, as readout has")
        try:
            predicted = trace.readout(trace.alpha)
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise TraceError("check trace", f"{self.origin}: readout", reason, "readout, tail and prediction of matching sizes") from error
        if predicted.shape != trace.prediction.shape:
            got = f"{trace.prediction.shape[1]} column(s)"
            raise TraceError("check trace", f"{self.origin}: column prediction", got, f"{predicted.shape[1]}, as the readout gives")
        residual = tvd(predicted, trace.prediction)
        self.refuse(np.array(~(residual <= TOLERANCE)), "prediction", residual, f"readout(alpha) within {TOLERANCE:g} of the prediction")
        return float(residual.max())
