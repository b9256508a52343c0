"""The index of all papers: what was reproduced of each, and how it agrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnaudit.papers import Declaration
from attnaudit.published.numbers import AGREEMENTS, ONCE
from attnaudit.published.reproduction import Tally, main_means
from attnaudit.report.page import Section, write_page
from attnaudit.report.reproduction.once import Once, tally
from attnaudit.report.reproduction.page import Reproduction
from attnaudit.report.reproduction.tables import markdown_table

HEADS = ("paper", "question", "cells recorded", "published numbers")


@dataclass(frozen=True)
class Line:
    """A paper: its ``title`` with a ``link`` to its page or none, what it asks, ``recorded`` of its cells and how its numbers agree."""

    title: str
    link: str
    question: str
    recorded: str
    agreement: str
    command: str


def line_of(paper: Declaration, found: Once | Reproduction, link: str) -> Line:
    """The line of a paper."""
    cells = {cell.key for cell in paper.cells}
    if isinstance(found, Once):
        recorded, agreement = len(cells & found.records.keys()), _of_counts(tally(found))
    else:
        recorded = len(
            {(run.about.corpus, run.about.encoder, run.about.attention) for run in found.runs}
        )
        means = main_means(found.table)
        agreement = _of_means(means) if means.judged else "none measured"
    assert (paper.name in ONCE) == isinstance(found, Once)
    title = f"{paper.paper.citation}, {paper.paper.title}"
    return Line(
        title,
        link,
        paper.question,
        f"{recorded} of {len(cells)}",
        agreement,
        f"attnaudit reproduce {paper.name}",
    )


def _of_means(means: Tally) -> str:
    """How many means lie between the two values of a paper that published its numbers twice, and how many a wider rule accepts."""
    return (
        f"of {means.judged} means {means.between} lie between the authors' two values, {means.counts[0]} there or no farther outside than "
        f"these two differ; {means.counts[-2]} are farther off by every rule of the page"
    )


def _of_counts(counts: Mapping[str, int]) -> str:
    measured = sum(counts.values()) - counts.get("unknown", 0)
    if not measured:
        return "none measured"
    return f"{measured} measured: " + ", ".join(
        f"{AGREEMENTS[name][0]} {counts[name]}" for name in ("inside", "near", "farther")
    )


def index_markdown(lines: Sequence[Line]) -> str:
    """The index as a table of Markdown."""
    rows = [[line.title, line.question, line.recorded, line.agreement] for line in lines]
    table = markdown_table(HEADS, rows)
    for line in lines:
        table = (
            table.replace(f"| {line.title} |", f"| [{line.title}]({line.link}) |", 1)
            if line.link
            else table
        )
    commands = "\n".join(f"    {line.command}" for line in lines)
    return f"{table}\n\n{marks()}\n\n{commands}\n"


def marks() -> str:
    """What the marks mean."""
    return "; ".join(f"{mark} {words}" for mark, words in list(AGREEMENTS.values())[:-1]) + "."


def write_index(lines: Sequence[Line], page: Path) -> Path:
    """Write the index as a page and return it. Raises RunError."""
    content = {"lines": lines, "heads": HEADS, "marks": marks()}
    return write_page(
        page,
        [Section("reproduction_index", content)],
        "Reproductions",
        "Five papers on attention as explanation",
    )
