"""The index of all papers, from the records of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from attnaudit.papers import PAPERS, Declaration
from attnaudit.published.numbers import ONCE
from attnaudit.recipes.reproduction.records import FOLDER, records_of
from attnaudit.recipes.reproduction.sweep import PAGE, write_between
from attnaudit.recipes.reproduction.twice import recorded

if TYPE_CHECKING:
    from attnaudit.report.reproduction.index import Line

NAME = "reproduction.html"


def lines(place: Callable[[Declaration], Path], link: Callable[[Declaration], str]) -> list[Line]:
    """A line for each paper: ``place`` is the folder of its records, ``link`` the address of its page or empty."""
    from attnaudit.report.reproduction.index import line_of
    from attnaudit.report.reproduction.once import Once

    return [
        line_of(
            paper,
            Once(paper, records_of(paper, place(paper)), {}, ())
            if paper.name in ONCE
            else recorded(paper, place(paper)),
            link(paper),
        )
        for paper in PAPERS.values()
    ]


def index(out: Path, records: Path | None = None) -> list[Line]:
    """The lines of the papers below ``out``, and their page ``out/reproduction.html``; records: ``records/<paper>``, or with the runs."""
    from attnaudit.report.reproduction.index import write_index

    def place(paper: Declaration) -> Path:
        return records / paper.name if records else out / paper.name / FOLDER

    def link(paper: Declaration) -> str:
        return f"{paper.name}/{PAGE}" if (out / paper.name / PAGE).exists() else ""

    found = lines(place, link)
    write_index(found, out / NAME)
    return found


def index_into(file: Path, records: Path) -> None:
    """Write the index between the marks of ``file``, with links to the pages of the documentation."""
    from attnaudit.report.reproduction.index import index_markdown

    found = lines(lambda paper: records / paper.name, lambda paper: paper.page)
    write_between(file, "all", index_markdown(found).strip())
