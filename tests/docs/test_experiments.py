"""Every experiment has a page of its own, short enough to be read at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnaudit.experiments import EXPERIMENTS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "name", sorted({*EXPERIMENTS, *(page.stem for page in DOCS.glob("experiments/*.md"))})
)
def test_an_experiment_has_a_page_of_300_to_900_words_with_a_picture(name: str) -> None:
    page = (DOCS / "experiments" / f"{name}.md").read_text(encoding="utf-8")
    assert name in EXPERIMENTS
    assert 300 <= len(page.split()) <= 900
    assert f"(../images/experiments/{name}.svg)" in page
    assert (DOCS / "images" / "experiments" / f"{name}.svg").exists()
    for part in ("The idea", "Definition", "How to read it", "What it needs", "Limits", "See also"):
        assert f"\n## {part}\n" in page, part
