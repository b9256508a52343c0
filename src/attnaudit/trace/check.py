"""The checks that every row of a trace must pass, on reading and on writing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core.errors import TraceError
from attnaudit.core.numbers import count
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.stats.measures import tvd
from attnaudit.trace.readout import candidates_of, readout_of, rescaled_alpha
from attnaudit.trace.schema import (
    array_column,
    column_of,
    flat,
    lengths_of,
    ragged_column,
    width_of,
)
from attnaudit.trace.tails import Network, Tail


def check_rows(
    table: pl.DataFrame,
    metadata: Mapping[str, Any],
    tail: Tail | Network,
    origin: str,
    first_row: int = 0,
) -> float:
    """Check every row of a conformed table.

    Args:
        table: Columns of `attnaudit.trace.schema`.
        metadata: Metadata of the trace, with ``activation`` and ``tail``.
        tail: Tail of the trace, or the model that is run in its place.
        origin: Name of the table in errors.
        first_row: Number that errors give to the first row.

    Returns:
        The largest TVD between the readout of ``alpha`` and the prediction.

    Raises:
        TraceError: For the first fault, with column, instance, value and number of such rows.
    """
    check = _Check(table, metadata, origin, first_row)
    # Each step relies on the ones before it: sums need equal lengths, and the readout needs finite
    # numbers.
    check.lengths()
    check.numbers()
    check.classes()
    return check.residual(tail)


@dataclass(frozen=True)
class _Check:
    table: pl.DataFrame
    metadata: Mapping[str, Any]
    origin: str
    first_row: int

    def error(self, part: str, got: str, expected: str, do: str = "") -> TraceError:
        return TraceError("check trace", f"{self.origin}: {part}", got, expected, do)

    def refuse(self, bad: np.ndarray, column: str, got: np.ndarray, expected: str) -> None:
        """Raise TraceError for the first bad row, if there is one.

        Args:
            bad: True for each bad row.
            column: Name of the column in the error.
            got: Value of each row, for the error.
            expected: Description of a valid value.
        """
        if bad.any():
            row = int(bad.argmax())
            instance = array_column(self.table["instance"])[row]
            value = got[row].item() if isinstance(got[row], np.generic) else got[row]
            raise self.error(
                f"column {column}, instance {instance} (row {self.first_row + row})",
                f"{value:.6g}" if isinstance(value, float) else str(value),
                expected,
                count(int(bad.sum()), "such row"),
            )

    def lengths(self) -> None:
        positions = lengths_of(self.table["alpha"])
        self.refuse(positions == 0, "alpha", positions, "at least one position")
        for values in self.table:
            column = column_of(values.name)
            if column is not None and column.per_position:
                lengths = lengths_of(values)
                wrong = (lengths != positions) & (lengths >= 0)  # a null row has length -1
                self.refuse(wrong, values.name, lengths, "as many entries as alpha")
                # A null among floats becomes NaN, which `numbers` refuses.
                if not column.holds_floats:
                    self.no_holes(values)
        if "question" in self.table.columns:
            self.no_holes(self.table["question"])

    def no_holes(self, values: pl.Series) -> None:
        row_of_entry = np.repeat(np.arange(len(values)), np.maximum(lengths_of(values), 0))
        holes = np.zeros(len(values), bool)
        holes[row_of_entry[flat(values).is_null().to_numpy()]] = True
        self.refuse(holes, values.name, np.full(len(values), "null"), "no null within a row")

    def numbers(self) -> None:
        for values in self.table:
            column = column_of(values.name)
            if column is not None and column.holds_floats:
                if column.per_position:
                    rows = ragged_column(values)
                    self.finite(values.name, rows.values, rows.row_of_value)
                else:
                    self.finite(values.name, array_column(values), np.arange(len(values)))
        alpha = ragged_column(self.table["alpha"])
        alpha = alpha.with_values(alpha.values.astype(np.float64))
        # `Ragged` has no minimum: the lowest weight is the negated maximum of the negated ones.
        lowest = -alpha.with_values(-alpha.values).max()
        self.refuse(lowest < 0, "alpha", lowest, "weights of 0 or more")
        total = alpha.sum()
        wrong = np.abs(total - 1) > TOLERANCE.trace
        self.refuse(wrong, "alpha", total, f"a sum of 1 within {TOLERANCE.trace:g}")

    def finite(self, name: str, values: np.ndarray, row_of_value: np.ndarray) -> None:
        per_value = values.reshape(len(values), -1)
        finite = np.isfinite(per_value).all(axis=1)
        if not finite.all():
            bad, got = np.zeros(self.table.height, bool), np.zeros(self.table.height)
            first = per_value[np.argmin(finite)]
            bad[row_of_value[~finite]] = True
            got[row_of_value[np.argmin(finite)]] = first[~np.isfinite(first)][0]
            self.refuse(bad, name, got, "finite numbers")

    def classes(self) -> None:
        prediction = self.prediction
        outputs = prediction.shape[1]
        classes = max(outputs, 2)  # a single output is the probability of class 1 of two
        # A softmax in float32 may round to slightly more than 1.
        limit = TOLERANCE.trace
        outside = ((prediction < -limit) | (prediction > 1 + limit)).any(axis=1)
        self.refuse(np.asarray(outside), "prediction", prediction.max(axis=1), "probabilities")
        if "candidates" in self.table.columns:
            self.candidates(outputs)
        self.class_names(classes, outputs)
        if "label" in self.table.columns:
            label = array_column(self.table["label"])
            wrong = (label < -1) | (label >= classes)
            self.refuse(wrong, "label", label, f"null or 0 to {classes - 1}")

    def class_names(self, classes: int, outputs: int) -> None:
        part, names = "metadata class_names", self.metadata.get("class_names")
        names = [] if names is None else names
        is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not is_list or len(set(names)) < len(names):
            raise self.error(part, str(names), "a list of different texts", "see docs/trace.md")
        if names and len(names) != classes:
            expected = f"{classes}, as prediction has {count(outputs, 'column')}"
            raise self.error(part, f"{len(names)} class names", expected)

    def candidates(self, outputs: int) -> None:
        lengths = lengths_of(self.table["candidates"])
        expected = f"null or {outputs} entries, as prediction has"
        self.refuse((lengths >= 0) & (lengths != outputs), "candidates", lengths, expected)
        self.no_holes(self.table["candidates"])
        allowed = candidates_of(self.table)
        assert allowed is not None
        answers = allowed.sum(axis=1)
        self.refuse(answers == 0, "candidates", answers, "at least one answer allowed")

    def residual(self, tail: Tail | Network) -> float:
        width = width_of(flat(self.table["readout"]).to_frame(), "readout")
        offset = width_of(self.table, "offset")
        if width != offset:
            self.wide_offset(width, offset)
        try:
            # Not warned about: the residual below refuses an overflow.
            with np.errstate(all="ignore"):
                readout = readout_of(self.table, self.metadata["activation"], tail)
                predicted = readout(rescaled_alpha(self.table))
        except ValueError as error:
            reason = " ".join(str(error).split())
            expected = "readout, tail and prediction of matching sizes"
            raise self.error("readout", reason, expected) from error
        if predicted.shape != self.prediction.shape:
            got = count(self.prediction.shape[1], "column")
            expected = f"{predicted.shape[1]}, as the readout gives"
            raise self.error("column prediction", got, expected)
        residual = tvd(predicted, self.prediction)
        expected = f"readout(alpha) within {TOLERANCE.trace:g} of the prediction"
        # Written as a negation because NaN, from an overflow, must be refused too.
        self.refuse(~(residual <= TOLERANCE.trace), "prediction", residual, expected)
        return float(residual.max())

    def wide_offset(self, width: int, offset: int) -> None:
        """Check an offset that is wider than the readout.

        Only a stored graph may take the heads of a layer side by side. Each row's head must then
        have a part of the offset.
        """
        has_head = "head" in self.table.columns
        if self.metadata.get("tail") != "onnx" or not has_head:
            expected = f"{width}, as readout has"
            if self.metadata.get("tail") == "onnx":
                expected += ", or a column head that says which part of them"
            raise self.error("column offset", f"{offset} numbers a row", expected)
        head = array_column(self.table["head"])
        expected = f"0 to {offset // width - 1}, a part of {offset} numbers"
        self.refuse((head < 0) | ((head + 1) * width > offset), "head", head, expected)

    @property
    def prediction(self) -> np.ndarray:
        return array_column(self.table["prediction"]).astype(np.float64)
