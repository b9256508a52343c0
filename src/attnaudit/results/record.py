"""A run as a report reads it: its summary, its tables, its corpus and model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl
from jaxtyping import Int64

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import read_json, read_with_digest
from attnaudit.results import SUMMARY_SCHEMA, read_table
from attnaudit.results.about import About
from attnaudit.results.groups import LARGE, pieces_of, text_number
from attnaudit.trace import ROW_KEYS, Trace, trace_metadata

FEW = 50  # rows that are looked up one by one: each costs a row group


@dataclass(frozen=True)
class RunRecord:
    """Everything that a report, a card or a comparison needs; ``tables`` maps experiments to their per-instance rows, still in files."""

    name: str
    summary: pl.DataFrame
    about: About = field(default_factory=About)
    tables: Mapping[str, pl.LazyFrame] = field(default_factory=dict)

    @cached_property
    def height(self) -> int:
        """How many rows the trace has; 0 without tables."""
        return next((table.select(pl.len()).collect().item() for table in self.tables.values()), 0)

    @cached_property
    def sample(self) -> Int64[np.ndarray, " m"] | None:
        """The rows that pages draw, in ascending order: of `LARGE` rows or more one of each of `LARGE` equal parts; None is all."""
        if self.height < LARGE:
            return None
        draw = np.random.default_rng([self.about.seed or 0, crc32(b"sample of rows")]).random(LARGE)
        return ((np.arange(LARGE) + draw) * (self.height / LARGE)).astype(np.int64)

    def documents(self, rows: pl.DataFrame) -> int:
        """How many texts there are; ``rows`` are the `columns` of them."""
        if self.sample is None:
            return rows.select(text_number(rows.columns)).to_series().n_unique()
        texts = self.summary["texts"].max()
        return texts if isinstance(texts, int) else self.height

    def columns(self, names: Collection[str]) -> pl.DataFrame:
        """Of the trace rows of `sample` their keys, and those columns of ``names`` that a table has; without tables empty.

        Pages ask for the few numbers that they draw of each row: a large trace has no room for more.
        """
        chosen, picks = {*ROW_KEYS, "predicted", *names}, self.sample

        def read(table: pl.LazyFrame) -> pl.DataFrame:
            few = table.select(name for name in table.collect_schema().names() if name in chosen)
            return few.collect() if picks is None else taken(few, picks)

        return self._joined(read)

    def rows(self, picks: Int64[np.ndarray, " m"]) -> pl.DataFrame:
        """The trace rows ``picks``, in ascending order, with all columns of all tables, lists too; without tables empty."""
        if self.height >= LARGE:
            return self._joined(lambda table: taken(table, picks))
        chosen = pl.Series(picks).implode()
        return self._joined(
            lambda table: (
                table.with_row_index("row")
                .filter(pl.col("row").is_in(chosen))
                .drop("row")
                .collect()
            )
        )

    def _joined(self, read: Callable[[pl.LazyFrame], pl.DataFrame]) -> pl.DataFrame:
        if not self.tables:
            return pl.DataFrame({"instance": []}, schema={"instance": pl.Int64})
        tables = {name: read(table) for name, table in self.tables.items()}
        first = next(iter(tables))
        return reduce(
            lambda joined, name: _join(joined, name, tables[name]), list(tables)[1:], tables[first]
        )


def read_record(folder: str | Path, trace: Trace | str | Path | None = None) -> RunRecord:
    """Read a run directory, or a folder of results with a trace elsewhere. Raises RunError and TraceError."""
    folder = Path(folder)
    if not (folder / "summary.json").exists():
        got = "no summary.json there" if folder.is_dir() else "no such folder"
        raise RunError(
            "read results",
            str(folder),
            got,
            "the folder of a run or an audit",
            "make one with attnaudit audit",
        )
    spec = read_with_digest(folder / "spec.json") if (folder / "spec.json").exists() else {}
    summary, results = read_summary(folder / "summary.json"), folder / "results"
    if not results.is_dir():  # a run without attention leaves it empty
        raise RunError(
            "read results",
            str(results),
            "no such folder",
            "the tables that summary.json sums up",
            "run the audit again",
        )
    return RunRecord(
        name=folder.resolve().name,
        summary=summary,
        about=About.of(spec if isinstance(spec, Mapping) else {}, _metadata(folder, trace)),
        tables={path.stem: read_table(path) for path in sorted(results.glob("*.parquet"))},
    )


def _metadata(folder: Path, trace: Trace | str | Path | None) -> Mapping[str, Any]:
    if isinstance(trace, Trace):
        return trace.metadata
    place = Path(trace) if trace is not None else folder / "trace"
    return trace_metadata(place) if trace is not None or place.exists() else {}


def read_summary(path: Path) -> pl.DataFrame:
    rows = read_json(path)
    expected = f"a list of rows with {', '.join(SUMMARY_SCHEMA)}"
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and {"experiment", "measure", "group"} <= row.keys() for row in rows
    ):
        raise RunError("read summary", str(path), "other JSON", expected, "run the audit again")
    try:
        return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)
    except (pl.exceptions.PolarsError, TypeError) as error:
        found = str(error).partition(";")[0]  # advice to programmers follows
        raise RunError("read summary", str(path), found, expected, "run the audit again") from error


def taken(table: pl.LazyFrame, picks: Int64[np.ndarray, " m"]) -> pl.DataFrame:
    """The rows ``picks``, in ascending order, of a table that is not read whole."""
    if len(picks) <= FEW:
        return pl.concat(
            [table.slice(row, 1).collect() for row in picks.tolist()] or [table.head(0).collect()]
        )
    found, done = [], 0
    for piece in pieces_of(table):
        found.append(piece[picks[(picks >= done) & (picks < done + piece.height)] - done])
        done += piece.height
    return pl.concat(found)


def _join(left: pl.DataFrame, name: str, right: pl.DataFrame) -> pl.DataFrame:
    """Tables of one trace, joined row by row; ``name`` is the experiment of ``right``."""
    keys = [key for key in ROW_KEYS if key in left.columns and key in right.columns]
    if left.height != right.height or not left.select(keys).equals(right.select(keys)):
        got = f"tables of {left.height} and {right.height} rows that name different instances"
        raise InputError(
            "read results", "results/", got, "tables of one trace", "run the audit again"
        )
    shared = sorted(set(left.columns) & set(right.columns) - {*ROW_KEYS, "predicted"})
    if shared:
        got = f"column {', '.join(shared)}, which the table of another experiment has too"
        raise InputError(
            "read results",
            f"results/{name}.parquet",
            got,
            "columns of its own",
            f"rename it in experiment {name}",
        )
    return left.hstack(right.select(key for key in right.columns if key not in left.columns))
