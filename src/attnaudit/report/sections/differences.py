"""Differences of runs on their shared instances, on a terminal, in a page and in a site."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from attnaudit.core.numbers import count, thousands
from attnaudit.core.printable import printable
from attnaudit.experiments import measure_label
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import Section, write_page
from attnaudit.report.sections.comparison import print_table
from attnaudit.report.sections.heatmaps import visible
from attnaudit.report.words import figure, interval, of_unit
from attnaudit.results.paired import MOST, B, PairedRuns
from attnaudit.results.summary import ROW
from attnaudit.trace import SEVERAL

TOP = 3  # tokens of largest weight that are shown
_SNIPPET = 24  # tokens of a text
SHOWN = 5e-4  # what three places show as more than 0
_CHANCE = 0.05  # of an interval to exclude 0 if there is no difference
COLUMNS = ("measure", "a", "b", "b − a", "95 % interval", "n", "undefined", "conclusion")
# Titles with the class of the columns.
_COLUMNS = [(name, "" if name in ("measure", "conclusion") else "num") for name in COLUMNS]
_MOST_COLUMNS = (
    "JSD",
    "predicted by a",
    "predicted by b",
    "most attention in a",
    "most attention in b",
    "text",
)


def print_differences(compared: Sequence[PairedRuns], console: Console) -> None:
    """Print a table of differences for each pair of runs."""
    for pair in compared:
        for note in pair.notes:
            console.print(f"note: {printable(note)}", markup=False, highlight=False)
        known = pair.differences.filter(pl.col("n") > 0).iter_rows(named=True)
        print_table(console, _title(pair), _COLUMNS, map(texts_of, known))
        console.print(f"{lead(pair)} {intervals(pair)}", markup=False, highlight=False)


def write_comparison(page: Path, compared: Sequence[PairedRuns]) -> Path:
    """Write the page of comparisons with one run and return it.

    Raises:
        RunError: If it cannot be written.
    """
    sections = [_section(pair, number) for number, pair in enumerate(compared, start=1)]
    subtitle = f"paired differences from run a: {compared[0].a}"
    return write_page(page, sections, "Runs compared", subtitle)


def lead(pair: PairedRuns) -> str:
    """Say what is shared, how far the attentions differ, and what chance alone would show."""
    counts = pair.differences.select("shared", "only_a", "only_b").row(0)
    shared, only_a, only_b = map(thousands, counts)
    rows = f"{shared} {pair.unit}s"
    if pair.unit == ROW:
        rows += f", of {count(pair.texts, 'text')},"
    judged = pair.differences["low"].count()
    text = f"Both runs have {rows} with the same text; a has {only_a} more, b has {only_b} more"
    if pair.changed:
        text += f" ({thousands(pair.changed)} of each with an id of the other and another text)"
    text += (
        f". On the shared {pair.unit}s their attentions differ by a mean JSD of "
        f"{figure(pair.instances['jsd'].to_numpy().mean(), 3)} (0: equal; ln 2 = 0.693: no token "
        "in common)."
    )
    if judged:
        text += (
            " Each interval is taken alone: if the runs did not differ, about "
            f"{max(round(_CHANCE * judged), 1)} of {judged} would exclude 0 by chance."
        )
    return text


def intervals(pair: PairedRuns) -> str:
    """Say what the intervals are of."""
    drawn = "texts" if pair.unit == ROW else f"{pair.unit}s"
    return (
        f"Intervals are 95 % bootstrap intervals over shared {drawn}: they compare these two "
        f"trained models, not models of other seeds. {of_unit('An instance', pair.unit)} where a "
        "measure is undefined in one run is excluded from both means."
    )


def most_different(pair: PairedRuns) -> list[tuple[str, ...]]:
    """Return name, JSD, predictions, heaviest tokens and text of the rows that differ most."""

    def top(tokens: list[str], alpha: Sequence[float]) -> str:
        order = np.argsort(-np.array(alpha), kind="stable")[:TOP].tolist()
        return ", ".join(f"{visible(tokens[k])} {figure(alpha[k])}" for k in order)

    def keys(row: dict[str, Any]) -> list[str]:
        return [f"{key} {row[key]}" for key in SEVERAL if row.get(key) is not None]

    rows = pair.instances.filter(pl.col("jsd") >= SHOWN).head(MOST)
    return [
        (
            " ".join([str(row["instance"]), *keys(row)]),
            figure(row["jsd"], 3),
            row["predicted"],
            row["predicted" + B],
            top(row["tokens"], row["alpha"]),
            top(row["tokens"], row["alpha" + B]),
            " ".join(map(visible, row["tokens"][:_SNIPPET]))
            + (" …" if len(row["tokens"]) > _SNIPPET else ""),
        )
        for row in rows.iter_rows(named=True)
    ]


def _section(pair: PairedRuns, number: int) -> Section:
    def explained(row: dict[str, Any]) -> tuple[str, str, tuple[str, ...]]:
        meaning = measure_meaning(row["measure"], row["experiment"])
        return row["measure"], meaning, texts_of(row)

    parts = pair.differences.group_by("experiment", maintain_order=True)
    content = {
        "number": number,
        "title": _title(pair),
        "lead": lead(pair),
        "intervals": intervals(pair),
        "notes": pair.notes,
        "tables": [
            (name, list(map(explained, part.iter_rows(named=True)))) for (name,), part in parts
        ],
        "columns": _COLUMNS,
        "most": most_different(pair),
        "most_columns": (pair.unit, *_MOST_COLUMNS),
        "unit": pair.unit,
    }
    return Section("differences", content, ((f"a and {pair.b}", f"#differences-{number}"),))


def _title(pair: PairedRuns) -> str:
    return f"a: {pair.a}, b: {pair.b}"


def texts_of(row: dict[str, Any]) -> tuple[str, ...]:
    """Return what `COLUMNS` show of a row of differences."""
    # Six places for a difference that three would show as none.
    places = 6 if 0 < abs(row["difference"] or 0) < SHOWN else 3
    a, b, difference = (
        "–" if row[name] is None else figure(row[name], digits)
        for name, digits in (("a", 3), ("b", 3), ("difference", places))
    )
    label = measure_label(row["measure"], row["experiment"])
    counts = (thousands(row["n"]), thousands(row["undefined"]))
    return (label, a, b, difference, interval(row, places) or "–", *counts, row["conclusion"])
