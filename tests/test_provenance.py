"""Every table of measured numbers in the docs names the command that gave it and the commit of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.__main__ import signed

DOCS = Path(__file__).parents[1] / "docs"
COMMIT = re.compile(r"\bcommits? (up to )?[0-9a-f]{7,9}\b")
COMMAND = re.compile(
    r"`(attnaudit|python|make) |benchmarks/\w+\.py|^ +attnaudit |Command: attnaudit|\(records/[\w/-]+\.json\)", re.MULTILINE
)
MEASURED = re.compile(r"^\|.*[| ]\d", re.MULTILINE)  # a row with a number
PAGES = {
    "benchmarks.md": None, "mutants.md": None, "scale.md": None, "translation.md": ["Results"], "calibration.md": ["Results"],
    "jain2019.md": ["Log-odds attention", "20News sports", "AG News", "bAbI 1", "bAbI 2", "IMDB", "SNLI", "SST"],
    "transformers.md": [
        "Last-layer attention on SST", "Is learned attention needed?", "Which score agrees best with leave-one-out?",
        "Which score finds the words that decide?", "Hidden attention",
    ],
}  # fmt: skip
"""The sections of a page that have measured numbers; None: all with a table.

Tables that are written from records have a column of commits. The others are references: commands, settings, measures."""


def sections(page: str) -> dict[str, str]:
    """What stands below each heading, by its title."""
    parts = re.split(r"^#{1,4} (.*)$", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("page", PAGES)
def test_a_table_of_measured_numbers_names_its_commit_and_its_command(page: str) -> None:
    found = sections(page)
    asked = PAGES[page] or [title for title, text in found.items() if MEASURED.search(text)]
    assert asked
    assert [title for title in asked if not COMMIT.search(found[title])] == [], "without a commit"
    assert [title for title in asked if not COMMAND.search(f"{title}\n{found[title]}")] == [], "without a command"


def test_what_a_benchmark_prints_is_kept_with_its_command_and_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.__main__.commit", lambda: "0123abcde-changed")
    said = signed("site", "| a |")
    assert said == "| a |\n\n`python -m benchmarks --only site`, commit 0123abcde-changed."
    assert COMMIT.search(said)
    assert COMMAND.search(said)
