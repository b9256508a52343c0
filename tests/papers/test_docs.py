"""The pages of the documentation on papers: their tables are those of the records, and reasons fit."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from attnaudit.papers import PAPERS
from attnaudit.papers.published import published
from attnaudit.recipes.reproduction.records import records_of
from attnaudit.report.paper_page import Reproduction
from docs import papers_tables
from tests.papers.markdown import markdown_of

DOCS = Path(__file__).parents[2] / "docs"


def test_every_reason_is_of_a_cell():
    for paper in PAPERS.values():
        known = {name for cell in paper.every_cell for name in (cell.key, cell.corpus)}
        assert {place.partition("/")[0] for place in paper.reasons} <= known


def test_every_reason_of_the_largest_page_explains_numbers_that_are_farther_off():
    paper = PAPERS["jain2019"]
    found = Reproduction(paper, records_of(paper, DOCS / "research/records" / paper.name))
    text = markdown_of(found).replace("\\", "")
    told = [line for line in text.splitlines() if line.startswith("- ○ ")]
    for place, reason in paper.reasons.items():
        assert any(line.endswith(f": {reason}") for line in told), f"{place}: nothing needs it"
    marked = sum(line.count("| ○ ") for line in text.splitlines() if line.startswith("| "))
    assert marked == sum(line.count("○ ") for line in told) > 100


def test_numbers_that_a_reason_takes_from_the_records_of_another_paper_are_in_them():
    cited = [
        (key.partition("/")[0], reason, other)
        for paper in PAPERS.values()
        for key, reason in paper.reasons.items()
        for other in PAPERS
        if f"({other}, by experiment)" in reason
    ]
    assert cited
    for corpus, reason, other in cited:
        records = [
            json.loads(file.read_text())
            for file in (DOCS / "research/records" / other).glob(f"{corpus}*.json")
        ]
        known = {
            f"{row['value']:.3f}"
            for record in records
            for row in record["summary"]
            if row["value"] is not None
        }
        assert set(re.findall(r"0\.\d{3}\b", reason)) <= known, reason


@pytest.mark.parametrize("name", PAPERS)
def test_every_published_number_belongs_to_a_cell(name):
    cells = {(cell.corpus, cell.study, cell.model) for cell in PAPERS[name].cells}
    # The authors of the first have results of corpora that their paper does not mention.
    numbers = published(name).filter(pl.col("corpus").is_in([corpus for corpus, *_ in cells]))
    assert numbers.height
    assert set(numbers.select("corpus", "study", "model").iter_rows()) <= cells


@pytest.mark.parametrize("name", PAPERS)
def test_records_of_the_documentation_are_those_of_cells(name):
    folder = DOCS / "research/records" / name
    found = records_of(PAPERS[name], folder)
    assert {place.stem for place in folder.glob("*.json")} == found.keys()
    for key, one in found.items():
        rows = pl.DataFrame(one["summary"], infer_schema_length=None)
        assert not rows.select("experiment", "measure", "group").is_duplicated().any(), key


def test_tables_are_written_between_the_marks(tmp_path):
    page = tmp_path / "smallest.md"
    marks = "<!-- reproduce serrano2019 -->", "<!-- end of reproduce serrano2019 -->"
    page.write_text(f"Before.\n\n{marks[0]}{marks[1]}\n\nAfter.\n")
    first = "### Uniform\n\n- `sst-uniform`: `attnaudit study`\n"
    for text in (first, f"{first}\n### More\n"):
        papers_tables.write_between(page, "serrano2019", text)
        between = f"{marks[0]}\n\n{text.strip()}\n\n{marks[1]}"
        assert page.read_text() == f"Before.\n\n{between}\n\nAfter.\n"
    for spoiled in ("no marks", f"{marks[1]} after {marks[0]} text"):
        page.write_text(spoiled)
        with pytest.raises(ValueError, match=f"no {marks[0]} with"):
            papers_tables.write_between(page, "serrano2019", "### More\n")
        assert page.read_text() == spoiled


@pytest.mark.slow
def test_tables_of_the_documentation_are_those_of_its_records(tmp_path):
    shutil.copytree(DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns("*.png", "*.csv"))
    papers_tables.write_tables(tmp_path / "docs")
    kept = DOCS / "research/records"
    files = [place for name in PAPERS for place in (kept / name).glob("*.csv")]
    pages = [DOCS / page for page in ("reproduction.md", *(one.page for one in PAPERS.values()))]
    for file in (*pages, *files):
        made = (tmp_path / "docs" / file.relative_to(DOCS)).read_text()
        assert made == file.read_text(), file
    made = [
        place
        for name in PAPERS
        for place in (tmp_path / "docs/research/records" / name).glob("*.csv")
    ]
    assert len(made) == len(files)
