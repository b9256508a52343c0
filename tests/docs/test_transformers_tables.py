"""Every cell of the tables in docs/research/transformers.md is a number of a record."""

import numpy as np
import pytest

from docs import transformers_tables

BLOCKS = ("audits", "heads", "scores", "planted", "uniform", "pronoun")


@pytest.fixture
def script(tmp_path, monkeypatch):
    """docs/transformers_tables.py with a page and a folder of records of the test's own."""
    page = "Written text.\n\n" + "\n\n".join(
        f"<!-- {name} -->\nold\n<!-- end of {name} -->" for name in BLOCKS
    )
    (tmp_path / "transformers.md").write_text(page)
    monkeypatch.setattr(transformers_tables, "PAGE", tmp_path / "transformers.md")
    monkeypatch.setattr(transformers_tables, "RECORDS", tmp_path / "records/transformers")
    return transformers_tables


def written(module):
    for name, parts in module.blocks():
        module.write_block(module.PAGE, parts, name)
    return module.PAGE.read_text()


def test_blocks_without_a_record_stay_as_they_are(script):
    before = script.PAGE.read_text()
    assert written(script) == before


def test_the_page_and_the_csv_files_show_the_records(script, tmp_path, monkeypatch):
    monkeypatch.undo()
    page = script.PAGE.read_text()
    monkeypatch.setattr(script, "PAGE", tmp_path / "page.md")
    script.PAGE.write_text(page)
    assert written(script) == page, "run `python docs/transformers_tables.py --done`"
    for file, text in script.csv_files():
        assert file.read_text() == text, file


def test_scores_are_ordered_and_compared_with_the_first(script):
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
