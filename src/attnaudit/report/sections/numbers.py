"""All summary numbers: a table for each experiment, its measures by groups of instances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import polars as pl

from attnaudit.experiments import measure_label
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import Section
from attnaudit.report.words import figure, interval
from attnaudit.results import OF_HEAD, counted
from attnaudit.results.groups import OF_CLASS
from attnaudit.results.summary import INSTANCE, Heads

MOST_COLUMNS = 7
MOST_OPEN = 5  # tables; where there are more, each is closed until a reader opens it


class SummaryCell(NamedTuple):
    """One number, its interval, and in ``detail`` its spread, count and what is undefined."""

    value: str
    interval: str = ""
    detail: str = ""


Row = tuple[str, str, tuple[SummaryCell | None, ...]]


@dataclass(frozen=True)
class SummaryTable:
    """A table of numbers.

    Attributes:
        experiment: Its title.
        groups: Titles of the columns.
        rows: Name, label and one cell for each group, None where there is no such number.
        meanings: What labels of both sides mean.
    """

    experiment: str
    groups: tuple[str, ...]
    rows: tuple[Row, ...]
    meanings: Mapping[str, str] = field(default_factory=dict)


def numbers_section(tables: Sequence[SummaryTable], lead: str) -> Section:
    """Show all numbers.

    Args:
        tables: The tables.
        lead: What is averaged and what the intervals are over.
    """
    summaries = [part for table in tables for part in parts(table)]
    content = {"summaries": summaries, "lead": lead, "open": len(tables) <= MOST_OPEN}
    return Section("numbers", content, (("All numbers", "#numbers"),))


def parts(table: SummaryTable) -> Iterator[SummaryTable]:
    """Yield parts that fit the width of a page, `MOST_COLUMNS` groups each, with all rows."""
    for first in range(0, max(len(table.groups), 1), MOST_COLUMNS):
        chosen = slice(first, first + MOST_COLUMNS)
        title = f"{table.experiment}, continued" if first else table.experiment
        rows = tuple((name, label, cells[chosen]) for name, label, cells in table.rows)
        yield replace(table, experiment=title, groups=table.groups[chosen], rows=rows)


def summary_tables(
    summary: pl.DataFrame, unit: str = INSTANCE, heads: Heads | None = None
) -> list[SummaryTable]:
    """Lay out a summary but for single heads, which have a section of their own.

    Args:
        summary: The summary; every row of it is in one cell.
        unit: What the numbers are means over.
        heads: The heads: what one of them has rows for is the unit of tables with as many rows.
    """
    shown = summary.filter(~pl.col("group").str.starts_with(OF_HEAD))
    tables = []
    for (name,), part in shown.group_by("experiment", maintain_order=True):
        of_head = heads is not None and (part["n"] + part["undefined"]).max() == heads.positions
        tables.append(table_of(str(name), part, unit=heads.unit if heads and of_head else unit))
    return tables


def table_of(
    experiment: str,
    summary: pl.DataFrame,
    title: str = "",
    label: Callable[[str], str] | None = None,
    group: Callable[[str], str] | None = None,
    unit: str = INSTANCE,
) -> SummaryTable:
    """Lay out the summary of an experiment or a study: a row for each measure.

    Args:
        experiment: Its name.
        summary: The rows; each is in one cell.
        title: Title of the table; by default the name.
        label: Names a measure.
        group: Names a group.
        unit: What the numbers are means over.
    """
    groups, measures = (
        summary[name].unique(maintain_order=True).to_list() for name in ("group", "measure")
    )
    cells = {
        (row["measure"], row["group"]): summary_cell(row) for row in summary.iter_rows(named=True)
    }
    labels = {name: label(name) if label else measure_label(name, experiment) for name in measures}
    return SummaryTable(
        title or experiment,
        tuple(group(name) if group else group_label(name, unit) for name in groups),
        tuple(
            (name, labels[name], tuple(cells.get((name, column)) for column in groups))
            for name in measures
        ),
        meanings(experiment, labels, unit),
    )


def meanings(of: str, labels: Mapping[str, str], unit: str = INSTANCE) -> dict[str, str]:
    """Return what the measures with these ``labels``, by name, mean, as far as that is known."""
    return {
        label: meaning
        for name, label in labels.items()
        if (meaning := measure_meaning(name, of, unit))
    }


def group_label(group: str, unit: str = INSTANCE) -> str:
    """Name a group: ``all instances``, or ``predicted positive``."""
    return f"all {unit}s" if group == "all" else group.replace(OF_CLASS, "predicted ", 1)


def summary_cell(row: Mapping[str, Any]) -> SummaryCell:
    """Write one row of a summary."""
    details = [f"n {counted(row)}"]
    if row["std"] is not None:
        details.insert(0, f"s.d. {figure(row['std'], 3)}")
    if row["undefined"]:
        details.append(f"{row['undefined']} undefined")
    if row["reference"] is not None:
        details.append(f"{row['source'] or 'reference'} {figure(row['reference'], 3)}")
    return SummaryCell(figure(row["value"], 3), interval(row, 3), ", ".join(details))
