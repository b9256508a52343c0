"""The tables of docs/experiments/erasure.md: rows of recorded runs, and of those that the page had before."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest

from attnaudit.results import summary_row

DOCS = Path(__file__).parents[1] / "docs"
COMMIT = "0123abcde"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/erasure_study.py with a page and a folder of records of the test's own."""
    monkeypatch.syspath_prepend(DOCS)
    module = importlib.import_module("erasure_study")
    former = "| corpus | network | encoder | 0 to 0.05 | 0.05 to 0.1 | 0.1 to 0.2 | 0.2 to 0.4 | 0.4 to 1 |\n" + "| --- " * 8
    rows = [f"| imdb | {network} | bigru | 1.0 (10) | 2.0 (20) | 3.0 (30) | 4.0 (40) | – (0) |" for network in ("HAN", "FLAN")]
    (tmp_path / "erasure.md").write_text(
        f"Text.\n\n{module.BEGIN}\n\n" + "\n".join([former, *rows]) + f"\n\n{module.END}\n", encoding="utf-8"
    )
    monkeypatch.setattr(module, "PAGE", tmp_path / "erasure.md")
    monkeypatch.setattr(module, "RECORDS", tmp_path / "records")
    monkeypatch.setattr("records.commit", lambda: COMMIT)
    return module


def audited(folder: Path) -> Path:
    """The table of an audit of six instances: in two Δα lies below 0.05, in one of these ΔJS is negative."""
    (folder / "results").mkdir(parents=True)
    table = pl.DataFrame({"delta_js": [-0.5, 0.5, 0.1, -0.1, -0.2, None], "delta_alpha": [0.01, 0.02, 0.1, 0.3, 0.5, 0.6]})
    table.write_parquet(folder / "results" / "erasure.parquet")
    return folder


def record(module: ModuleType, name: str, more: dict[str, Any]) -> None:
    measures = ["delta_js", "negative_delta_js", *module.FLIPS, *(f"removed_{name}" for name in (*module.RANKINGS, "minimum"))]
    measures += [f"never_{name}" for name in (*module.RANKINGS, "minimum")] + [f"times_minimum_{name}" for name in module.RANKINGS[1:]]
    summary = [summary_row("erasure", name, k / 100, n=7) | {"low": k / 200, "high": k / 50} for k, name in enumerate(measures)] + [
        summary_row("prediction", "accuracy", 0.75, n=7)
    ]
    module.save(module.RECORDS / f"{name}.json", module.command_of(*name.split("-")), summary, delta_alpha=more)


def rows(text: str, columns: str) -> list[list[str]]:
    """The rows of the table whose header has ``columns``."""
    table = text[text.rindex("\n|", 0, text.index(columns)) + 1 :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_shares_by_band_leave_out_what_is_undefined(script: ModuleType, tmp_path: Path) -> None:
    found = script.by_delta_alpha(audited(tmp_path / "run"))
    assert found["bands"] == ["50.0 (2)", "– (0)", "0.0 (1)", "100.0 (1)", "100.0 (1)"]
    assert found["large"] == "66.7 (3)"
    assert found["median"] == pytest.approx(np.median([0.01, 0.02, 0.1, 0.3, 0.5, 0.6]))


def test_recorded_runs_take_the_place_of_former_rows(script: ModuleType, tmp_path: Path) -> None:
    assert rows(script.tables(), "0 to 0.05") == [
        ["imdb", network, "bigru", "1.0 (10)", "2.0 (20)", "3.0 (30)", "4.0 (40)", "– (0)", "–"] for network in ("HAN", "FLAN")
    ]
    more = script.by_delta_alpha(audited(tmp_path / "run"))
    record(script, "imdb-flan-bigru", more)
    record(script, "yelp-han-none", more)
    bands = rows(script.tables(), "0 to 0.05")
    assert [row[:3] for row in bands] == [["imdb", "HAN", "bigru"], ["imdb", "FLAN", "bigru"], ["yelp", "HAN", "none"]]
    assert [row[-1] for row in bands] == ["–", COMMIT, COMMIT]
    assert bands[1][3:-1] == more["bands"]
    (flan, yelp) = rows(script.tables(), "ΔJS < 0 (%)")
    assert flan[3:8] == ["0.750", "7", "0", "1.0 [0.5, 2.0]", more["large"]]
    assert yelp[0] == "yelp"


@pytest.mark.parametrize(
    ("corpus", "shown"), [("imdb", "--set corpus.test_kept=1.0"), ("amazon_category24", "attnaudit run DATA/amazon_category24 ")]
)
def test_a_recorded_command_names_what_is_not_usual(script: ModuleType, corpus: str, shown: str) -> None:
    command = script.command_of(corpus, "flan", "cnn")
    assert shown in command
    assert "--preset flan --encoder cnn" in command
