"""Programs of docs/transformers.md and docs/model.md run as they stand; all classes are listed."""

import re
from pathlib import Path

import polars as pl
import pytest

from tests.hf.classes import AUDITED, REFUSED
from tests.hf.tokenizing import small, texts, tokenizer

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "transformers.md"


@pytest.mark.slow
def test_the_programs_of_the_pages_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small().save_pretrained("models/bert")
    tokenizer("wordpiece").save_pretrained("models/bert")
    rows = sorted(set(texts()))[:3]
    pl.DataFrame({"text": rows, "label": [str(k % 3) for k in range(len(rows))]}).write_csv(
        "reviews.csv"
    )
    page = "".join(path.read_text() for path in (PAGE, DOCS / "model.md"))
    for program in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(program, {})
    for run in ("bert", "mine"):
        assert "<h1>" in Path("runs", run, "report.html").read_text()
        assert Path("runs", run, "summary.json").exists()


def test_the_page_lists_the_classes_that_are_tried():
    page = (DOCS / "research/transformers.md").read_text()
    listed = page.partition("## Classes that pass")[2].partition("\n## ")[0]
    found = set()
    for ending, names in re.findall(r"- `(For\w+)`: (.*?)\.\n", listed, re.DOTALL):
        found |= {f"{name}{ending}" for name in re.split(r",\s+", names)}
    (others,) = re.findall(r"- Others: (.*?)\.\n", listed, re.DOTALL)
    assert found | set(re.findall(r"`(\w+)`", others)) == set(AUDITED)
    assert (
        f"{len(AUDITED)} classes pass with random weights and {len(REFUSED)} are refused" in listed
    )
