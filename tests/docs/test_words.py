"""The documentation stays short, and what counts as its words."""

import json
import re

from docs import words


def test_words_are_those_of_pages_notebooks_and_prose_of_scripts(tmp_path):
    research = tmp_path / "docs/research"
    research.mkdir(parents=True)
    cells = [{"cell_type": "markdown", "source": ["# One\n", "two"]}, {"source": ["x = 3"]}]
    (tmp_path / "README.md").write_text("# Two words")
    (tmp_path / "docs/cli.md").write_text("Generated: not counted.")
    (tmp_path / "docs/a.ipynb").write_text(json.dumps({"cells": cells}))
    script = '"""Write it."""\nN = "not prose"  # for a reason\n'
    (tmp_path / "docs/a.py").write_text(script)
    (research / "log.md").write_text("Tried and dropped.")
    assert words.counts(tmp_path) == {
        "for readers": {"README.md": 3, "docs/a.ipynb": 6, "docs/a.py": 5},
        "research": {"docs/research/log.md": 3},
    }


def test_the_documentation_is_within_its_limits():
    totals = {part: sum(files.values()) for part, files in words.counts().items()}
    assert [part for part, total in totals.items() if total > words.LIMITS[part]] == []


def test_an_entry_of_the_log_has_at_most_120_words():
    log = (words.ROOT / "docs/research/log.md").read_text()
    entries = [part.partition("\n## ")[0] for part in re.split(r"^### ", log, flags=re.M)[1:]]
    assert len(entries) > 50
    assert [entry.splitlines()[0] for entry in entries if len(entry.split()) > 120] == []
