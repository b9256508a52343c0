"""The comparison with published numbers as people read it, on a terminal and in the page."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

from attnaudit.core.errors import InputError
from attnaudit.core.numbers import count
from attnaudit.core.printable import as_markup, printable
from attnaudit.experiments import measure_label
from attnaudit.published import compare as published
from attnaudit.published.reference import published_corpus
from attnaudit.report.page import Section
from attnaudit.report.sections.numbers import group_label
from attnaudit.report.words import figure, interval
from attnaudit.results.record import RunRecord

VECTORS_DIFFER = (
    "Their models began with word vectors trained on much other text (fastText; on clinical notes, on those): a run that began with "
    "others, see vectors in its settings, is another model and may lie farther off."
)
_STYLES = {"cell": "green", "corpus": "yellow", "ours": "yellow", "farther": "red"}
_MEDIAN = {"median_delta_y": "median Δŷ", "emax_jsd": "ε-max JSD"}


def comparison_section(record: RunRecord) -> Section | None:
    """The comparison of a run; None where its corpus is not one of the paper's, and of a transformer, which the paper has none of."""
    if published_corpus(record.about.corpus) is None or "gate" in record.about.metadata:
        return None
    try:
        frame = published.compare([record])
    except InputError as error:
        content: dict[str, Any] = {"reason": str(error)}
    else:
        medians = frame["statistic"] == "median"
        parts = (
            ("Means, spreads and shares", frame.filter(~medians)),
            ("Medians by largest attention weight", frame.filter(medians)),
        )
        content = {
            "sentence": comparison_sentence(frame), "notes": _notes(frame), "vectors_differ": VECTORS_DIFFER,
            "parts": [(title, [_row(row) for row in part.iter_rows(named=True)]) for title, part in parts if part.height],
        }  # fmt: skip
    return Section("comparison", content, (("Published numbers", "#comparison"),))


def _notes(frame: pl.DataFrame) -> list[str]:
    return frame.filter(pl.col("note") != "")["note"].unique(maintain_order=True).to_list()


def comparison_sentence(frame: pl.DataFrame) -> str:
    """How many numbers keep to the authors' spread, in words that claim no more; what is counted adds up."""
    numbers = published.agreement_counts(frame)
    once = numbers.pop(published.PUBLISHED_ONCE, 0)
    numbers.pop(published.NOT_MEASURED, None)
    alone = (
        f"{count(once, 'further number')} {'was' if once == 1 else 'were'} published only once, so no spread is known: shown, not counted."
        if once
        else ""
    )
    if not numbers:
        return alone or "None of the published numbers was measured in this run."
    cell, corpus, near, above, far = (
        numbers.get(name, 0)
        for name in (
            published.WITHIN_CELL,
            published.WITHIN_CORPUS,
            published.WITHIN_OURS,
            published.ABOVE_SEARCH,
            published.FARTHER,
        )
    )
    between = published.between_theirs(frame)
    ours = f"; for {near} more a published value lies within our interval" if near else ""
    exact = f"; {above} more exceed what their search found" if above else ""
    farther = f"; {far} {'lies' if far == 1 else 'lie'} farther off" if far else ""
    counted = (
        f"Of {count(sum(numbers.values()), 'number')} published from two runs of the authors, {between} of ours lie between their two "
        f"values and {cell - between} more outside them by no more than their difference; {corpus} more by no more than their largest "
        "difference for this kind of number on this corpus"
        f"{ours}{exact}{farther}."
    )
    most = published.spread_on_corpus(str(frame["corpus"][0]), "tau_gradient", "mean", None)
    yardstick = (
        ""
        if most is None
        else f"On this corpus the authors' two runs differ by as much as {figure(most)} in mean τ."
    )
    return " ".join(filter(None, (counted, alone, yardstick)))


def print_comparison(frame: pl.DataFrame, console: Console | None = None) -> None:
    """Print the frame of `compare`, a table for each run, without the standard deviations."""
    console = console or Console()
    for (run,), part in frame.group_by("run", maintain_order=True):
        first = part.row(0, named=True)
        title = f"{run}: {first['encoder']} + {first['attention']} on {first['corpus']}, compared with Jain & Wallace 2019"
        table = Table(title=as_markup(title), title_justify="left")
        for column in (
            "measure",
            "group",
            "paper",
            "re-run",
            "ours",
            "95 % interval",
            "spread",
            "ours lies",
        ):
            table.add_column(
                column, justify="left" if column in ("measure", "group", "ours lies") else "right"
            )
        for entry in part.filter(pl.col("statistic") != "std").iter_rows(named=True):
            *texts, agreement, degree = _row(entry)
            style = _STYLES.get(degree, "dim")
            table.add_row(*map(as_markup, texts), f"[{style}]{as_markup(agreement)}[/]")
        console.print(table)
        for note in _notes(part):
            console.print(f"note: {printable(note)}", markup=False, highlight=False)
        console.print(comparison_sentence(part), markup=False, highlight=False)
    console.print(VECTORS_DIFFER, markup=False, highlight=False)


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    """Measure, group, paper, re-run, ours, its interval, spread, agreement and its degree (`DEGREES`, or ``unknown``)."""
    places = 3 if row["measure"] in _MEDIAN else 2
    name = measure_label(row["measure"]) + (
        ", standard deviation" if row["statistic"] == "std" else ""
    )
    name = f"median of {_MEDIAN[row['measure']]}" if row["statistic"] == "median" else name
    group = group_label(row["group"]) + (
        f", max α in {row['max_alpha']}" if row["max_alpha"] else ""
    )
    known = (row[source] for source in ("paper", "rerun", "ours", "spread"))
    paper, rerun, ours, spread = (
        "–" if value is None else figure(value, places) for value in known
    )
    agreement = row["agreement"]
    return (
        name,
        group,
        paper,
        rerun,
        ours,
        interval(row, places),
        spread,
        agreement,
        published.DEGREES.get(agreement, "unknown"),
    )
