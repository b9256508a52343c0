"""Results: the tidy table of an experiment, its summary with bootstrap intervals over instances, and how both are saved and printed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from attnaudit.core.display import Shown, drawn, in_notebook, show
from attnaudit.core.errors import RunError
from attnaudit.core.files import atomic, write_json
from attnaudit.core.printable import printable
from attnaudit.results.groups import CLUSTER, OF_HEAD, Groups, numbers_of
from attnaudit.stats.bootstrap import (
    bootstrap_clusters,
    bootstrap_means,
    bootstrap_ratios,
    canonical_order,
)
from attnaudit.stats.inference import share_interval
from attnaudit.stats.sums import GroupedSums

ROW_GROUP = 32_768  # rows of a results file that are in memory at a time
SHOWN = 20  # measures in the repr of results
TOGETHER = (
    16  # measures whose intervals are drawn at a time: as many numbers of every row are in memory
)
INTERVAL, WILSON = "interval", "Wilson"
SUMMARY_SCHEMA = {
    "experiment": pl.String,
    "measure": pl.String,
    "group": pl.String,
    "value": pl.Float64,
    "std": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
    "undefined": pl.Int64,
    "reference": pl.Float64,
    "source": pl.String,
    "texts": pl.Int64,
}


def summary_row(
    experiment: str,
    measure: str,
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    *,
    n: int,
    undefined: int = 0,
    std: float | None = None,
    group: str = "all",
    source: str | None = None,
    texts: int | None = None,
) -> dict[str, Any]:
    """One row of a summary: ``value`` with its interval and spread over ``n`` instances; a number that is NaN is null in the row.

    Where instances have several rows each, ``n`` counts rows and ``texts`` the instances, which an interval draws.
    """
    numbers = {"value": value, "std": std, "low": low, "high": high}
    known = {
        name: None if number is None or np.isnan(number) else float(number)
        for name, number in numbers.items()
    }
    return {
        "experiment": experiment,
        "measure": measure,
        "group": group,
        **known,
        "n": n,
        "undefined": undefined,
        "reference": None,
        "source": source,
        "texts": texts,
    }


def summarise_means(
    experiment: str, groups: Iterable[tuple[str, pl.LazyFrame]], seed: int
) -> pl.DataFrame:
    """Mean, spread and bootstrap interval of every column of every group's frame, one group in memory at a time.

    Null and NaN are undefined: excluded from the mean and counted. ``low`` and ``high`` are the 95 % percentile interval over instances;
    a boolean column gives a share, whose interval is Wilson's. Where instances have several rows each, a column `CLUSTER` names the
    instance of each row, and all rows of an instance are drawn, or counted, together. A measure that is defined nowhere has null figures.

    `Groups` of a large table are read piece by piece, and intervals are those of `attnaudit.stats.sums`.
    """
    if isinstance(groups, Groups) and groups.is_large:
        return _streamed_means(experiment, groups, seed)
    rows: list[dict[str, Any]] = []
    for group, frame in groups:
        read = frame.collect()
        several, measures = CLUSTER in read.columns, read.drop(CLUSTER, strict=False)
        of = read[CLUSTER].to_numpy() if several else np.arange(read.height)
        text = np.unique(of, return_inverse=True)[1] if several else None
        for some in (
            measures[:, start : start + TOGETHER] for start in range(0, measures.width, TOGETHER)
        ):
            values, ends = numbers_of(some), _intervals(some, of if several else None, seed)
            rows += [
                _of_column(experiment, name, group, column, *end, text)
                for name, column, end in zip(some.columns, values.T, ends, strict=True)
            ]
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def _intervals(some: pl.DataFrame, of: np.ndarray | None, seed: int) -> list[tuple[float, float]]:
    """The interval of each column, over rows, or over the instances that they are ``of``: Wilson's of a share, a bootstrap's of a mean."""
    means = [name for name, dtype in some.schema.items() if dtype != pl.Boolean]
    ends: dict[str, tuple[float, float]] = {}
    if means:
        values = numbers_of(some.select(means))
        low, high = (
            bootstrap_means(values, seed=seed)
            if of is None
            else bootstrap_clusters(values, of, seed=seed)
        )
        ends = dict(zip(means, zip(low.tolist(), high.tolist(), strict=True), strict=True))
    instance = np.arange(some.height) if of is None else of
    return [
        ends[name]
        if name in ends
        else share_interval(numbers_of(some.select(name))[:, 0], instance)
        for name in some.columns
    ]


def summarise_ratios(
    experiment: str,
    groups: Iterable[tuple[str, pl.LazyFrame]],
    ratios: Mapping[str, tuple[str, str, str]],
    seed: int,
) -> pl.DataFrame:
    """For each of ``ratios``, (column, low, high), where the mean of the column lies between the means of low (0) and high (1).

    Over the rows that have all three; the interval is that of a bootstrap that draws instances with all their rows. Undefined where low
    and high have the same mean. `Groups` of a large table are read piece by piece.
    """
    if isinstance(groups, Groups) and groups.is_large:
        return _streamed_ratios(experiment, groups, ratios, seed)
    rows: list[dict[str, Any]] = []
    for group, frame in groups:
        read = frame.with_columns(
            pl.exclude(CLUSTER).cast(pl.Float64).fill_null(float("nan"))
        ).collect()
        several = CLUSTER in read.columns
        of = read[CLUSTER].to_numpy() if several else np.arange(read.height)
        for measure, names in ratios.items():
            value, low, high = read.select(names).to_numpy().T
            parts = np.stack([value - low, high - low], axis=1)
            known = ~np.isnan(parts).any(axis=1)
            texts = len(np.unique(of[known])) if several else None
            counts = {"undefined": int((~known).sum()), "texts": texts}
            rows.append(
                _of_ratio(experiment, measure, group, parts[known], of[known], seed) | counts
            )
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def _of_ratio(
    experiment: str, measure: str, group: str, parts: np.ndarray, cluster: np.ndarray, seed: int
) -> dict[str, Any]:
    """The row of Σ ``parts[:, 0]`` / Σ ``parts[:, 1]``."""
    _, of = np.unique(cluster, return_inverse=True)
    ordered = canonical_order(
        np.hstack([parts, of[:, None]])
    )  # sums that do not depend on the order of the rows
    sums = np.zeros((of.max(initial=-1) + 1, 2))
    np.add.at(sums, ordered[:, 2].astype(np.int64), ordered[:, :2])
    top, bottom = sums.sum(axis=0)
    if abs(bottom) <= 1e-12 * len(parts):
        return summary_row(experiment, measure, None, n=len(parts), group=group)
    low, high = bootstrap_ratios(sums[:, :1], sums[:, 1:], seed=seed)
    return summary_row(
        experiment, measure, top / bottom, low[0], high[0], n=len(parts), group=group
    )


def _of_column(
    experiment: str,
    measure: str,
    group: str,
    column: np.ndarray,
    low: float,
    high: float,
    of: np.ndarray | None,
) -> dict[str, Any]:
    """The row of one measure's values, NaN where undefined, each ``of`` an instance (None: an instance of its own)."""
    known = ~np.isnan(column)
    defined, texts = column[known], None if of is None else int((np.bincount(of[known]) > 0).sum())
    n, undefined = len(defined), len(column) - len(defined)
    if n == 0:
        return summary_row(
            experiment, measure, None, n=n, undefined=undefined, group=group, texts=texts
        )
    return summary_row(
        experiment,
        measure,
        defined.mean(),
        low,
        high,
        n=n,
        undefined=undefined,
        std=defined.std(),
        group=group,
        texts=texts,
    )


def _streamed_means(experiment: str, groups: Groups, seed: int) -> pl.DataFrame:
    """`summarise_means` of a large table."""
    rows: list[dict[str, Any]] = []
    for group, (measures, sums) in groups.sums().items():
        ends = _streamed_ends(measures, sums, seed)
        for k, (name, is_share) in enumerate(measures.items()):
            n = int(sums.n[k])
            counts = {
                "n": n,
                "undefined": sums.rows - n,
                "texts": int(sums.texts[k]) if groups.several else None,
            }
            known = (sums.value(k), *ends[k]) if n else (None,)
            std = math.sqrt(sums.squares[k] / n) if n else None
            rows.append(
                with_method(
                    summary_row(experiment, name, *known, std=std, group=group, **counts),
                    sums.method(k),
                    is_share,
                )
            )
    return of_large(rows)


def _streamed_ends(
    measures: Mapping[str, bool], sums: GroupedSums, seed: int
) -> dict[int, tuple[float, float]]:
    """The interval of each measure, drawn for as many at a time as in a table that is read whole."""
    means = [k for k, is_share in enumerate(measures.values()) if not is_share]
    ends = {k: sums.share_interval(k) for k, is_share in enumerate(measures.values()) if is_share}
    for some in (means[start : start + TOGETHER] for start in range(0, len(means), TOGETHER)):
        low, high = sums.take(*some).intervals(seed)
        ends |= dict(zip(some, zip(low.tolist(), high.tolist(), strict=True), strict=True))
    return ends


def with_method(row: Mapping[str, Any], method: str, is_share: bool = False) -> dict[str, Any]:
    """A summary row of a large table and how its interval was found: null where it has none."""
    return {**row, INTERVAL: None if row["low"] is None else WILSON if is_share else method}


def of_large(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Summary rows of a large table: they have a further column that says how the interval was found."""
    return pl.DataFrame(rows, schema={**SUMMARY_SCHEMA, INTERVAL: pl.String})


def _streamed_ratios(
    experiment: str, groups: Groups, ratios: Mapping[str, tuple[str, str, str]], seed: int
) -> pl.DataFrame:
    """`summarise_ratios` of a large table, all of one pass over it."""

    def parts(table: pl.LazyFrame) -> pl.LazyFrame:
        found = groups.measures(table).with_columns(pl.all().cast(pl.Float64))
        both = [
            (pl.col(value) - pl.col(low), pl.col(high) - pl.col(low))
            for value, low, high in ratios.values()
        ]
        pairs = zip(
            ratios, [(top + 0.0 * bottom, bottom + 0.0 * top) for top, bottom in both], strict=True
        )  # both known, or neither
        return found.select(
            one.alias(f"{name} {k}") for name, pair in pairs for k, one in enumerate(pair)
        )

    rows: list[dict[str, Any]] = []
    for group, (_, sums) in Groups(groups.table, parts, groups.together).sums().items():
        for k, name in enumerate(ratios):
            row = _of_sums(
                experiment, name, group, sums.take(2 * k, 2 * k + 1), seed, groups.several
            )
            rows.append(with_method(row, sums.method(2 * k)))
    return of_large(rows)


def _of_sums(
    experiment: str, measure: str, group: str, pair: GroupedSums, seed: int, several: bool
) -> dict[str, Any]:
    """The row of the sum of the first over that of the second."""
    n, (top, bottom) = int(pair.n[0]), (math.fsum(pair.total[:, k]) for k in range(2))
    counts = {
        "n": n,
        "undefined": pair.rows - n,
        "texts": int(pair.texts[0]) if several else None,
        "group": group,
    }
    if abs(bottom) <= 1e-12 * n:
        return summary_row(experiment, measure, None, **counts)
    return summary_row(experiment, measure, top / bottom, *pair.ratio_interval(seed), **counts)


@contextmanager
def table_file(path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Write a Parquet file in pieces; it is there, whole, once the context ends without an error.

    Its bytes depend only on the rows, not on the pieces they come in.

    Args:
        path: The file.

    Yields:
        A function that adds rows.

    Raises:
        RunError: If the file cannot be written.
    """
    with atomic(path) as temporary:
        parts = _Parts(path)
        try:
            yield parts.add
            parts.write(parts.height)
            pl.scan_ipc(parts.files).sink_parquet(
                temporary, compression="zstd", statistics=False, row_group_size=ROW_GROUP
            )
        finally:
            for part in parts.files:
                part.unlink(missing_ok=True)


def read_table(path: Path) -> pl.LazyFrame:
    """The rows of the Parquet file ``path``, whatever its name: brackets are no pattern. Raises RunError."""
    try:
        table = pl.scan_parquet(path, glob=False)
        table.collect_schema()
        return table
    except (OSError, pl.exceptions.PolarsError) as error:
        do = "run the command that makes it again"
        raise RunError(
            "read results", str(path), str(error), "a Parquet table written by attnaudit", do
        ) from error


def tables_in(path: Path) -> Iterator[pl.DataFrame]:
    """Read the rows of the Parquet file ``path`` in order, some at a time."""
    yield from read_table(path).collect_batches(chunk_size=ROW_GROUP, maintain_order=True)


class _Parts:
    """Rows on their way into a file: memory holds one row group, the others wait in files."""

    def __init__(self, path: Path) -> None:
        self.path, self.files = path, list[Path]()
        self.waiting, self.height = list[pl.DataFrame](), 0

    def add(self, rows: pl.DataFrame) -> None:
        self.waiting.append(rows)
        self.height += rows.height
        while self.height >= ROW_GROUP:
            self.write(ROW_GROUP)

    def write(self, height: int) -> None:
        """Move the first ``height`` waiting rows into a file, named as leftovers of a killed run."""
        if height > 0:
            rows = pl.concat(self.waiting)
            self.waiting, self.height = [rows[height:]], rows.height - height
            self.files.append(self.path.with_name(f".{self.path.name}.{len(self.files):08}"))
            rows[:height].rechunk().write_ipc(self.files[-1], compression="lz4")


@dataclass(frozen=True)
class Result:
    """One experiment on one trace: ``rows`` has a row per trace row, in memory or in a file, ``summary`` a row per measure and group."""

    experiment: str
    rows: pl.LazyFrame
    summary: pl.DataFrame

    def __repr__(self) -> str:
        return "\n".join(
            [f"Result {self.experiment}: {_count(self.summary)}", *_lines(self.summary)]
        )

    def _repr_html_(self) -> str:
        return drawn("result_html", self)

    @property
    def table(self) -> pl.DataFrame:
        """All rows, in memory."""
        return self.rows.collect()


@dataclass(frozen=True)
class Results(Mapping[str, Result]):
    """All experiments of an audit by name; ``left_out`` has the reason for each experiment that was skipped.

    ``metadata`` is that of the trace: names of its corpus, model and classes.
    """

    results: Mapping[str, Result]
    left_out: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        skipped = [f"  skipped: {name}: {reason}" for name, reason in self.left_out.items()]
        return "\n".join(
            [
                f"Results of {', '.join(self) or 'no experiment'}: {_count(self.summary)}",
                *_lines(self.summary),
                *skipped,
            ]
        )

    def _repr_html_(self) -> str:
        return drawn("results_html", self)

    def __getitem__(self, experiment: str) -> Result:
        return self.results[experiment]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def summary(self) -> pl.DataFrame:
        """Rows {experiment, measure, group, value, std, low, high, n, undefined, reference, source, texts} of every result."""
        return (
            pl.concat([one.summary for one in self.values()], how="diagonal")
            if self.results
            else pl.DataFrame(schema=SUMMARY_SCHEMA)
        )

    def save(self, path: str | Path) -> Path:
        """Write ``results/<experiment>.parquet`` and ``summary.json`` into the folder ``path``. Raises RunError."""
        folder = Path(path)
        for name, result in self.items():
            with table_file(folder / "results" / f"{name}.parquet") as add:
                add(result.table)
        write_json(folder / "summary.json", self.summary.to_dicts())
        return folder

    def figure(self, experiment: str) -> Shown:
        """The figures of ``experiment`` as the report has them, for a notebook. Raises InputError for an experiment without results."""
        return drawn("figures_of", self, experiment)

    def show(self, console: Console | None = None) -> None:
        """Show the verdict card: below the cell of a notebook, else printed to ``console``, by default the terminal.

        The printed card is followed by what was skipped. All numbers are in `summary`.
        """
        if console is None and in_notebook():
            show(self)
            return
        console = console or Console()
        drawn("results_card", self).print(console)
        for name, reason in self.left_out.items():
            console.print(printable(f"skipped: {name}: {reason}"), markup=False)


def counted(row: Mapping[str, Any]) -> str:
    """``480``, or ``480 (12 texts)`` where a text has several of the rows that were counted."""
    texts = row.get("texts")
    return (
        str(row["n"])
        if texts in (None, row["n"])
        else f"{row['n']} ({texts} text{'' if texts == 1 else 's'})"
    )


def _count(summary: pl.DataFrame) -> str:
    groups, unit = (
        summary["group"].n_unique() - 1,
        "rows" if summary["group"].str.starts_with(OF_HEAD).any() else "instances",
    )
    return f"{summary.height} summary rows" + (
        f", over all {unit} and in {groups} groups" if groups > 0 else ""
    )


def _lines(summary: pl.DataFrame) -> list[str]:
    """The first measures over all instances, a line each."""
    overall = summary.filter(pl.col("group") == "all")
    lines = [
        f"  {row['experiment']}.{row['measure']} = {_number(row['value'])}"
        f"{f' ({ends})' if (ends := _interval(row['low'], row['high'])) else ''}, n = {counted(row)}"
        for row in overall.head(SHOWN).iter_rows(named=True)
    ]
    return lines + (
        [f"  … and {overall.height - SHOWN} more in .summary"] if overall.height > SHOWN else []
    )


def _interval(low: float | None, high: float | None) -> str:
    """``0.340 to 0.360``; empty where there is none."""
    return "" if low is None or high is None else f"{_number(low)} to {_number(high)}"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
