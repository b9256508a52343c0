"""All summary numbers: tables of measures by groups, models, steps or constructions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from attnaudit.experiments import measure_label
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import Section
from attnaudit.report.words import figure, interval
from attnaudit.results import OF_HEAD, TEXT, Heads, Row, counted
from attnaudit.results.groups import OF_CLASS

MOST_COLUMNS = 7  # that fit the width of a page
MOST_OPEN = 5  # tables; where there are more, each is closed until a reader opens it


class SummaryCell(NamedTuple):
    """One number, its interval, and in ``detail`` its spread, count and what is undefined."""

    value: str
    interval: str = ""
    detail: str = ""


class Number(NamedTuple):
    """A number and its place.

    Attributes:
        table: Title of its table.
        row: Name and label of its row.
        column: Title of its column.
        cell: The number; None shows a dash.
        meaning: One of both labels, and what it means.
    """

    table: str
    row: tuple[str, str]
    column: str
    cell: SummaryCell | None
    meaning: tuple[str, str] = ("", "")


class SummaryTable(NamedTuple):
    """A table of numbers.

    Attributes:
        title: Its title.
        columns: Titles of the columns.
        rows: Name, label and one cell for each column, None where there is no such number.
        meanings: What labels of both sides mean.
    """

    title: str
    columns: list[str]
    rows: list[tuple[str, str, list[SummaryCell | None]]]
    meanings: Mapping[str, str]


def numbers_section(numbers: Iterable[Number], lead: str, order: Sequence[str] = ()) -> Section:
    """Show all numbers.

    Args:
        numbers: The numbers.
        lead: What is averaged and what the intervals are over.
        order: Columns that come first, in this order.
    """
    numbers = list(numbers)
    is_open = len({number.table for number in numbers}) <= MOST_OPEN
    content = {"tables": list(tables_of(numbers, order)), "lead": lead, "open": is_open}
    return Section("numbers", content, "All numbers")


def tables_of(numbers: Iterable[Number], order: Sequence[str] = ()) -> Iterator[SummaryTable]:
    """Yield tables, their rows and columns in the order of the numbers, but ``order`` first.

    A table with more than `MOST_COLUMNS` columns is continued in another one.
    """
    by_table: dict[str, list[Number]] = {}
    for number in numbers:
        by_table.setdefault(number.table, []).append(number)
    for title, own in by_table.items():
        cells = {(one.row, one.column): one.cell for one in own}
        rows, every = (dict.fromkeys(places) for places in zip(*cells, strict=True))
        ordered = sorted(every, key=[*order, *every].index)
        for first in range(0, len(ordered), MOST_COLUMNS):
            columns = ordered[first : first + MOST_COLUMNS]
            yield SummaryTable(
                f"{title}, continued" if first else title,
                columns,
                [(*row, [cells.get((row, column)) for column in columns]) for row in rows],
                dict(one.meaning for one in own),
            )


def summary_numbers(
    summary: pl.DataFrame, unit: str = TEXT, heads: Heads | None = None
) -> Iterator[Number]:
    """Yield the numbers of a summary but for single heads, which have a section of their own.

    Args:
        summary: The summary.
        unit: What the numbers are means over.
        heads: The heads: what one of them has rows for is the unit of tables with as many rows.
    """
    shown = summary.filter(~pl.col("group").str.starts_with(OF_HEAD))
    for (name,), part in shown.group_by("experiment", maintain_order=True):
        of_head = heads is not None and (part["n"] + part["undefined"]).max() == heads.positions
        own = heads.unit if heads and of_head else unit
        for row in part.iter_rows(named=True):
            measure, label = row["measure"], measure_label(row["measure"], name)
            meaning = label, measure_meaning(measure, str(name), own)
            column = group_label(row["group"], own)
            yield Number(str(name), (measure, label), column, summary_cell(row), meaning)


def group_label(group: str, unit: str = TEXT) -> str:
    """Name a group: ``all instances``, or ``predicted positive``."""
    return f"all {unit}s" if group == "all" else group.replace(OF_CLASS, "predicted ", 1)


def summary_cell(row: Row) -> SummaryCell:
    """Write one row of a summary."""
    details = [f"n {counted(row)}"]
    if row["std"] is not None:
        details.insert(0, f"s.d. {figure(row['std'], 3)}")
    if row["undefined"]:
        details.append(f"{row['undefined']} undefined")
    if row["reference"] is not None:
        details.append(f"{row['source'] or 'reference'} {figure(row['reference'], 3)}")
    return SummaryCell(figure(row["value"], 3), interval(row, 3), ", ".join(details))
