"""Results of experiments, tidy tables and summaries; they are saved, read and printed here."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from attnaudit.core import RunError, atomic, expanded, write_json
from attnaudit.core.display import Shown, in_notebook, render, show
from attnaudit.results.estimates import SUMMARY_SCHEMA
from attnaudit.results.groups import ALL, OF_HEAD
from attnaudit.results.summary import Row, SummaryRows
from attnaudit.trace import SHOWN

ROW_GROUP = 32_768  # rows of a results file in memory at a time
MOST_SHOWN = 20  # measures in the repr of results
COMPARED = (
    *("replacement", "low", "high", "minus_heatmap", "minus_heatmap_low", "minus_heatmap_high"),
    *("tau_loo", "comprehensiveness"),
)


@contextmanager
def table_file(path: Path) -> Iterator[Callable[[pl.DataFrame], None]]:
    """Write a Parquet file in pieces, whole or not at all.

    The file appears when the context ends without an error. Its bytes depend only on the rows, not
    on the pieces they come in.

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
            pl.scan_ipc(parts.files, glob=False).sink_parquet(
                temporary, compression="zstd", statistics=False, row_group_size=ROW_GROUP
            )
        finally:
            for part in parts.files:
                part.unlink(missing_ok=True)


def read_table(path: Path) -> pl.LazyFrame:
    """Open a Parquet file written by `table_file`. Raises RunError if it is none."""
    try:
        # With `glob=False`, brackets in a name are no pattern. The schema is read at once, so that
        # a damaged file fails here and not within a query.
        table = pl.scan_parquet(path, glob=False)
        table.collect_schema()
        return table
    except (OSError, pl.exceptions.PolarsError) as error:
        do = "run the command that makes it again"
        raise RunError(
            "read results", str(path), str(error), "a Parquet table written by attnaudit", do
        ) from error


def tables_in(path: Path) -> Iterator[pl.DataFrame]:
    """Read the rows of a Parquet file in order, about `ROW_GROUP` at a time."""
    yield from read_table(path).collect_batches(chunk_size=ROW_GROUP, maintain_order=True)


class _Parts:
    """Rows that wait to be written; all but one row group wait in temporary files."""

    def __init__(self, path: Path) -> None:
        self.path, self.files = path, list[Path]()
        self.waiting, self.height = list[pl.DataFrame](), 0

    def add(self, rows: pl.DataFrame) -> None:
        self.waiting.append(rows)
        self.height += rows.height
        while self.height >= ROW_GROUP:
            self.write(ROW_GROUP)

    def write(self, height: int) -> None:
        """Move ``height`` waiting rows into a temporary file."""
        # Its name has the form of the temporary files of `atomic`, so that one left behind by a
        # killed run is recognised as such.
        if height > 0:
            rows = pl.concat(self.waiting)
            self.waiting, self.height = [rows[height:]], rows.height - height
            self.files.append(self.path.with_name(f".{self.path.name}.{len(self.files):08}"))
            rows[:height].rechunk().write_ipc(self.files[-1], compression="lz4")


@dataclass(frozen=True)
class Result:
    """The result of one experiment on one trace.

    Attributes:
        experiment: Name of the experiment.
        rows: A row per trace row, in memory or in a file.
        summary: A row per measure and group.
    """

    experiment: str
    rows: pl.LazyFrame
    summary: pl.DataFrame

    def __repr__(self) -> str:
        return "\n".join(
            [f"Result {self.experiment}: {_size(self.summary)}", *_lines(self.summary)]
        )

    def _repr_html_(self) -> str:
        return render("result_html", self)

    @property
    def table(self) -> pl.DataFrame:
        """All rows, in memory."""
        return self.rows.collect()


@dataclass(frozen=True)
class Results(Mapping[str, Result]):
    """The results of all experiments of an audit, by name.

    Attributes:
        results: Result of each experiment.
        left_out: Reason for each skipped experiment.
        metadata: Metadata of the trace: names of its corpus, model and classes.
        trace: The trace, if it was in memory; a text of it is shown as an example.
    """

    results: Mapping[str, Result]
    left_out: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    trace: Any = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        head = f"Results of {', '.join(self) or 'no experiment'}: {_size(self.summary)}"
        skipped = [f"  skipped: {name}: {reason}" for name, reason in self.left_out.items()]
        return "\n".join([head, *_lines(self.summary), *skipped])

    def _repr_html_(self) -> str:
        return render("results_html", self)

    def __getitem__(self, experiment: str) -> Result:
        if experiment not in self.results:
            why = self.left_out.get(experiment, f"there are {', '.join(self) or 'none'}")
            raise KeyError(f"no result of {experiment}: {why}")
        return self.results[experiment]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def summary(self) -> pl.DataFrame:
        """Rows of every result, with the columns of `SUMMARY_SCHEMA`."""
        # The empty frame gives an audit without results the right columns.
        parts = (result.summary for result in self.values())
        return pl.concat([pl.DataFrame(schema=SUMMARY_SCHEMA), *parts], how="diagonal")

    def table(self) -> pl.DataFrame:
        """Compare all scores by how well the output follows them when words are replaced.

        Returns:
            A row for each score, the best first: its mean rank correlation ``replacement`` with
            the change of the output and its 95 % interval; ``minus_heatmap``, the paired difference
            to the heatmap that is judged, with its interval; ``tau_loo``, its agreement with
            leave-one-out; ``comprehensiveness`` with its top words replaced in the text, or deleted
            from it. Unknown values are null.
        """
        rows, table = SummaryRows.of(self.summary), []
        gaps = rows.family("replacement", f"replacement_{rows.heatmap}_minus_replacement_")
        for name in (rows.heatmap, *gaps):
            own, gap = rows.get("replacement", f"replacement_{name}"), gaps.get(name, {})
            if own is not None:
                ends = (own[end] for end in ("value", "low", "high"))
                lead = (gap.get(end) for end in ("value", "high", "low"))
                differences = (None if one is None else -one for one in lead)
                title = self.metadata.get("heatmap", name) if name == SHOWN else name
                kinds = ("replacement", "comprehensiveness")
                pairs = f"loo_and_{name}", f"{name}_and_loo"
                further = (
                    [rows.value("agreement", f"tau_{pair}") for pair in pairs],
                    [rows.value("comprehensiveness", f"input_{kind}_{name}") for kind in kinds],
                )
                known = ((one for one in values if one is not None) for values in further)
                table.append(
                    (title, *ends, *differences, *(next(values, None) for values in known))
                )
        columns = {"score": pl.String, **dict.fromkeys(COMPARED, pl.Float64)}
        found = pl.DataFrame(table, columns, orient="row")
        return found.sort("replacement", descending=True, maintain_order=True)

    @property
    def verdict(self) -> Any:
        """The `Verdict`: what may be claimed of heatmaps, for the model and by class."""
        return render("decide_verdict", self.summary)

    def save(self, path: str | Path) -> Path:
        """Write results, ``summary.json`` and ``verdict.json`` into a folder, as an audit does.

        Args:
            path: The folder.

        Returns:
            The folder.

        Raises:
            RunError: If a file cannot be written.
        """
        folder = expanded(path)
        for name, result in self.items():
            with table_file(folder / "results" / f"{name}.parquet") as add:
                add(result.table)
        write_json(folder / "summary.json", self.summary.to_dicts())
        write_json(folder / "verdict.json", self.verdict.to_json())
        return folder

    def figure(self, experiment: str) -> Shown:
        """Draw the figures of an experiment as in the report, for a notebook.

        Args:
            experiment: Name of the experiment.

        Raises:
            InputError: If the experiment has no result.
        """
        return render("figures_of", self, experiment)

    def show(self, console: Console | None = None) -> None:
        """Show the answer in a notebook, or print it.

        All numbers are in `summary`, and the skipped experiments in `left_out`.

        Args:
            console: Console to print to, even in a notebook. By default the terminal.
        """
        if console is None and in_notebook():
            show(self)
        else:
            render("print_results", self, console or Console())


def counted(row: Row) -> str:
    """Format the number of rows behind a summary row: ``480`` or ``480 (12 texts)``."""
    n, texts = row["n"], row.get("texts")
    return str(n) if texts in (None, n) else f"{n} ({texts} text{'' if texts == 1 else 's'})"


def _size(summary: pl.DataFrame) -> str:
    groups = summary["group"].n_unique() - 1  # without the group of all rows
    unit = "rows" if summary["group"].str.starts_with(OF_HEAD).any() else "texts"
    further = f", over all {unit} and in {groups} groups" if groups > 0 else ""
    return f"{summary.height} summary rows{further}"


def _lines(summary: pl.DataFrame) -> list[str]:
    """Format the first measures over all texts, one per line."""
    overall, lines = summary.filter(pl.col("group") == ALL), []
    for row in overall.head(MOST_SHOWN).iter_rows(named=True):
        value = "undefined" if row["value"] is None else f"{row['value']:.3f}"
        ends = "" if row["low"] is None else f" ({row['low']:.3f} to {row['high']:.3f})"
        lines.append(f"  {row['experiment']}.{row['measure']} = {value}{ends}, n = {counted(row)}")
    more = overall.height - MOST_SHOWN
    return [*lines, f"  … and {more} more in .summary"] if more > 0 else lines
