"""A corpus defined outside the package, as docs/extending.md shows it: registered in one call, from the list to the report."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attnaudit.corpora import CORPORA
from tests.test_cli import answers

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
TINY = ("--vectors", "random", "--epochs", "1", "--set", "model.embedding=8", "--set", "model.hidden=4", "--device", "cpu")


def example(section: str) -> list[str]:
    """The Python blocks of a section of the page."""
    text = PAGE.read_text(encoding="utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with the corpus of the page."""
    lines = (f"{'pos' if row % 2 else 'neg'}\ta {'lovely' if row % 2 else 'dull'} film about {row} horses and a train" for row in range(60))
    (tmp_path / "data" / "films").mkdir(parents=True)
    (tmp_path / "data" / "films" / "films.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "data"


def test_a_registered_corpus_goes_all_the_way_to_the_page(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CORPORA, "_entries", dict(CORPORA))
    exec("\n".join(example("A corpus")), {"__name__": "films"})
    listed = {row["name"]: row for row in json.loads(answers(capsys, "corpora", "list", "--data-dir", data, "--json"))}
    assert listed["films"]["folder"] == str(data / "films")
    assert listed["films"]["citation"] == "Doe 2024"
    check = json.loads(answers(capsys, "corpora", "check", "films", "--data-dir", data, "--json"))
    assert sum(row["rows"] for row in check["classes"]) == 60
    answers(capsys, "run", "films", "--data-dir", data, "--out", tmp_path / "run", *TINY)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "on Silent films" in page
    assert "title = {Reviews of Silent Films}" in page


def test_a_corpus_of_another_package_is_known_to_the_command_line(data: Path, tmp_path: Path) -> None:
    (tmp_path / "films.py").write_text(example("A corpus")[0], encoding="utf-8")
    (tmp_path / "films-1.dist-info").mkdir()
    (tmp_path / "films-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: films\nVersion: 1\n")
    (tmp_path / "films-1.dist-info" / "entry_points.txt").write_text("[attnaudit.corpora]\nfilms = films:FILMS\n")
    for command, said in (("list", "Doe 2024"), ("check", "negative")):
        arguments = ["corpora", command, *(["films"] if command == "check" else []), "--data-dir", str(data)]
        done = subprocess.run(
            [sys.executable, "-m", "attnaudit", *arguments], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert said in done.stdout


def test_an_entry_is_checked_and_its_name_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from attnaudit import InputError, register_corpus

    monkeypatch.setattr(CORPORA, "_entries", dict(CORPORA))
    namespace: dict[str, Any] = {}
    exec(example("A corpus")[0].replace('"films"', '"sst"'), namespace)
    films: Any = namespace["FILMS"]
    with pytest.raises(InputError, match="register corpus: sst: a name that is taken"):
        register_corpus(films)
    with pytest.raises(InputError, match="a str; expected a CorpusEntry"):
        CORPORA.check("films")  # as an entry point of another package may be
    for entry, reason in (
        (replace(films, name="films", sources=None), "no source of instances"),
        (replace(films, name="films", task="translation"), "sources for the task translation"),
    ):
        with pytest.raises(InputError, match=reason):
            register_corpus(entry)
