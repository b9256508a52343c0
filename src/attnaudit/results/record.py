"""A run on disk: its summary, tables, corpus and model, for reports."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from attnaudit.core import InputError, RunError, expanded, read_json, read_with_digest
from attnaudit.core.shapes import Indices
from attnaudit.results.about import About
from attnaudit.results.estimates import SUMMARY_SCHEMA
from attnaudit.results.groups import LARGE, pieces_of
from attnaudit.results.table import read_table
from attnaudit.trace import ROW_KEYS, Trace, trace_metadata


@dataclass(frozen=True)
class RunRecord:
    """The data behind a report, a card or a comparison.

    Attributes:
        name: Name of the run.
        summary: Rows of its summary.
        about: Its corpus and model.
        tables: Row table of every experiment, not read yet.
    """

    name: str
    summary: pl.DataFrame
    about: About = field(default_factory=About)
    tables: Mapping[str, pl.LazyFrame] = field(default_factory=dict)

    @cached_property
    def height(self) -> int:
        """Number of rows of the trace; 0 without tables."""
        return next((table.select(pl.len()).collect().item() for table in self.tables.values()), 0)

    @cached_property
    def sample(self) -> Indices | None:
        """Numbers of the rows that pages draw, in ascending order; None stands for all."""
        # One random row from each of `LARGE` equal parts covers a large trace evenly, and needs no
        # sorting. The text keeps this draw apart from others with the seed of the run.
        if self.height < LARGE:
            return None
        draw = np.random.default_rng([self.about.seed or 0, crc32(b"sample of rows")]).random(LARGE)
        return ((np.arange(LARGE) + draw) * (self.height / LARGE)).astype(np.int64)

    def columns(self, names: Collection[str]) -> pl.DataFrame:
        """Read keys, predicted class and chosen columns of the rows of `sample`.

        Args:
            names: Further columns; those that no table has are skipped.

        Returns:
            The columns of all tables side by side; an empty table if there are none.
        """
        # Only the columns that pages draw: memory has no room for all columns of a large trace.
        chosen = {*ROW_KEYS, "predicted", *names}
        few = {
            name: table.select(name for name in table.collect_schema().names() if name in chosen)
            for name, table in self.tables.items()
        }
        return _joined(few, self.sample)

    def rows(self, picks: Indices) -> pl.DataFrame:
        """Read all columns of all tables.

        Args:
            picks: Numbers of the rows to read, in ascending order.
        """
        return _joined(self.tables, picks)


def _joined(tables: Mapping[str, pl.LazyFrame], picks: Indices | None) -> pl.DataFrame:
    """Read the rows ``picks``, or all rows, and put the columns of all tables side by side."""
    joined = pl.DataFrame(schema={"instance": pl.Int64})
    for k, (name, table) in enumerate(tables.items()):
        rows = table.collect(engine="streaming") if picks is None else _picked(table, picks)
        joined = rows if k == 0 else _beside(joined, name, rows)
    return joined


def _picked(table: pl.LazyFrame, picks: Indices) -> pl.DataFrame:
    # In pieces: a lazy filter that selects few rows of many keeps the memory of the others.
    parts, done = [table.head(0).collect()], 0
    for piece in pieces_of(table):
        first, last = np.searchsorted(picks, [done, done + piece.height])
        if first < last:
            parts.append(piece[picks[first:last] - done])
        done += piece.height
    return pl.concat(parts)


def read_record(folder: str | Path, trace: Trace | str | Path | None = None) -> RunRecord:
    """Read a run directory or a folder of results.

    Args:
        folder: Folder with ``summary.json`` and ``results``.
        trace: The trace, or its path, if it is not in the folder.

    Raises:
        RunError: If there are no readable results.
        TraceError: If the trace cannot be read.
    """
    folder = expanded(folder)
    if not (folder / "summary.json").exists():
        raise RunError(
            "read results",
            str(folder),
            "no summary.json there" if folder.is_dir() else "no such folder",
            "the folder of a run or an audit",
            "make one with attnaudit audit",
        )
    spec = read_with_digest(folder / "spec.json") if (folder / "spec.json").exists() else {}
    summary, results = read_summary(folder / "summary.json"), folder / "results"
    # The folder must exist even for a run without attention, which leaves it empty.
    if not results.is_dir():
        raise RunError(
            "read results",
            str(results),
            "no such folder",
            "the tables that summary.json sums up",
            "run the audit again",
        )
    return RunRecord(
        name=folder.resolve().name,  # the path "." has no name
        summary=summary,
        about=About.of(spec if isinstance(spec, Mapping) else {}, _metadata(folder, trace)),
        tables={path.stem: read_table(path) for path in sorted(results.glob("*.parquet"))},
    )


def _metadata(folder: Path, trace: Trace | str | Path | None) -> Mapping[str, Any]:
    if isinstance(trace, Trace):
        return trace.metadata
    place = expanded(trace) if trace is not None else folder / "trace"
    return trace_metadata(place) if trace is not None or place.exists() else {}


def read_summary(path: Path) -> pl.DataFrame:
    """Read the rows of a summary. Raises RunError for other JSON."""
    rows = read_json(path)
    expected = f"a list of rows with {', '.join(SUMMARY_SCHEMA)}"
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and {"experiment", "measure", "group"} <= row.keys() for row in rows
    ):
        raise RunError("read summary", str(path), "other JSON", expected, "run the audit again")
    try:
        return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)
    except (pl.exceptions.PolarsError, TypeError) as error:
        found = str(error).partition(";")[0]  # polars appends advice to programmers
        raise RunError("read summary", str(path), found, expected, "run the audit again") from error


def _beside(left: pl.DataFrame, name: str, right: pl.DataFrame) -> pl.DataFrame:
    """Add the columns of an experiment. Raises InputError if its rows or columns do not fit."""
    # Tables have one order, so keys are compared instead of joined. Tables of two audits in one
    # folder would otherwise mix silently.
    keys = [key for key in ROW_KEYS if key in left.columns and key in right.columns]
    if left.height != right.height or not left.select(keys).equals(right.select(keys)):
        got = f"tables of {left.height} and {right.height} rows that name different instances"
        raise InputError(
            "read results", "results/", got, "tables of one trace", "run the audit again"
        )
    shared = sorted(set(left.columns) & set(right.columns) - {*ROW_KEYS, "predicted", "one_word"})
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
