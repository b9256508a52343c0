"""A run as a report reads it: its summary, its tables, its corpus and model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Int64

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import read_json, read_with_digest
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.about import About
from attnaudit.trace import ROW_KEYS, Trace, trace_metadata


@dataclass(frozen=True)
class RunRecord:
    """Everything that a report, a card or a comparison needs; ``tables`` maps experiments to their per-instance rows, still in files."""

    name: str
    summary: pl.DataFrame
    about: About = field(default_factory=About)
    tables: Mapping[str, pl.LazyFrame] = field(default_factory=dict)

    def columns(self, names: Collection[str]) -> pl.DataFrame:
        """Of every trace row its keys, and those columns of ``names`` that a table has; without tables empty.

        Pages ask for the few numbers that they draw of each row: a large trace has no room for more.
        """
        chosen = {*ROW_KEYS, "predicted", *names}
        return self._joined(lambda table: table.select(name for name in table.collect_schema().names() if name in chosen))

    def rows(self, picks: Int64[np.ndarray, " m"]) -> pl.DataFrame:
        """The trace rows ``picks``, in ascending order, with all columns of all tables, lists too; without tables empty."""
        chosen = pl.Series(picks).implode()
        return self._joined(lambda table: table.with_row_index("row").filter(pl.col("row").is_in(chosen)).drop("row"))

    def _joined(self, read: Callable[[pl.LazyFrame], pl.LazyFrame]) -> pl.DataFrame:
        if not self.tables:
            return pl.DataFrame({"instance": []}, schema={"instance": pl.Int64})
        tables = {name: read(table).collect() for name, table in self.tables.items()}
        first = next(iter(tables))
        return reduce(lambda joined, name: _join(joined, name, tables[name]), list(tables)[1:], tables[first])


def read_record(folder: str | Path, trace: Trace | str | Path | None = None) -> RunRecord:
    """Read a run directory, or a folder of results with a trace elsewhere. Raises RunError and TraceError."""
    folder = Path(folder)
    spec = read_with_digest(folder / "spec.json") if (folder / "spec.json").exists() else {}
    return RunRecord(
        name=folder.resolve().name,
        summary=read_summary(folder / "summary.json"),
        about=About.of(spec if isinstance(spec, Mapping) else {}, _metadata(folder, trace)),
        tables={path.stem: _read_table(path) for path in sorted((folder / "results").glob("*.parquet"))},
    )


def _metadata(folder: Path, trace: Trace | str | Path | None) -> Mapping[str, Any]:
    if isinstance(trace, Trace):
        return trace.metadata
    place = Path(trace) if trace is not None else folder / "trace"
    return trace_metadata(place) if trace is not None or place.exists() else {}


def read_summary(path: Path) -> pl.DataFrame:
    rows = read_json(path)
    expected = f"a list of rows with {', '.join(SUMMARY_SCHEMA)}"
    if not isinstance(rows, list) or not all(isinstance(row, dict) and {"experiment", "measure", "group"} <= row.keys() for row in rows):
        raise RunError("read summary", str(path), "other JSON", expected, "run the audit again")
    try:
        return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)
    except (pl.exceptions.PolarsError, TypeError) as error:
        raise RunError("read summary", str(path), str(error), expected, "run the audit again") from error


def _read_table(path: Path) -> pl.LazyFrame:
    try:
        table = pl.scan_parquet(path)
        table.collect_schema()
        return table
    except (OSError, pl.exceptions.PolarsError) as error:
        raise RunError("read results", str(path), str(error), "a Parquet table written by attnaudit", "run the audit again") from error


def _join(left: pl.DataFrame, name: str, right: pl.DataFrame) -> pl.DataFrame:
    """Tables of one trace, joined row by row; ``name`` is the experiment of ``right``."""
    keys = [key for key in ROW_KEYS if key in left.columns and key in right.columns]
    if left.height != right.height or not left.select(keys).equals(right.select(keys)):
        got = f"tables of {left.height} and {right.height} rows that name different instances"
        raise InputError("read results", "results/", got, "tables of one trace", "run the audit again")
    shared = sorted(set(left.columns) & set(right.columns) - {*ROW_KEYS, "predicted"})
    if shared:
        got = f"column {', '.join(shared)}, which the table of another experiment has too"
        raise InputError("read results", f"results/{name}.parquet", got, "columns of its own", f"rename it in experiment {name}")
    return left.hstack(right.select(key for key in right.columns if key not in left.columns))
