"""The checks that every row of a trace must pass, on reading and on writing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core import TraceError, count
from attnaudit.core.given import are_names
from attnaudit.core.ragged import Ragged
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.stats.measures import tvd
from attnaudit.trace.readout import readout_of, rescaled_alpha
from attnaudit.trace.schema import (
    ATTENTION,
    FEW_OUTPUTS,
    MOST_OUTPUTS,
    SHOWN,
    array_column,
    column_of,
    flat,
    lengths_of,
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
        The largest TVD between the readout of ``alpha`` and the prediction; 0 without attention.

    Raises:
        TraceError: For the first fault, with column, instance, value and number of such rows.
    """
    check = _Check(table, metadata, origin, first_row)
    # Each step relies on the ones before it: sums need equal lengths, and the readout needs finite
    # numbers.
    check.lengths()
    for values in table:
        check.entries(values)
    for name in ("alpha", f"importance_{SHOWN}"):
        if name in table.columns:
            check.weights(name)
    check.classes()
    check.replacements()
    return 0.0 if metadata["tail"] == "none" else check.residual(tail)


@dataclass(frozen=True)
class _Check:
    table: pl.DataFrame
    metadata: Mapping[str, Any]
    origin: str
    first_row: int

    def error(self, part: str, got: str, expected: str, do: str = "") -> TraceError:
        return TraceError("check trace", f"{self.origin}: {part}", got, expected, do)

    def refuse(self, bad: np.ndarray, column: str, got: Any, expected: str) -> None:
        """Raise TraceError for the first bad row, if there is one.

        Args:
            bad: True for each bad row.
            column: Name of the column in the error.
            got: Value of each row, or of the first bad one, for the error.
            expected: Description of a valid value.
        """
        if bad.any():
            row = int(bad.argmax())
            instance = self.table["instance"][row]
            value = np.broadcast_to(got, bad.shape)[row].item()
            raise self.error(
                f"column {column}, instance {instance} (row {self.first_row + row})",
                f"{value:.6g}" if isinstance(value, float) else str(value),
                expected,
                count(int(bad.sum()), "such row"),
            )

    def lengths(self) -> None:
        has_attention = self.metadata["tail"] != "none"
        if not has_attention and (given := [n for n in ATTENTION if n in self.table.columns]):
            expected = f"none of {', '.join(ATTENTION)} with the tail none"
            raise self.error("columns", ", ".join(given), expected, "see docs/trace.md")
        first = "alpha" if has_attention else "tokens"
        positions = lengths_of(self.table[first])
        self.refuse(positions == 0, first, positions, "at least one position")
        for values in self.table:
            column = column_of(values.name)
            if column is not None and column.per_position:
                lengths = lengths_of(values)
                wrong = (lengths != positions) & (lengths >= 0)  # a null row has length -1
                self.refuse(wrong, values.name, lengths, f"as many entries as {first}")

    def replacements(self) -> None:
        names = ("replaced", "replaced_prediction")
        given = [name for name in names if name in self.table.columns]
        if not given:
            return
        if len(given) < 2:
            expected = f"{' and '.join(names)}, or neither"
            raise self.error("columns", f"{given[0]} alone", expected)
        copies, runs = (lengths_of(self.table[name]) for name in names)
        self.refuse(copies != runs, names[1], runs, "as many predictions as replaced has copies")
        rows = np.repeat(np.arange(len(copies)), np.maximum(copies, 0))
        inner = flat(self.table["replaced"])
        places, lengths = flat(inner).to_numpy(), lengths_of(inner)
        row = np.repeat(rows, np.maximum(lengths, 0))
        wrong = (places < 0) | (places >= lengths_of(self.table["tokens"])[row])
        bad = np.zeros(len(copies), bool)
        bad[row[wrong]] = True
        expected = "positions from 0, below the length of tokens"
        self.refuse(bad, names[0], places[wrong][:1], expected)
        vector = flat(self.table[names[1]]).dtype
        assert isinstance(vector, pl.Array)
        outputs, found = self.prediction.shape[1], vector.size
        if found != outputs and (found != FEW_OUTPUTS or outputs <= MOST_OUTPUTS):
            many = f", or {FEW_OUTPUTS}" if outputs > MOST_OUTPUTS else ""
            expected = f"{outputs}, as prediction has{many}"
            raise self.error(f"column {names[1]}", f"{found} numbers a copy", expected)

    def entries(self, values: pl.Series) -> None:
        """Refuse numbers that are not finite, and nulls within a row."""
        column, is_list = column_of(values.name), isinstance(values.dtype, pl.List)
        if column is None or not (column.holds_floats or is_list):
            return
        row, entries = np.arange(len(values)), values
        if is_list:
            row, entries = np.repeat(row, np.maximum(lengths_of(values), 0)), flat(values)
        if column.holds_floats:
            # A null among floats becomes NaN.
            numbers = entries.to_numpy().reshape(len(entries), -1 if len(entries) else 0)
            expected, finite = "finite numbers", np.isfinite(numbers)
            bad = ~finite.all(axis=1)
            got: Any = numbers[~finite][:1]
        else:
            expected, bad, got = "no null within a row", entries.is_null().to_numpy(), "null"
        rows = np.zeros(len(values), bool)
        rows[row[bad]] = True
        self.refuse(rows, values.name, got, expected)

    def weights(self, name: str) -> None:
        weights = flat(self.table[name]).to_numpy().astype(np.float64)
        rows = Ragged.from_lengths(weights, lengths_of(self.table[name]))
        lowest = rows.reduce(np.minimum)
        self.refuse(lowest < 0, name, lowest, "weights of 0 or more")
        total = rows.sum()
        wrong = np.abs(total - 1) > TOLERANCE.trace
        self.refuse(wrong, name, total, f"a sum of 1 within {TOLERANCE.trace:g}")

    def classes(self) -> None:
        prediction, limit = self.prediction, TOLERANCE.trace
        outputs = prediction.shape[1]
        if outputs == 1 and self.metadata["activation"] == "softmax":
            expected = "two or more classes, or the activation sigmoid"
            raise self.error("column prediction", "a softmax of one class", expected)
        classes = max(outputs, 2)  # a single output is the probability of class 1 of two
        # A softmax in float32 may round to slightly more than 1.
        outside = np.any((prediction < -limit) | (prediction > 1 + limit), axis=1)
        self.refuse(outside, "prediction", prediction.max(axis=1), "probabilities")
        if "candidates" in self.table.columns:
            lengths = lengths_of(self.table["candidates"])
            expected = f"null or {outputs} entries, as prediction has"
            self.refuse((lengths >= 0) & (lengths != outputs), "candidates", lengths, expected)
            none = ~self.table["candidates"].list.any().fill_null(True).to_numpy()
            self.refuse(none, "candidates", 0, "at least one answer allowed")
        part, names = "metadata class_names", self.metadata.get("class_names")
        names = [] if names is None else names
        if not isinstance(names, list) or not are_names(names):
            expected = "a list of different texts, none of them blank"
            raise self.error(part, str(names), expected, "see docs/trace.md")
        if names and len(names) != classes:
            expected = f"{classes}, as prediction has {count(outputs, 'column')}"
            raise self.error(part, f"{len(names)} class names", expected)
        if "label" in self.table.columns:
            label = array_column(self.table["label"])
            wrong = (label < -1) | (label >= classes)
            self.refuse(wrong, "label", label, f"null or 0 to {classes - 1}")

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
