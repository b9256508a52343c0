"""What a report takes from a trace, so that a large one fits into little memory: a line for every row, and a few rows whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from jaxtyping import Float, Int64

from attnaudit.core.errors import InputError
from attnaudit.trace import Trace, concatenate

_SHOWN = (
    "instance", "split", "label", "tokens", "question", "alpha", "prediction", "gradient", "loo", "rationale", "layer", "head", "query",
)  # fmt: skip
_READ_OUT = ("instance", "tokens", "alpha", "readout", "offset", "prediction", "candidates")


def overview(trace: Trace | str | Path) -> pl.DataFrame:
    """A row per trace row: ``instance``, ``confidence`` (probability of the predicted class), ``positions`` (T). Raises TraceError."""
    parts = [
        pl.DataFrame({"instance": part.instance, "confidence": _confidence(part.prediction), "positions": part.ragged("alpha").lengths})
        for part in _parts(trace, ("instance", "prediction", "alpha"))
    ]
    return pl.concat(parts)


def rows_shown(trace: Trace | str | Path, picks: Int64[np.ndarray, " m"]) -> Trace:
    """The rows ``picks``, in ascending order, with the columns that a report shows. Raises TraceError."""
    return _rows_of(trace, picks, _SHOWN)


def _rows_of(trace: Trace | str | Path, picks: Int64[np.ndarray, " m"], names: tuple[str, ...]) -> Trace:
    kept, done = [], 0
    for part in _parts(trace, names):
        here = picks[(picks >= done) & (picks < done + len(part))] - done
        if len(here):
            kept.append(part.take(here))
        done += len(part)
    return concatenate(kept)


def rows_read_out(trace: Trace | str | Path, picks: Int64[np.ndarray, " m"]) -> Trace:
    """The rows ``picks``, in ascending order, with what their output is made of. Raises TraceError."""
    return _rows_of(trace, picks, _READ_OUT)


def _parts(trace: Trace | str | Path, names: tuple[str, ...]) -> Iterator[Trace]:
    if not isinstance(trace, Trace):
        return Trace.columns(trace, names)
    return iter([replace(trace, table=trace.table.select([name for name in names if trace.has(name)]))])


def _confidence(prediction: Float[np.ndarray, "n C"]) -> Float[np.ndarray, " n"]:
    highest = prediction.max(axis=1)
    return np.maximum(highest, 1.0 - highest) if prediction.shape[1] == 1 else highest


def check_same_instances(seen: pl.DataFrame, rows: pl.DataFrame) -> None:
    """Raise InputError where the results' tables are of another trace than the overview ``seen``."""
    if rows.height and (rows.height != seen.height or not rows["instance"].equals(seen["instance"])):
        got = f"{rows.height} rows of results, and a trace of {seen.height} rows that names other instances"
        raise InputError("write report", "trace and results", got, "the trace that the results were made of", "run the audit again")
