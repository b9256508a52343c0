"""The index of all papers: what was reproduced of each, and how it agrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from attnaudit.papers.comparison import AGREEMENTS, legend_of, tally
from attnaudit.report.page import Section, write_page
from attnaudit.report.paper_page import Reproduction, markdown_table, plain

HEADS = ("paper", "question", "cells recorded", "published numbers")
MARKS = legend_of(AGREEMENTS)


@dataclass(frozen=True)
class Line:
    """A paper.

    Attributes:
        title: Its title.
        link: Address of its page; empty if there is none.
        question: What it asks.
        recorded: How many of its cells are recorded.
        agreement: How its numbers agree.
        command: What reproduces it.
    """

    title: str
    link: str
    question: str
    recorded: str
    agreement: str
    command: str


def line_of(found: Reproduction, link: str) -> Line:
    """Return the line of a paper."""
    paper, cells = found.paper, {cell.key for cell in found.paper.cells}
    numbers = found.all_numbers().filter(pl.col("ours").is_not_null())["agreement"]
    return Line(
        f"{paper.paper.citation}, {paper.paper.title}",
        link,
        paper.question,
        f"{len(cells & found.records.keys())} of {len(cells)}",
        f"{len(numbers)} measured: {tally(numbers)}" if len(numbers) else "none measured",
        f"attnaudit reproduce {paper.name}",
    )


def index_markdown(lines: Sequence[Line]) -> str:
    """Return the index as a table of Markdown."""
    rows = [[line.title, line.question, line.recorded, line.agreement] for line in lines]
    table = markdown_table(HEADS, rows)
    for line in lines:
        if line.link:  # written after the titles, whose brackets are escaped
            title = plain(line.title)
            table = table.replace(f"| {title} |", f"| [{title}]({line.link}) |", 1)
    commands = "\n".join(f"    {line.command}" for line in lines)
    return f"{table}\n\n{MARKS}\n\n{commands}\n"


def write_index(lines: Sequence[Line], page: Path) -> Path:
    """Write the index as a page and return it. Raises RunError."""
    section = Section("paper_index", {"lines": lines, "heads": HEADS, "marks": MARKS})
    return write_page(page, [section], "Reproductions", "Five papers on attention as explanation")
