"""The tables of docs/studies.md: rows of recorded studies, and of those that the page had before."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from attnaudit.results import summary_row

DOCS = Path(__file__).parents[1] / "docs"
PAGE = """Written text.

<!-- tables -->

### uniform

| corpus | F1, learned attention | F1, uniform attention |
| --- | --- | --- |
| sst | 0.811 | 0.812 |
| imdb | 0.821 | 0.822 |

<!-- end of tables -->
"""
COLUMNS = {"f1_base": "F1, learned attention", "f1_uniform": "F1, uniform attention"}
COMMIT = "0123abcde"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/studies_tables.py with a page and a folder of records of the test's own."""
    monkeypatch.syspath_prepend(DOCS)
    module = importlib.import_module("studies_tables")
    (tmp_path / "studies.md").write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(module, "PAGE", tmp_path / "studies.md")
    monkeypatch.setattr(module, "RECORDS", tmp_path / "records")
    monkeypatch.setattr("records.commit", lambda: COMMIT)
    return module


def record(module: ModuleType, corpus: str, value: float) -> None:
    summary = [summary_row("uniform", name, value, n=9) for name in COLUMNS]
    module.save(module.RECORDS / corpus / "uniform.json", module.command_of("uniform", corpus), summary)


def table(module: ModuleType) -> list[str]:
    made = module.of_corpora("uniform", ["sst", "ag_news", "imdb"], COLUMNS)
    module.write_tables(module.PAGE, [("### uniform", made)])
    return [line for line in module.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")][2:]


def test_rows_without_a_record_stay_and_others_take_its_place(script: ModuleType) -> None:
    assert table(script) == ["| sst | 0.811 | 0.812 | – |", "| imdb | 0.821 | 0.822 | – |"]
    record(script, "imdb", 0.5)
    assert table(script) == ["| sst | 0.811 | 0.812 | – |", f"| imdb | 0.500 | 0.500 | {COMMIT} |"]
    record(script, "ag_news", 0.25)
    assert table(script)[1:] == [f"| ag_news | 0.250 | 0.250 | {COMMIT} |", f"| imdb | 0.500 | 0.500 | {COMMIT} |"]


def test_a_record_keeps_its_commit_while_nothing_in_it_changes(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    record(script, "sst", 0.5)
    monkeypatch.setattr("records.commit", lambda: "fedcba987")
    record(script, "sst", 0.5)
    assert script.load(script.RECORDS / "sst" / "uniform.json")["commit"] == COMMIT
    record(script, "sst", 0.75)
    assert script.load(script.RECORDS / "sst" / "uniform.json")["commit"] == "fedcba987"


@pytest.mark.parametrize("corpus", ["sst", "imdb", "deceptive_pronoun", "planted-copy"])
def test_a_recorded_command_names_every_setting(script: ModuleType, corpus: str) -> None:
    (name, *_) = script.studies_of(corpus)
    command = script.command_of(name, corpus)
    assert command.startswith(f"attnaudit study {name} {corpus} --full")
    own = script.PAIRS.get(corpus) or script.CORPORA[corpus]
    assert all(f"--set {key}=" in command for key in own if key.partition(".")[0] in ("corpus", "training", name))
