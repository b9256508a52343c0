"""Two runs compared on shared instances, as people read it, on a terminal and in a page of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from attnaudit.core.numbers import count, thousands
from attnaudit.core.printable import as_markup, printable
from attnaudit.experiments import measure_label
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import Section, write_page
from attnaudit.report.sections.heatmaps import visible
from attnaudit.report.words import figure, interval, of_unit
from attnaudit.results.paired import HIGHER, LOWER, MOST, B, PairedRuns
from attnaudit.results.summary import INSTANCE, ROW
from attnaudit.trace import SEVERAL

TOP = 3  # tokens of largest weight that are shown
_SNIPPET = 24  # tokens of a text
SHOWN = 5e-4  # what three places show as more than 0
_CHANCE = 0.05  # of an interval to exclude 0 where there is no difference
_COLUMNS = ("measure", "a", "b", "b − a", "95 % interval", "n", "undefined", "conclusion")
_MOST_COLUMNS = (
    "JSD",
    "predicted by a",
    "predicted by b",
    "most attention in a",
    "most attention in b",
    "text",
)


def print_differences(compared: Sequence[PairedRuns], console: Console) -> None:
    """Print a table of differences and one of instances for each pair of runs."""
    for pair in compared:
        for note in pair.notes:
            console.print(f"note: {printable(note)}", markup=False, highlight=False)
        table = Table(title=as_markup(_title(pair)), title_justify="left")
        for column in _COLUMNS:
            table.add_column(
                column,
                justify="left" if column in ("measure", "conclusion") else "right",
                no_wrap=column != "measure",
            )
        for _, part in pair.differences.filter(pl.col("n") > 0).group_by(
            "experiment", maintain_order=True
        ):
            table.add_section()
            for row in part.iter_rows(named=True):
                shown = row["conclusion"] in (HIGHER, LOWER)
                table.add_row(*map(as_markup, _texts(row)), style=None if shown else "dim")
        console.print(table)
        if different := most_different(pair):
            most = Table(
                title=f"The {count(len(different), pair.unit)} whose attention differs most",
                title_justify="left",
            )
            for column in (pair.unit, *_MOST_COLUMNS):
                most.add_column(column, overflow="fold")
            for texts in different:
                most.add_row(*map(as_markup, texts))
            console.print(most)
        console.print(f"{lead(pair)} {_intervals(pair)}", markup=False, highlight=False)


def write_comparison(page: Path, compared: Sequence[PairedRuns]) -> Path:
    """Write the page of comparisons with one run and return it. Raises RunError."""
    sections = [_section(pair, number) for number, pair in enumerate(compared, start=1)]
    return write_page(
        page, sections, "Runs compared", f"paired differences from run a: {compared[0].a}"
    )


def lead(pair: PairedRuns) -> str:
    """What is shared, how far the attentions differ, and how many intervals may exclude 0 by chance."""
    first = pair.differences.select("shared", "only_a", "only_b").row(0)
    shared, only_a, only_b = map(thousands, first)
    rows = (
        f"{shared} {pair.unit}s"
        if pair.unit == INSTANCE
        else f"{shared} rows, of {count(pair.texts, 'text')},"
    )
    changed = (
        f" ({thousands(pair.changed)} of each with an id of the other and another text)"
        if pair.changed
        else ""
    )
    divergence = pair.instances["jsd"].mean()
    assert isinstance(divergence, float)
    judged = pair.differences["low"].count()
    by_chance = max(round(_CHANCE * judged), 1)
    alone = f" Each interval is taken alone: if the runs did not differ, about {by_chance} of {judged} would exclude 0 by chance."
    return (
        f"Both runs have {rows} with the same text; a has {only_a} more, b has {only_b} more{changed}. On the shared {pair.unit}s their "
        f"attentions differ by a mean JSD of {figure(divergence, 3)} (0: equal; ln 2 = 0.693: no token in common).{alone if judged else ''}"
    )


def _intervals(pair: PairedRuns) -> str:
    drawn = "texts" if pair.unit == ROW else f"{pair.unit}s"
    return (
        f"Intervals are 95 % bootstrap intervals over shared {drawn}: they compare these two trained models, not models of other seeds. "
        f"{of_unit('An instance', pair.unit)} where a measure is undefined in one run is excluded from both means."
    )


def most_different(pair: PairedRuns) -> list[tuple[str, ...]]:
    """The instances, or rows, whose attentions differ most: name, JSD, predicted classes, tokens of most attention, text."""
    return [
        (
            _name(row), figure(row["jsd"], 3), row["predicted"], row["predicted" + B], _top(row["tokens"], row["alpha"]),
            _top(row["tokens"], row["alpha" + B]), _snippet(row["tokens"]),
        )
        for row in pair.instances.filter(pl.col("jsd") >= SHOWN).head(MOST).iter_rows(named=True)
    ]  # fmt: skip


def _section(pair: PairedRuns, number: int) -> Section:
    parts = pair.differences.group_by("experiment", maintain_order=True)
    tables = [
        (
            str(name),
            [
                (row["measure"], measure_meaning(row["measure"], str(name)), *_texts(row))
                for row in part.iter_rows(named=True)
            ],
        )
        for (name,), part in parts
    ]
    content = {
        "number": number, "title": _title(pair), "lead": lead(pair), "intervals": _intervals(pair), "notes": pair.notes, "tables": tables,
        "columns": _COLUMNS, "most": most_different(pair), "most_columns": (pair.unit, *_MOST_COLUMNS), "unit": pair.unit,
    }  # fmt: skip
    return Section("differences", content, ((f"a and {pair.b}", f"#differences-{number}"),))


def _title(pair: PairedRuns) -> str:
    return f"a: {pair.a}, b: {pair.b}"


def _texts(row: dict[str, Any]) -> tuple[str, ...]:
    """What the `_COLUMNS` show of a row of differences."""
    places = (
        6 if 0 < abs(row["difference"] or 0) < SHOWN else 3
    )  # a difference that three places would show as none
    numbers = (
        "–" if row[name] is None else figure(row[name], at)
        for name, at in (("a", 3), ("b", 3), ("difference", places))
    )
    label = measure_label(row["measure"], row["experiment"])
    return (
        label,
        *numbers,
        interval(row, places) or "–",
        thousands(row["n"]),
        thousands(row["undefined"]),
        row["conclusion"],
    )


def _name(row: dict[str, Any]) -> str:
    return " ".join(
        [
            str(row["instance"]),
            *(f"{key} {row[key]}" for key in SEVERAL if row.get(key) is not None),
        ]
    )


def _top(tokens: list[str], alpha: Sequence[float]) -> str:
    order = np.argsort(-np.array(alpha), kind="stable")[:TOP].tolist()
    return ", ".join(f"{visible(tokens[k])} {figure(alpha[k])}" for k in order)


def _snippet(tokens: list[str]) -> str:
    return " ".join(
        [visible(token) for token in tokens[:_SNIPPET]] + ["…"] * (len(tokens) > _SNIPPET)
    )
