"""Write the results of reproduced papers into the documentation, from ``docs/research/records``.

``python docs/papers_tables.py`` writes every table of a paper as csv beside its records. Between
``<!-- reproduce PAPER -->`` and ``<!-- end of reproduce PAPER -->`` of the paper's page it writes
what was measured, how well it agrees, and the small tables. The index goes to ``reproduction.md``.
With a folder, such as the parent of ``attnaudit reproduce --out runs/PAPER``, it first records the
finished cells of ``FOLDER/PAPER``.
"""

from __future__ import annotations

import csv
import io
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from attnaudit.core.files import write_text
from attnaudit.papers import PAPERS
from attnaudit.papers.comparison import AGREEMENTS, RULE, legend_of, tally
from attnaudit.recipes.reproduction.records import records_of
from attnaudit.recipes.reproduction.sweep import Sweep, record
from attnaudit.report.paper_page import (
    Filled,
    Reproduction,
    content_of,
)

DOCS = Path(__file__).parent
RECORDS = Path("research", "records")
SHOWN = 50  # a table of at most this many cells stands on the page
GREEK = str.maketrans({"τ": "tau", "ε": "epsilon", "Δ": "delta-", "α": "alpha"})


def write_tables(docs: Path = DOCS) -> None:
    """Write the tables of all papers and their index into ``docs``."""
    found = {
        name: Reproduction(paper, records_of(paper, docs / RECORDS / name))
        for name, paper in PAPERS.items()
    }
    for name, one in found.items():
        write_between(docs / one.paper.page, name, write_results(one, docs))
    write_between(docs / "reproduction.md", "all", index_markdown(found.values()))


def write_results(found: Reproduction, docs: Path) -> str:
    """Write the tables of a paper as csv and return the part of its page."""
    folder, content = docs / RECORDS / found.paper.name, content_of(found)
    place = (docs / found.paper.page).parent
    link, marks = (os.path.relpath(to, place) for to in (folder, docs / "reproduction.md"))
    far = [
        [table.title, numbers.replace("○ ", ""), reason]
        for table in content["tables"]
        for numbers, reason in table.reasons
    ]
    files = {
        slug(table): [[head for head, _ in table.heads], *table.rows] for table in content["tables"]
    }
    if far:
        files["farther-off"] = [["table", "numbers", "reason"], *far]
    for name, rows in files.items():
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_text(folder / f"{name}.csv", text.getvalue())
    rows = [
        [f"[{plain(one.title)}]({link}/{slug(one)}.csv)", str(len(one.rows)), one.tally or "–"]
        for one in content["tables"]
    ]
    heads = ("table", "rows", "agreement of its numbers")
    parts = [
        *content["verdict"],
        f"[What the marks mean]({marks}).",
        "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * 3, *rows]),
    ]
    if far:
        parts.append(
            f"Every ○ has its reason, if one is known, [in a csv]({link}/farther-off.csv)."
        )
    parts += [
        f"{plain(table.title)}:\n\n{markdown_table([head for head, _ in table.heads], table.rows)}"
        for table in content["tables"]
        if len(table.heads) * len(table.rows) <= SHOWN
    ]
    if content["missing"]:
        missing = (f"- {plain(names)}: {plain(why)}" for names, why in content["missing"])
        parts.append("\n".join(["Not measured:\n", *missing]))
    parts.append(
        f"`attnaudit reproduce {found.paper.name}` makes the records, which hold the command, the "
        f"commit and the notes of every cell, in `docs/{RECORDS}/{found.paper.name}`."
    )
    return "\n\n".join(parts)


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table of Markdown; nothing without rows."""
    lines = [heads, ["---"] * len(heads), *rows] if rows else []
    return "\n".join("| " + " | ".join(map(plain, line)) + " |" for line in lines)


def plain(text: str) -> str:
    """Write text on one line, with characters of Markdown and HTML escaped."""
    return re.sub(r"([\\`*_<>\[\]|])", r"\\\1", " ".join(text.split()))


def slug(table: Filled) -> str:
    """Return the file name of a table: its title in ASCII."""
    title = re.split(r" \(|\?", table.title)[0].translate(GREEK)
    name = unicodedata.normalize("NFKD", title)
    return re.sub(r"[^a-z0-9]+", "-", name.encode("ascii", "ignore").decode().lower()).strip("-")


def index_markdown(found: Iterable[Reproduction]) -> str:
    """Return the index of all papers as a table of Markdown."""
    rows, links, commands = list[list[str]](), dict[str, str](), list[str]()
    for one in found:
        paper, cells = one.paper, {cell.key for cell in one.paper.cells}
        numbers = one.all_numbers().filter(pl.col("ours").is_not_null())["agreement"]
        title = f"{paper.paper.citation}, {paper.paper.title}"
        recorded = f"{len(cells & one.records.keys())} of {len(cells)}"
        agreement = (
            f"{len(numbers)} measured: {tally(numbers)}" if len(numbers) else "none measured"
        )
        rows.append([title, paper.question, recorded, agreement])
        links[plain(title)] = paper.page
        commands.append(f"    attnaudit reproduce {paper.name}")
    table = markdown_table(("paper", "question", "cells recorded", "published numbers"), rows)
    for title, link in links.items():  # after the titles, whose brackets are escaped
        table = table.replace(f"| {title} |", f"| [{title}]({link}) |", 1)
    return "\n\n".join([table, f"{legend_of(AGREEMENTS)} {RULE}", "\n".join(commands)])


def write_between(file: Path, name: str, text: str) -> None:
    """Write ``text`` between the marks of a page. Raises ValueError if the page lacks the marks."""
    begin, end = f"<!-- reproduce {name} -->", f"<!-- end of reproduce {name} -->"
    before, begun, rest = file.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"{file}: no {begin} with {end} behind it")
    write_text(file, f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}")


if __name__ == "__main__":
    for folder in map(Path, sys.argv[1:]):
        for name, paper in PAPERS.items():
            if (folder / name).is_dir():
                records = DOCS / RECORDS / name
                record(Sweep(folder / name, (), paper=paper, records=records))
    write_tables()
