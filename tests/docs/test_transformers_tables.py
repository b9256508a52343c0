"""Every cell of the tables in docs/research/transformers.md is a number of a record."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from attnaudit.results import summary_row

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = ("audits", "heads", "scores", "planted", "uniform", "pronoun")
COMMIT = "0123abcde"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/transformers_tables.py with a page and a folder of records of the test's own."""
    monkeypatch.syspath_prepend(DOCS)
    module = importlib.import_module("transformers_tables")
    page = "Written text.\n\n" + "\n\n".join(
        f"<!-- {name} -->\nold\n<!-- end of {name} -->" for name in BLOCKS
    )
    (tmp_path / "transformers.md").write_text(page, encoding="utf-8")
    monkeypatch.setattr(module, "PAGE", tmp_path / "transformers.md")
    monkeypatch.setattr(module, "RECORDS", tmp_path / "records" / "transformers")
    monkeypatch.setattr("attnaudit.recipes.reproduction.records.commit", lambda: COMMIT)
    return module


def written(module: ModuleType) -> str:
    for name, parts in module.blocks():
        module.write_block(module.PAGE, parts, name)
    return module.PAGE.read_text(encoding="utf-8")


def test_blocks_without_a_record_stay_as_they_are(script: ModuleType):
    before = script.PAGE.read_text(encoding="utf-8")
    assert written(script) == before


def test_audits_are_shown_by_seed_and_by_head(script: ModuleType):
    for seed in (0, 1):
        rows = [
            summary_row("permutation", "median_delta_y", 0.25 + seed, 0.2, 0.3, n=9),
            summary_row(
                "permutation", "median_delta_y", 0.125 + seed, 0.1, 0.2, n=9, group="head:3.1"
            ),
            summary_row("agreement", "tau_attention_and_rollout", 0.5 + seed, 0.4, 0.6, n=9),
            summary_row("agreement", "precision_attention_and_rollout", 0.25 + seed, 0.2, 0.3, n=9),
            summary_row("adversary", "emax_jsd_upper", 0.5, 0.25, 0.75, n=9, group="head:3.1"),
        ]
        script.save(script.RECORDS / f"sst-s{seed}.json", "attnaudit hf", rows)
    page = written(script)
    assert "| measure | seed 0 | seed 1 |" in page
    assert "| 0.250 [0.200, 0.300] | 1.250 [0.200, 0.300] |" in page
    assert "| 0 | 1 | 0.125 [0.100, 0.200] |" in page
    heads, pairs = (text.splitlines() for _, text in script.csv_files())
    assert "0,1,adversary,emax_jsd_upper,0.5000,0.2500,0.7500,9" in heads
    assert "1,tau,attention,rollout,1.5000,0.4000,0.6000,9" in pairs
    assert "1,precision,attention,rollout,1.2500,0.2000,0.3000,9" in pairs
    assert f"code of commit {COMMIT}" in page


def test_scores_that_find_the_deciding_words_are_ordered_by_their_mean(script: ModuleType):
    for seed, loo, flow in ((0, 0.5, 0.75), (1, 1.0, 0.5)):
        rows = [
            summary_row("plausibility", f"precision_{name}", value, n=9)
            for name, value in (
                ("attention", 0.25),
                ("loo", loo),
                ("rollout", flow),
                ("chance", 0.125),
            )
        ]
        script.save(
            script.RECORDS / f"planted-s{seed}.json",
            "attnaudit hf",
            [*rows, summary_row("prediction", "accuracy", 1.0, n=9)],
        )
    page = written(script)
    places = [
        page.index(f"| {name} | ")
        for name in (
            "leave-one-out",
            "attention rollout",
            "attention, last layer",
            "random order",
        )
    ]
    assert places == sorted(places)
    assert "| leave-one-out | 0.500 | 1.000 |" in page


def test_the_csv_files_hold_the_records(script: ModuleType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    for file, text in script.csv_files():
        assert file.read_text(encoding="utf-8") == text, file


def test_scores_are_ordered_and_compared_with_the_first(script: ModuleType):
    rng = np.random.default_rng(0)
    texts = rng.normal(0.3, 0.1, 200)
    seeds = [
        {
            "rollout": texts + shift,
            "attention": texts - 0.2 + shift,
            "norm": np.where(texts > 9, np.nan, texts),
        }
        for shift in (0.1, 0.2)
    ]
    seeds[1]["norm"] = np.array([np.nan, *seeds[1]["norm"][1:]])
    rows = script.agreement(seeds)
    assert [row["score"] for row in rows] == ["rollout", "norm", "attention"]
    assert rows[0]["n"] == 199  # a text that is undefined for one is left out for all
    assert rows[0]["value"] == pytest.approx(texts[1:].mean() + 0.15)
    assert rows[2]["difference"] == pytest.approx(-0.2)
    assert rows[2]["difference_low"] == pytest.approx(
        -0.2
    )  # paired: the same for every text and seed
    script.save(script.RECORDS / "scores.json", "python docs/transformers_tables.py", rows)
    assert "| attention, last layer | " in written(script)
    assert "| -0.200 [-0.200, -0.200] |" in written(script)


def test_studies_have_a_row_for_each_model(script: ModuleType):
    rows = [
        summary_row("deceive", "accuracy_small-bert_0.1", 0.5, 0.25, 0.75, n=9),
        summary_row("deceive", "found_loo_small-bert_0.1", 1.0, n=9),
        summary_row("deceive", "accuracy_small-bert_removed", 0.625, n=9), summary_row("deceive", "base_accuracy", 0.5, n=9),
    ]  # fmt: skip
    script.save(
        script.RECORDS.parent / f"{script.STUDIES['pronoun'][1]}.json",
        "attnaudit study deceive",
        rows,
    )
    rows = [
        summary_row("uniform", name, 0.5, n=9)
        for name in (
            "accuracy_base",
            "accuracy_uniform_layer3",
            "difference_accuracy_uniform_layer3",
        )
    ]
    script.save(
        script.RECORDS.parent / f"{script.STUDIES['uniform'][1]}.json",
        "attnaudit study uniform",
        rows,
    )
    page = written(script)
    assert (
        "| small-bert, λ = 0.1 | 0.500 [0.250, 0.750] | – | – | – | 1.000 | – | – | – | – | – | – |"
        in page
    )
    assert "| small-bert, tokens removed | 0.625 | –" in page
    assert "| uniform attention in layer 3 | 0.500 | – | – | 0.500 | – |" in page
    assert page.count("base_accuracy") == 0
