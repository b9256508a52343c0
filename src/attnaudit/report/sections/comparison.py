"""The comparison with published numbers as people read it, on a terminal and in the page."""

from __future__ import annotations

from typing import Any

import polars as pl
from markupsafe import Markup
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
    "Their models began with word vectors trained on much other text (fastText; on clinical notes, "
    "on those): a run that began with others, see vectors in its settings, is another model and may "
    "lie farther off."
)
_STYLES = {"cell": "green", "corpus": "yellow", "ours": "yellow", "farther": "red"}
_MEDIAN = {"median_delta_y": "median Δŷ", "emax_jsd": "ε-max JSD"}
_COLUMNS = ("measure", "group", "paper", "re-run", "ours", "95 % interval", "spread", "ours lies")
_TITLES = ("Measure", "Instances", "Paper", "Re-run", "This run", *_COLUMNS[5:6], "Spread")
_WORDS = (0, 1, 7)  # columns that are no numbers


def comparison_section(record: RunRecord) -> Section | None:
    """Compare a run; None if the paper has not its corpus, or if it is a transformer."""
    if published_corpus(record.about.corpus) is None or "gate" in record.about.metadata:
        return None
    content: dict[str, Any] = {"reason": ""}
    try:
        frame = published.compare([record])
    except InputError as error:
        content["reason"] = str(error)
    else:
        medians = frame["statistic"] == "median"
        parts = {
            "Means, spreads and shares": frame.filter(~medians),
            "Medians by largest attention weight": frame.filter(medians),
        }
        titles = enumerate((*_TITLES, "Agreement"))
        content |= {
            "sentence": comparison_sentence(frame),
            "notes": _notes(frame),
            "vectors_differ": VECTORS_DIFFER,
            "columns": [(title, k, "" if k in _WORDS else "num") for k, title in titles],
            "parts": [
                (title, list(map(_marked, part.iter_rows(named=True))))
                for title, part in parts.items()
                if part.height
            ],
        }
    return Section("comparison", content, (("Published numbers", "#comparison"),))


def _marked(row: dict[str, Any]) -> list[str]:
    """Return the texts of a row, with its agreement marked."""
    *texts, ours, limits, spread, agreement = _texts(row)
    degree = Markup('<span class="degree {}">{}</span>').format(_degree(row), agreement)
    return [*texts, Markup("<b>{}</b>").format(ours), limits, spread, degree]


def _notes(frame: pl.DataFrame) -> list[str]:
    return frame.filter(pl.col("note") != "")["note"].unique(maintain_order=True).to_list()


def comparison_sentence(frame: pl.DataFrame) -> str:
    """Say how many numbers keep to the authors' spread; what is counted adds up."""
    numbers = published.agreement_counts(frame)
    once = numbers.pop(published.PUBLISHED_ONCE, 0)
    numbers.pop(published.NOT_MEASURED, None)
    alone = (
        f"{count(once, 'further number')} {'was' if once == 1 else 'were'} published only once, so "
        "no spread is known: shown, not counted."
        if once
        else ""
    )
    if not numbers:
        return alone or "None of the published numbers was measured in this run."
    degrees = ("WITHIN_CELL", "WITHIN_CORPUS", "WITHIN_OURS", "ABOVE_SEARCH", "FARTHER")
    cell, corpus, near, above, far = (numbers.get(getattr(published, d), 0) for d in degrees)
    between = published.between_theirs(frame)
    ours = f"; for {near} more a published value lies within our interval" if near else ""
    exact = f"; {above} more exceed what their search found" if above else ""
    farther = f"; {far} {'lies' if far == 1 else 'lie'} farther off" if far else ""
    counted = (
        f"Of {count(sum(numbers.values()), 'number')} published from two runs of the authors, "
        f"{between} of ours lie between their two values and {cell - between} more outside them by "
        f"no more than their difference; {corpus} more by no more than their largest difference for "
        f"this kind of number on this corpus{ours}{exact}{farther}."
    )
    most = published.spread_on_corpus(str(frame["corpus"][0]), "tau_gradient", "mean", None)
    yardstick = (
        f"On this corpus the authors' two runs differ by as much as {figure(most)} in mean τ."
        if most is not None
        else ""
    )
    return " ".join(filter(None, (counted, alone, yardstick)))


def print_comparison(frame: pl.DataFrame, console: Console | None = None) -> None:
    """Print the frame of `compare`, a table for each run, without the standard deviations."""
    console = console or Console()
    for (run,), part in frame.group_by("run", maintain_order=True):
        first = part.row(0, named=True)
        model = f"{first['encoder']} + {first['attention']} on {first['corpus']}"
        title = as_markup(f"{run}: {model}, compared with Jain & Wallace 2019")
        table = Table(title=title, title_justify="left")
        for k, column in enumerate(_COLUMNS):
            table.add_column(column, justify="left" if k in _WORDS else "right")
        for entry in part.filter(pl.col("statistic") != "std").iter_rows(named=True):
            *texts, agreement = map(as_markup, _texts(entry))
            table.add_row(*texts, f"[{_STYLES.get(_degree(entry), 'dim')}]{agreement}[/]")
        console.print(table)
        for note in _notes(part):
            console.print(f"note: {printable(note)}", markup=False, highlight=False)
        console.print(comparison_sentence(part), markup=False, highlight=False)
    console.print(VECTORS_DIFFER, markup=False, highlight=False)


def _texts(row: dict[str, Any]) -> list[str]:
    """Return what the `_COLUMNS` show of a row."""
    measure, statistic = row["measure"], row["statistic"]
    places = 3 if measure in _MEDIAN else 2
    name = measure_label(measure) + (", standard deviation" if statistic == "std" else "")
    name = f"median of {_MEDIAN[measure]}" if statistic == "median" else name
    group = group_label(row["group"])
    group += f", max α in {row['max_alpha']}" if row["max_alpha"] else ""
    paper, rerun, ours, spread = (
        "–" if row[source] is None else figure(row[source], places)
        for source in ("paper", "rerun", "ours", "spread")
    )
    return [name, group, paper, rerun, ours, interval(row, places), spread, row["agreement"]]


def _degree(row: dict[str, Any]) -> str:
    return published.DEGREES.get(row["agreement"], "unknown")
