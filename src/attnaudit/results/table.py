"""Results: the tidy table of an experiment, its summary with intervals, and how both are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from attnaudit.core.files import write_json
from attnaudit.results.file import table_file
from attnaudit.stats.bootstrap import bootstrap_clusters, bootstrap_means

CLUSTER = "of instance"
TOGETHER = 16  # measures whose intervals are drawn at a time: as many numbers of every row are in memory
SUMMARY_SCHEMA = {
    "experiment": pl.String, "measure": pl.String, "group": pl.String, "value": pl.Float64, "std": pl.Float64, "low": pl.Float64,
    "high": pl.Float64, "n": pl.Int64, "undefined": pl.Int64, "reference": pl.Float64, "source": pl.String,
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """One experiment on one trace: ``rows`` has a row per trace row, in memory or in a file, ``summary`` a row per measure and group."""

    experiment: str
    rows: pl.LazyFrame
    summary: pl.DataFrame

    @property
    def table(self) -> pl.DataFrame:
        """All rows, in memory."""
        return self.rows.collect()


@dataclass(frozen=True)
class Results(Mapping[str, Result]):
    """All experiments of an audit by name; ``left_out`` tells why an experiment did not run."""

    results: Mapping[str, Result]
    left_out: Mapping[str, str] = field(default_factory=dict)

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
            (console or Console()).print(f"left out: {name}: {reason}", markup=False)


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def summarise_means(experiment: str, groups: Iterable[tuple[str, pl.LazyFrame]], seed: int) -> pl.DataFrame:
    """Mean, spread and bootstrap interval of every column of every group's frame, `TOGETHER` columns of one group in memory at a time.

    Null and NaN are undefined: left out of the mean and counted. A boolean column gives a share. ``low`` and ``high`` are the
    95 % percentile interval over instances; where these have several rows each, a column `CLUSTER` says whose a row is, and all rows of an
    instance are drawn together. A measure that is defined nowhere has null figures.
    """
    rows: list[dict[str, Any]] = []
    for group, frame in groups:
        columns = frame.collect_schema().names()
        several, measures = [name for name in columns if name == CLUSTER], [name for name in columns if name != CLUSTER]
        for names in (measures[start : start + TOGETHER] for start in range(0, len(measures), TOGETHER)):
            read = frame.select(pl.col(names).cast(pl.Float64).fill_null(float("nan")), pl.col(several)).collect()
            values = read.select(names).to_numpy()
            low, high = bootstrap_clusters(values, read[CLUSTER].to_numpy(), seed=seed) if several else bootstrap_means(values, seed=seed)
            rows += [_summary_row(experiment, name, group, values[:, k], low[k], high[k]) for k, name in enumerate(names)]
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def _summary_row(experiment: str, measure: str, group: str, column: np.ndarray, low: float, high: float) -> dict[str, Any]:
    defined = column[~np.isnan(column)]
    known = len(defined) > 0
    return {
        "experiment": experiment, "measure": measure, "group": group,
        "value": float(defined.mean()) if known else None,
        "std": float(defined.std()) if known else None,
        "low": float(low) if known else None,
        "high": float(high) if known else None,
        "n": len(defined), "undefined": len(column) - len(defined), "reference": None, "source": None,
    }  # fmt: skip
