"""The comparison with published numbers as people read it, on a terminal and in the page."""

from typing import Any

import polars as pl
from rich.console import Console

from attnaudit.core import InputError
from attnaudit.core.escapes import printable
from attnaudit.experiments import measure_label
from attnaudit.papers.comparison import AGREEMENTS, compare_runs, legend_of, tally
from attnaudit.papers.published import published_corpus
from attnaudit.report.page import Section
from attnaudit.report.sections.numbers import group_label
from attnaudit.report.terminal import print_table
from attnaudit.report.words import figure, interval
from attnaudit.results import Row, RunRecord

PAPER = "jain2019"
VECTORS_DIFFER = (
    "Their models began with word vectors trained on much other text (fastText; on clinical notes, "
    "on those): a run that began with others, see vectors in its settings, is another model and "
    "may lie farther off."
)
_PLACES = {"median_delta_y": 3, "emax_jsd": 3}
# Titles with the class of the columns.
_COLUMNS = (
    *(("Measure", ""), ("Texts", ""), ("Paper", "num"), ("Re-run", "num"), ("This run", "num")),
    *(("95 % interval", "num"), ("Spread", "num"), ("Agrees", "")),
)


def comparison_section(record: RunRecord) -> Section | None:
    """Compare a run; None if the paper has not its corpus, or if it is a transformer."""
    about = record.about
    if published_corpus(PAPER, about.corpus) is None or "gate" in about.metadata:
        return None
    content: dict[str, Any] = {"reason": ""}
    try:
        frame = compare_runs([record])
    except InputError as error:
        content["reason"] = str(error)
    else:
        medians = pl.col("statistic") == "median"
        parts = {
            "Means, spreads and shares": frame.filter(~medians),
            "Medians by largest attention weight": frame.filter(medians),
        }
        content |= {
            "sentence": comparison_sentence(frame),
            "legend": legend_of(frame["agreement"]),
            "notes": _notes(frame),
            "vectors_differ": VECTORS_DIFFER,
            "columns": _COLUMNS,
            "parts": [
                (title, list(map(_texts, part.to_dicts())))
                for title, part in parts.items()
                if part.height
            ],
        }
    return Section("comparison", content, "Published numbers")


def _notes(frame: pl.DataFrame) -> list[str]:
    return frame.filter(pl.col("note") != "")["note"].unique(maintain_order=True).to_list()


def comparison_sentence(frame: pl.DataFrame) -> str:
    """Say how many of the published numbers were measured, and how they agree."""
    measured = frame.filter(pl.col("ours").is_not_null())["agreement"]
    if not len(measured):
        return "None of the published numbers was measured in this run."
    return f"Published numbers that were measured in this run: {len(measured)}. {tally(measured)}."


def print_comparison(frame: pl.DataFrame, console: Console | None = None) -> None:
    """Print the frame of `compare_runs`, a table for each run, without standard deviations."""
    console = console or Console()
    for (run,), part in frame.group_by("run", maintain_order=True):
        model, corpus = part.select("model", "corpus").row(0)
        title = f"{run}: {model} on {corpus}, compared with Jain & Wallace 2019"
        rows = part.filter(pl.col("statistic") != "std").to_dicts()
        columns = [(name.lower(), kind) for name, kind in _COLUMNS]
        print_table(console, title, columns, map(_texts, rows))
        for line in (*(f"note: {note}" for note in _notes(part)), comparison_sentence(part)):
            console.print(printable(line), markup=False, highlight=False)
    for line in (legend_of(frame["agreement"]), VECTORS_DIFFER):
        console.print(line, markup=False, highlight=False)


def _texts(row: Row) -> tuple[str, ...]:
    """Return what the `_COLUMNS` show of a row."""
    places, name = _PLACES.get(row["measure"], 2), measure_label(row["measure"])
    if row["statistic"] in ("std", "median"):
        name += {"std": ", standard deviation", "median": ", median"}[row["statistic"]]
    group = group_label(row["group"])
    if row["max_alpha"]:
        group += f", max α in {row['max_alpha']}"
    paper, rerun, ours, spread = (
        "–" if row[source] is None else figure(row[source], places)
        for source in ("paper", "rerun", "ours", "spread")
    )
    mark = AGREEMENTS[row["agreement"]][0]
    return name, group, paper, rerun, ours, interval(row, places), spread, mark
