"""A run as a report reads it: its summary, its tables, and what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Int64

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import read_json
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.about import About
from attnaudit.trace import ROW_KEYS, Trace

# What figures, comparison and the choice of instances read of every row; a large trace has no room for more.
DRAWN = {
    *ROW_KEYS, "predicted",
    "tau_gradient", "tau_loo", "tau_gradient_loo", "median_delta_y", "max_alpha", "emax_jsd", "emax_jsd_upper", "delta_js",
    "delta_alpha", "flip_max", "flip_random", "removed_random", "removed_attention", "removed_gradient", "removed_gradient_attention",
    "removed_minimum", "times_minimum_attention", "minimum_proven",
}  # fmt: skip


@dataclass(frozen=True)
class RunRecord:
    """Everything that a report, a card or a comparison needs; ``tables`` maps experiments to their per-instance rows, in their files."""

    name: str
    summary: pl.DataFrame
    about: About = field(default_factory=About)
    tables: Mapping[str, pl.LazyFrame] = field(default_factory=dict)

    def rows(self, picks: Int64[np.ndarray, " m"] | None = None) -> pl.DataFrame:
        """All tables side by side, in the trace's order; empty where there is no table.

        Every trace row with the columns that a page draws; of the rows ``picks``, in ascending order, all columns, lists too.
        """
        if not self.tables:
            return pl.DataFrame({"instance": []}, schema={"instance": pl.Int64})
        return reduce(_beside, (_collect(table, picks) for table in self.tables.values()))


def read_record(folder: str | Path, trace: Trace | str | Path | None = None) -> RunRecord:
    """Read a run directory, or a folder of results with a trace elsewhere. Raises RunError and TraceError."""
    folder = Path(folder)
    spec = read_json(folder / "spec.json") if (folder / "spec.json").exists() else {}
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
    return next(Trace.shards(place)).metadata if trace is not None or place.exists() else {}


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


def _collect(table: pl.LazyFrame, picks: np.ndarray | None) -> pl.DataFrame:
    if picks is None:
        return table.select(name for name in table.collect_schema().names() if name in DRAWN).collect()
    return table.with_row_index("row").filter(pl.col("row").is_in(pl.Series(picks).implode())).drop("row").collect()


def _beside(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Two tables of the same trace, joined row by row."""
    keys = [name for name in ROW_KEYS if name in left.columns and name in right.columns]
    if left.height != right.height or not left.select(keys).equals(right.select(keys)):
        got = f"tables of {left.height} and {right.height} rows that name different instances"
        raise InputError("read results", "results/", got, "tables of one trace", "run the audit again")
    return left.hstack(right.select(name for name in right.columns if name not in left.columns))
