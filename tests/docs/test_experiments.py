"""Every experiment has a page of its own, short enough to be read at once."""

import csv
from pathlib import Path

import pytest

from attnaudit.experiments import EXPERIMENTS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "name", sorted({*EXPERIMENTS, *(page.stem for page in DOCS.glob("experiments/*.md"))})
)
def test_an_experiment_has_a_page_of_300_to_900_words_with_a_picture(name):
    page = (DOCS / "experiments" / f"{name}.md").read_text()
    assert name in EXPERIMENTS
    assert 300 <= len(page.split()) <= 900
    assert f"(../images/experiments/{name}.svg)" in page
    assert (DOCS / "images/experiments" / f"{name}.svg").exists()
    for part in ("The idea", "Definition", "How to read it", "What it needs", "Limits", "See also"):
        assert f"\n## {part}\n" in page, part


def test_the_table_of_erasure_has_the_numbers_of_the_records():
    known = {}
    for file in sorted((DOCS / "research/records/serrano2019").glob("*.csv")):
        for row in csv.reader(file.read_text().splitlines()):
            words = {word for cell in row[2:] for word in cell.split()}
            known.setdefault((row[0], row[1]), set()).update(words)
    page = (DOCS / "research/results/erasure.md").read_text()
    table = page.partition("| --- |")[2].partition("\n\n")[0].splitlines()[1:]
    assert len(table) == 20
    for corpus, model, *cells in (line.strip("| ").split(" | ") for line in table):
        assert set(cells) <= known[corpus, f"{model} additive"], (corpus, model)
