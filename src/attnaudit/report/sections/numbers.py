"""All summary numbers of a run: a table for each experiment, a row for each measure, a column for each group of instances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import polars as pl

from attnaudit.experiments import measure_label
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import Section
from attnaudit.report.words import figure, interval
from attnaudit.results import OF_HEAD, counted
from attnaudit.results.summary import INSTANCE, Heads

_GROUP = "predicted:"
MOST_COLUMNS = 7
MOST_OPEN = 5  # tables; where there are more, each is closed until a reader opens it


class SummaryCell(NamedTuple):
    """One number: ``value`` and its ``interval``, and in ``detail`` its spread, count and what is undefined."""

    value: str
    interval: str
    detail: str


@dataclass(frozen=True)
class SummaryTable:
    """``rows`` are (name, label, one cell per group; None where there is no such number); ``meanings`` explain labels of both sides."""

    experiment: str
    groups: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[SummaryCell | None, ...]], ...]
    meanings: Mapping[str, str] = field(default_factory=dict)


def numbers_section(tables: Sequence[SummaryTable], lead: str) -> Section:
    """All numbers; ``lead`` says what is averaged and what the intervals are over."""
    summaries = [part for table in tables for part in parts(table)]
    parameters = {"summaries": summaries, "lead": lead, "open": len(tables) <= MOST_OPEN}
    return Section("numbers", parameters, (("All numbers", "#numbers"),))


def parts(table: SummaryTable) -> Iterator[SummaryTable]:
    """The table in parts that fit the width of a page, `MOST_COLUMNS` groups each, with all rows."""
    for first in range(0, max(len(table.groups), 1), MOST_COLUMNS):
        chosen = slice(first, first + MOST_COLUMNS)
        title = f"{table.experiment}, continued" if first else table.experiment
        rows = tuple((name, label, cells[chosen]) for name, label, cells in table.rows)
        yield replace(table, experiment=title, groups=table.groups[chosen], rows=rows)


def summary_tables(
    summary: pl.DataFrame, unit: str = INSTANCE, heads: Heads | None = None
) -> list[SummaryTable]:
    """The whole summary but for single heads, which have a section of their own; every row of it is in one cell.

    A number is a mean over ``unit``, or over what one of the ``heads`` has rows for, where it has as many.
    """
    tables = summary.filter(~pl.col("group").str.starts_with(OF_HEAD)).group_by(
        "experiment", maintain_order=True
    )
    return [
        table_of(
            str(name),
            part,
            lambda measure, name=name: measure_label(measure, name),
            partial(group_label, unit=of),
            str(name),
            of,
        )
        for (name,), part in tables
        for of in (
            heads.unit
            if heads is not None and (part["n"] + part["undefined"]).max() == heads.positions
            else unit,
        )
    ]


def table_of(
    title: str, summary: pl.DataFrame, label: Callable[[str], str], group: Callable[[str], str], of: str, unit: str = INSTANCE
) -> SummaryTable:  # fmt: skip
    """A row for each measure, named by ``label``, a column for each group, named by ``group``, of the experiment or study ``of``.

    ``unit`` is what the numbers are means over.
    """
    groups, measures = (
        summary[name].unique(maintain_order=True).to_list() for name in ("group", "measure")
    )
    cells = {
        (row["measure"], row["group"]): summary_cell(row) for row in summary.iter_rows(named=True)
    }
    rows = tuple(
        (name, label(name), tuple(cells.get((name, column)) for column in groups))
        for name in measures
    )
    return SummaryTable(
        title,
        tuple(map(group, groups)),
        rows,
        meanings(of, {name: label(name) for name in measures}, unit),
    )


def meanings(of: str, labels: Mapping[str, str], unit: str = INSTANCE) -> dict[str, str]:
    """What the measures with these ``labels``, by name, mean; without those that have no description."""
    return {
        label: meaning
        for name, label in labels.items()
        if (meaning := measure_meaning(name, of, unit))
    }


def group_label(group: str, unit: str = INSTANCE) -> str:
    """``all instances``, or ``predicted positive``."""
    return (
        f"predicted {group.removeprefix(_GROUP)}"
        if group.startswith(_GROUP)
        else f"all {unit}s"
        if group == "all"
        else group
    )


def summary_cell(row: Mapping[str, Any]) -> SummaryCell:
    """One row of a summary."""
    known = [f"s.d. {figure(row['std'], 3)}" if row["std"] is not None else "", f"n {counted(row)}"]
    known.append(f"{row['undefined']} undefined" if row["undefined"] else "")
    compared = (
        f"{row['source'] or 'reference'} {figure(row['reference'], 3)}"
        if row["reference"] is not None
        else ""
    )
    return SummaryCell(
        figure(row["value"], 3), interval(row, 3), ", ".join(filter(None, [*known, compared]))
    )
