"""The checks that every row of a trace passes on reading and writing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from attnaudit.core.errors import TraceError
from attnaudit.core.numbers import count
from attnaudit.stats.measures import tvd
from attnaudit.trace.readout import Network, Tail, readout_of, rescaled_alpha
from attnaudit.trace.schema import (
    OF_OTHER_LENGTH,
    array_column,
    candidates_column,
    is_ours,
    ragged_column,
)

TOLERANCE = 1e-4  # of the sum of alpha, and of the readout against the prediction


def check_rows(
    table: pa.Table,
    metadata: Mapping[str, Any],
    tail: Tail | Network,
    origin: str,
    first_row: int = 0,
) -> float:
    """The largest TVD between readout and prediction of conformed rows, all checked; errors count from ``first_row``. Raises TraceError."""
    check = _RowCheck(table, metadata, tail, origin, first_row)
    check.lengths()
    check.numbers()
    check.classes()
    return check.residual()


class _RowCheck:
    def __init__(
        self,
        table: pa.Table,
        metadata: Mapping[str, Any],
        tail: Tail | Network,
        origin: str,
        first_row: int,
    ) -> None:
        self.table, self.metadata, self.tail, self.origin, self.first_row = (
            table,
            metadata,
            tail,
            origin,
            first_row,
        )
        self.rows = ragged_column(table, "alpha")

    def refuse(self, bad: np.ndarray, column: str, got: np.ndarray, expected: str) -> None:
        """Raise for the first row of the boolean ``bad``; ``got`` holds what each row has."""
        if bad.any():
            row = int(bad.argmax())
            where = f"{self.origin}: column {column}, instance {array_column(self.table, 'instance')[row]} (row {self.first_row + row})"
            value = got[row].item() if isinstance(got[row], np.generic) else got[row]
            shown = f"{value:.6g}" if isinstance(value, float) else str(value)
            raise TraceError(
                "check trace", where, shown, expected, count(int(bad.sum()), "such row")
            )

    def lengths(self) -> None:
        positions = self.rows.lengths
        self.refuse(positions == 0, "alpha", positions, "at least one position")
        for name in self.table.column_names:
            kind = self.table.schema.field(name).type
            if name == "question":
                self._no_holes(name, self.table.column(name).combine_chunks())
            if name in OF_OTHER_LENGTH or not is_ours(name) or not pa.types.is_list(kind):
                continue
            column = self.table.column(name).combine_chunks()
            lengths = column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
            wrong = (lengths != positions) & (lengths >= 0)
            self.refuse(wrong, name, lengths, "as many entries as alpha")
            if not pa.types.is_floating(kind.value_type):
                self._no_holes(name, column)

    def _no_holes(self, name: str, column: pa.ListArray) -> None:
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        row_of_entry = np.repeat(np.arange(len(lengths)), lengths)
        holes = np.bincount(
            row_of_entry[np.asarray(column.flatten().is_null())], minlength=len(lengths)
        )
        self.refuse(holes > 0, name, np.full(len(lengths), "null"), "no null within a row")

    def numbers(self) -> None:
        for name in self.table.column_names:
            kind = self.table.schema.field(name).type
            if (
                is_ours(name)
                and pa.types.is_list(kind)
                and (name == "readout" or pa.types.is_floating(kind.value_type))
            ):
                self._finite(name, ragged_column(self.table, name).values, self.rows.row_of_value)
        for name in ("offset", "prediction"):
            self._finite(name, array_column(self.table, name), np.arange(self.table.num_rows))
        alpha = self.rows.with_values(self.rows.values.astype(np.float64))
        lowest = -alpha.with_values(-alpha.values).max()
        self.refuse(lowest < 0, "alpha", lowest, "weights of 0 or more")
        total = alpha.sum()
        self.refuse(
            np.abs(total - 1) > TOLERANCE, "alpha", total, f"a sum of 1 within {TOLERANCE:g}"
        )

    def _finite(self, name: str, values: np.ndarray, row_of_value: np.ndarray) -> None:
        flat = values.reshape(len(values), -1)
        finite = np.isfinite(flat).all(axis=1)
        if not finite.all():
            bad, got = np.zeros(self.table.num_rows, bool), np.zeros(self.table.num_rows)
            first = int(np.argmin(finite))
            bad[row_of_value[~finite]] = True
            got[row_of_value[first]] = flat[first][~np.isfinite(flat[first])][0]
            self.refuse(bad, name, got, "finite numbers")

    def classes(self) -> None:
        prediction = self._prediction()
        outputs = prediction.shape[1]
        classes = max(outputs, 2)
        outside = np.any((prediction < -TOLERANCE) | (prediction > 1 + TOLERANCE), axis=1)
        self.refuse(np.asarray(outside), "prediction", prediction.max(axis=1), "probabilities")
        if "candidates" in self.table.column_names:
            self._candidates(outputs)
        self._class_names(classes, outputs)
        if "label" in self.table.column_names:
            label = array_column(self.table, "label")
            self.refuse(
                (label < -1) | (label >= classes), "label", label, f"null or 0 to {classes - 1}"
            )

    def _class_names(self, classes: int, outputs: int) -> None:
        where, names = f"{self.origin}: metadata class_names", self.metadata.get("class_names")
        names = [] if names is None else names
        if (
            not isinstance(names, list)
            or not all(isinstance(name, str) for name in names)
            or len(set(names)) < len(names)
        ):
            raise TraceError(
                "check trace", where, str(names), "a list of different texts", "see docs/trace.md"
            )
        if names and len(names) != classes:
            expected = f"{classes}, as prediction has {count(outputs, 'column')}"
            raise TraceError("check trace", where, f"{len(names)} class names", expected)

    def _candidates(self, outputs: int) -> None:
        column = self.table.column("candidates").combine_chunks()
        lengths = column.value_lengths().fill_null(outputs).to_numpy(zero_copy_only=False)
        self.refuse(
            lengths != outputs,
            "candidates",
            lengths,
            f"null or {outputs} entries, as prediction has",
        )
        self._no_holes("candidates", column)
        allowed = candidates_column(self.table)
        assert allowed is not None
        answers = allowed.sum(axis=1)
        self.refuse(answers == 0, "candidates", answers, "at least one answer allowed")

    def residual(self) -> float:
        width, offset = (self.table.schema.field(name).type for name in ("readout", "offset"))
        width, offset = width.value_type.list_size, offset.list_size
        if width != offset and self.metadata.get("tail") != "onnx":
            raise TraceError(
                "check trace",
                f"{self.origin}: column offset",
                f"{offset} numbers a row",
                f"{width}, as readout has",
            )
        if width != offset:
            self._places(width, offset)
        try:
            with np.errstate(all="ignore"):  # what overflows is refused by its residual
                predicted = readout_of(self.table, self.metadata["activation"], self.tail)(
                    rescaled_alpha(self.table)
                )
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise TraceError(
                "check trace",
                f"{self.origin}: readout",
                reason,
                "readout, tail and prediction of matching sizes",
            ) from error
        prediction = self._prediction()
        if predicted.shape != prediction.shape:
            got = count(prediction.shape[1], "column")
            raise TraceError(
                "check trace",
                f"{self.origin}: column prediction",
                got,
                f"{predicted.shape[1]}, as the readout gives",
            )
        residual = tvd(predicted, prediction)
        self.refuse(
            np.array(~(residual <= TOLERANCE)),
            "prediction",
            residual,
            f"readout(alpha) within {TOLERANCE:g} of the prediction",
        )
        return float(residual.max())

    def _places(self, width: int, offset: int) -> None:
        """The numbers of the offset to which a head's readout is added must be there."""
        if "head" not in self.table.column_names:
            expected = f"{width}, as readout has, or a column head that says which part of them"
            raise TraceError(
                "check trace", f"{self.origin}: column offset", f"{offset} numbers a row", expected
            )
        head = array_column(self.table, "head")
        self.refuse(
            (head < 0) | ((head + 1) * width > offset),
            "head",
            head,
            f"0 to {offset // width - 1}, a part of {offset} numbers",
        )

    def _prediction(self) -> np.ndarray:
        return array_column(self.table, "prediction").astype(np.float64)
