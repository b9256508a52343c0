"""Results: the tidy table of an experiment and its summary, saved and printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

from attnaudit.core.files import write_json
from attnaudit.results.file import table_file
from attnaudit.results.summary import SUMMARY_SCHEMA

SHOWN = 20  # measures in the repr of results


@dataclass(frozen=True)
class Result:
    """One experiment on one trace: ``rows`` has a row per trace row, in memory or in a file, ``summary`` a row per measure and group."""

    experiment: str
    rows: pl.LazyFrame
    summary: pl.DataFrame

    def __repr__(self) -> str:
        return "\n".join([f"Result {self.experiment}: {_count(self.summary)}", *_lines(self.summary)])

    @property
    def table(self) -> pl.DataFrame:
        """All rows, in memory."""
        return self.rows.collect()


@dataclass(frozen=True)
class Results(Mapping[str, Result]):
    """All experiments of an audit by name; ``left_out`` has the reason for each experiment that was skipped."""

    results: Mapping[str, Result]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        skipped = [f"  skipped: {name}: {reason}" for name, reason in self.left_out.items()]
        return "\n".join([f"Results of {', '.join(self) or 'no experiment'}: {_count(self.summary)}", *_lines(self.summary), *skipped])

    def __getitem__(self, experiment: str) -> Result:
        return self.results[experiment]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def summary(self) -> pl.DataFrame:
        """Rows {experiment, measure, group, value, std, low, high, n, undefined, reference, source} of every result."""
        return pl.concat([result.summary for result in self.values()]) if self.results else pl.DataFrame(schema=SUMMARY_SCHEMA)

    def save(self, path: str | Path) -> Path:
        """Write ``results/<experiment>.parquet`` and ``summary.json`` into the folder ``path``. Raises RunError."""
        folder = Path(path)
        for name, result in self.items():
            with table_file(folder / "results" / f"{name}.parquet") as add:
                add(result.table)
        write_json(folder / "summary.json", self.summary.to_dicts())
        return folder

    def show(self, console: Console | None = None) -> None:
        """Print the summary over all instances as a table."""
        table = Table(title="attnaudit", title_justify="left")
        table.add_column("experiment", no_wrap=True)
        table.add_column("measure", overflow="fold")
        for column in ("value", "95 % interval", "n", "undefined"):
            table.add_column(column, justify="right", no_wrap=True)
        for row in self.summary.filter(pl.col("group") == "all").iter_rows(named=True):
            interval = f"{_number(row['low'])} to {_number(row['high'])}"
            table.add_row(row["experiment"], row["measure"], _number(row["value"]), interval, str(row["n"]), str(row["undefined"]))
        (console or Console()).print(table)
        for name, reason in self.left_out.items():
            (console or Console()).print(f"skipped: {name}: {reason}", markup=False)


def _count(summary: pl.DataFrame) -> str:
    groups = summary["group"].n_unique() - 1
    return f"{summary.height} summary rows" + (f", over all instances and in {groups} groups" if groups > 0 else "")


def _lines(summary: pl.DataFrame) -> list[str]:
    """The first measures over all instances, a line each."""
    overall = summary.filter(pl.col("group") == "all")
    lines = [
        f"  {experiment}.{measure} = {_number(value)} ({_number(low)} to {_number(high)}), n = {n}"
        for experiment, measure, value, low, high, n in overall.head(SHOWN)
        .select("experiment", "measure", "value", "low", "high", "n")
        .iter_rows()
    ]
    return lines + ([f"  … and {overall.height - SHOWN} more in .summary"] if overall.height > SHOWN else [])


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
