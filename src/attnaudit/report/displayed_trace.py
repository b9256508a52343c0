"""A trace without what a report does not show, so that a large one fits into little memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from attnaudit.errors import InputError
from attnaudit.trace import Trace, concatenate

_SHOWN = (
    "instance", "split", "label", "tokens", "question", "alpha", "prediction", "gradient", "loo", "rationale", "layer", "head", "query",
)  # fmt: skip


def read_displayed(trace: Trace | str | Path) -> tuple[Trace, Trace]:
    """The columns of a trace that a report shows, and its first row with all columns. Raises TraceError."""
    shards: Iterable[Trace] = [trace] if isinstance(trace, Trace) else Trace.shards(trace)
    kept, first = [], None
    for shard in shards:
        first = first or shard.take(np.arange(1))
        kept.append(replace(shard, table=shard.table.select([name for name in _SHOWN if shard.has(name)])))
    assert first is not None  # a trace has at least one shard, or it was refused
    return concatenate(kept), first


def check_same_instances(trace: Trace, rows: pl.DataFrame) -> None:
    """Raise InputError where the results' tables are of another trace."""
    if rows.height and (rows.height != len(trace) or not np.array_equal(rows["instance"].to_numpy(), trace.instance)):
        came = f"{rows.height} rows of results, and a trace of {len(trace)} rows that names other instances"
        raise InputError("write report", "trace and results", came, "the trace that the results were made of", "run the audit again")
