"""Write the tables of reproduced papers into the documentation, from ``docs/research/records``.

``python docs/papers_tables.py`` writes the tables of every paper between the marks
``<!-- reproduce PAPER -->`` and ``<!-- end of reproduce PAPER -->`` of its page, and the index into
``reproduction.md``. With a folder, as that of ``attnaudit reproduce --out runs/PAPER``, it first
records the finished cells of ``FOLDER/PAPER``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from attnaudit.core.files import write_text
from attnaudit.papers import PAPERS
from attnaudit.papers.comparison import AGREEMENTS, legend_of
from attnaudit.recipes.reproduction.records import records_of
from attnaudit.recipes.reproduction.sweep import Sweep, record
from attnaudit.report.paper_page import (
    Line,
    Reproduction,
    line_of,
    markdown_of,
    markdown_table,
    plain,
)

DOCS = Path(__file__).parent
_SECTION = re.compile(r"^(?:#+ (.*)|- (`[^`]+`): `attnaudit)", re.MULTILINE)


def write_tables(docs: Path = DOCS) -> None:
    """Write the tables of all papers and their index into the pages of ``docs``."""
    found = {
        name: Reproduction(paper, records_of(paper, docs / "research" / "records" / name))
        for name, paper in PAPERS.items()
    }
    for name, one in found.items():
        write_between(docs / one.paper.page, name, markdown_of(one))
    lines = [line_of(one, one.paper.page) for one in found.values()]
    write_between(docs / "reproduction.md", "all", index_markdown(lines))


def index_markdown(lines: Sequence[Line]) -> str:
    """Return the index of all papers as a table of Markdown."""
    heads = ("paper", "question", "cells recorded", "published numbers")
    rows = [[line.title, line.question, line.recorded, line.agreement] for line in lines]
    table = markdown_table(heads, rows)
    for line in lines:  # links are written after the titles, whose brackets are escaped
        title = plain(line.title)
        table = table.replace(f"| {title} |", f"| [{title}]({line.link}) |", 1)
    commands = "\n".join(f"    {line.command}" for line in lines)
    return f"{table}\n\n{legend_of(AGREEMENTS)}\n\n{commands}\n"


def write_between(file: Path, name: str, text: str) -> None:
    """Write ``text`` between the marks of a page.

    Raises:
        ValueError: If the page lacks the marks, or has a section there that the text lacks.
    """
    begin, end = f"<!-- reproduce {name} -->", f"<!-- end of reproduce {name} -->"
    before, begun, rest = file.read_text(encoding="utf-8").partition(begin)
    former, ended, after = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"{file}: no {begin} with {end} behind it")
    made = set(_sections(text))
    if lost := [section for section in _sections(former) if section not in made]:
        raise ValueError(f"{file}: sections without a record: {', '.join(lost)}")
    write_text(file, f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}")


def _sections(text: str) -> Iterator[str]:
    """Yield the headings of a page, and the cells whose commands it lists."""
    for found in _SECTION.finditer(text):
        yield found[1] or found[2]


if __name__ == "__main__":
    for folder in map(Path, sys.argv[1:]):
        for name, paper in PAPERS.items():
            if (folder / name).is_dir():
                record(
                    Sweep(
                        folder / name, (), paper=paper, records=DOCS / "research" / "records" / name
                    )
                )
    write_tables()
