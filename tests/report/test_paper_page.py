"""The page of a paper: every number from its records, every reason told, and counts that add up."""

import re
from collections import ChainMap, Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from attnaudit.core import RunError
from attnaudit.papers import PAPERS, Cell
from attnaudit.papers.comparison import AGREEMENTS, SCHEMA
from attnaudit.papers.published import published
from attnaudit.recipes.reproduction.records import records_of
from attnaudit.report.paper_page import Reproduction, write_paper
from attnaudit.results import summary_row
from tests.papers.markdown import markdown_of
from tests.report.test_page import Page

EVIL = "</td><script>alert(1)</script>"
JAIN = PAPERS["jain2019"]
CLASSES = {"sst": ("negative", "positive"), "snli": ("contradiction", "entailment", "neutral")}
MODELS = ("bilstm additive", "bilstm dot", "average additive", "average dot")
SST = "sst-bilstm-additive"
DOCS = Path(__file__).parents[2] / "docs"


def _record(corpus="sst", model=MODELS[0], shift=0.0):
    """Make a record whose means are the authors' re-run's plus ``shift``."""
    numbers = published("jain2019").filter(corpus=corpus, model=model)
    stds = {
        (row["measure"], row["group"]): row["rerun"]
        for row in numbers.filter(statistic="std").to_dicts()
    }
    rows = []
    for row in numbers.filter(pl.col("statistic") != "std").to_dicts():
        theirs = row["paper"] if row["rerun"] is None else row["rerun"]
        value, own = theirs + shift, (row["measure"], row["group"])
        group = row["group"] + (f" max_alpha:{row['max_alpha']}" if row["max_alpha"] else "")
        ends = (value - 0.01, value + 0.01)
        made = summary_row("x", row["measure"], value, *ends, n=100, group=group, std=stds.get(own))
        rows.append(made)
    rows.append(summary_row("adversary", "certified", 0.97, 0.96, 0.98, n=100))
    names = list(CLASSES.get(corpus, ()))
    more = {"class_names": names, "notes": [], "seeds": [0]}
    return {"command": "attnaudit run", "commit": "0123abcde", "summary": rows, **more}


def _found(records=None, **changed):
    return Reproduction(JAIN, {SST: _record()} if records is None else records, **changed)


def _records(*corpora, models=MODELS, shift=0.0):
    """Records by their keys."""
    return {
        f"{corpus}-{model.replace(' ', '-')}": _record(corpus, model, shift)
        for corpus in corpora
        for model in models
    }


@pytest.mark.slow
def test_every_measured_number_is_shown():
    record, columns = _record(), {c for table in JAIN.tables for c in table.columns}
    before, missing = markdown_of(_found({SST: record})), []
    for k, row in enumerate(record["summary"]):
        bin_ = row["group"].partition(" max_alpha:")[2]
        column = f"{row['measure']}@{bin_}" if bin_ else row["measure"]
        for name in ("value", "low") if column in columns else ():
            other = [*record["summary"]]
            other[k] = row | {name: row[name] + 0.2345}
            if markdown_of(_found({SST: record | {"summary": other}})) == before:
                missing.append((name, row["measure"], row["group"]))
    assert missing == []


def test_a_row_has_ours_its_interval_both_published_values_and_a_mark():
    found = _found()
    text = markdown_of(found)
    theirs = published("jain2019").filter(
        corpus="sst", model=MODELS[0], measure="tau_gradient", statistic="mean", group="predicted:negative"
    ).row(0, named=True)  # fmt: skip
    paper, ours = theirs["paper"], theirs["rerun"]
    interval = f"\\[{ours - 0.01:.3f}, {ours + 0.01:.3f}\\]"
    assert f"| ● {ours:.3f} {interval} ({paper:.3g}; {ours:.3g}) |" in text
    assert "| sst | bilstm additive | predicted negative | " in text


def test_the_counts_of_a_page_add_up():
    shifts = zip(MODELS, (0.0, 0.03, -0.05, -0.9), strict=True)
    records = [_records("sst", models=(model,), shift=shift) for model, shift in shifts]
    found = _found(dict(ChainMap(*records)))
    text, numbers = markdown_of(found), found.all_numbers()
    measured = numbers.filter(pl.col("ours").is_not_null())
    assert f"4 of {len(JAIN.cells)} cells are recorded." in text
    assert f"Published numbers that are measured here: {measured.height}. Means" in text
    sentence = re.search(r"Means (.*?);", text)
    assert sentence is not None
    counts = dict(measured.filter(statistic="mean")["agreement"].value_counts().iter_rows())
    shown = {mark: int(number) for mark, number in re.findall(r"(\S) (\d+)", sentence[1])}
    assert shown == {AGREEMENTS[name][0]: count for name, count in counts.items()}
    assert {"●", "○"} <= shown.keys()
    lines = text.splitlines()
    table = lines[lines.index("### Prediction score") :]
    in_rows = re.findall(r"\| ([●◕◒◉◐△○]) ", "\n".join(table[4 : table.index("", 4)]))
    on_top = {mark: int(number) for mark, number in re.findall(r"(\S) (\d+)", table[2])}
    assert on_top == Counter(in_rows)


def test_every_number_that_is_farther_off_has_a_reason_or_is_listed_without_one():
    lines = markdown_of(_found({SST: _record(shift=-0.9)})).splitlines()
    marked = sum(line.count("| ○ ") for line in lines if line.startswith("| sst"))
    listed = sum(line.count("○ sst, ") for line in lines if line.startswith("- "))
    assert marked == listed > 20


def test_a_corpus_with_other_classes_is_not_compared():
    found = _found({SST: _record() | {"class_names": ["a", "b", "c"]}})
    assert found.all_numbers()["ours"].null_count() == found.all_numbers().height
    assert "- sst has 3 classes here, another number than in the paper" in markdown_of(found)


def test_a_page_is_balanced_and_fetches_nothing_and_its_table_comes_back_as_it_was(tmp_path):
    records = _records("sst", "babi1", "snli", shift=0.013)
    found = _found(records, pages={key: {0: f"runs/{key}-s0/report.html"} for key in records})
    text = write_paper(found, tmp_path).read_text()
    page = Page(text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert {link for link in page.links if link.startswith("#")} <= {f"#{one}" for one in page.ids}
    assert "url(http" not in text
    assert all(not link.startswith(("http", "//")) for link in page.links)
    assert text.count("<caption") == page.tags.count("table")
    assert "runs/sst-bilstm-dot-s0/report.html" in page.links
    assert "<svg" in text
    read = pl.read_csv(tmp_path / "reproduction.csv", schema=SCHEMA)
    texts = pl.col("note", "study").fill_null("")
    assert_frame_equal(read.with_columns(texts), found.all_numbers(), check_exact=True)


def test_reasons_notes_and_names_are_shown_and_stay_text(tmp_path):
    record = _record() | {"notes": [f"vectors differ {EVIL}"], "command": EVIL, "commit": EVIL}
    failed = {"snli-bilstm-additive": f"data not here: {EVIL}", "imdb-cnn-dot": "interrupted"}
    found = _found({SST: record}, failed=failed, notes=[f"note {EVIL}"])
    page = Page(write_paper(found, tmp_path).read_text())
    assert not any("alert" in part for script in page.scripts for part in script)
    assert page.open == []
    for told in (*map(": ".join, failed.items()), f"sst: vectors differ {EVIL}", f"note {EVIL}"):
        assert told in page.text


def test_nothing_run_gives_a_page_that_says_so(tmp_path):
    found = _found({}, failed={SST: "data not here: sst/train.txt"})
    page = Page(write_paper(found, tmp_path).read_text())
    assert f"0 of {len(JAIN.cells)} cells are recorded." in page.text
    assert "data not here: sst/train.txt" in page.text
    assert "not run yet: attnaudit reproduce jain2019" in page.text
    assert JAIN.missing["adr"] in page.text


def test_a_cell_of_which_the_paper_has_no_numbers_is_on_the_page():
    lines = markdown_of(_found({"sst-bilstm-log_odds": _record()})).splitlines()
    (line,) = (line for line in lines if "| sst | bilstm log\\_odds | 0." in line)
    assert "(" not in line


def test_a_record_of_quick_is_shown_where_there_is_no_other():
    cell = Cell("sst", study="uniform")
    paper = replace(PAPERS["wiegreffe2019"], cells=(cell,), quick=(replace(cell, quick=True),))
    summary = [summary_row("uniform", "f1_base", 0.83, 0.8, 0.85, n=9)]
    record = {"command": "attnaudit study", "commit": "0123abcde", "summary": summary}
    quick = markdown_of(Reproduction(paper, {"sst-uniform-quick": record}))
    assert "0 of 1 cells are recorded, and 1 cell of --quick." in quick
    assert "| sst (--quick) | ◉ 0.830" in quick
    both = {"sst-uniform-quick": record, "sst-uniform": record}
    assert "--quick)" not in markdown_of(Reproduction(paper, both))


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="file"):
        write_paper(_found({}), tmp_path / "file/out")


def test_the_text_of_the_documentation_says_what_its_tables_say():
    """The means of docs/research/jain2019.md: how many there are, and how many agree."""
    found = Reproduction(
        JAIN, records_of(JAIN, DOCS / "research/records" / JAIN.name)
    ).all_numbers()
    means = found.filter(pl.col("ours").is_not_null(), statistic="mean")["agreement"]
    text = " ".join((DOCS / "research/jain2019.md").read_text().split())
    assert f"Of the {len(means)} means that are measured below" in text
    words = {"between": "lie between", "spread": "more are within", "farther": "are farther off"}
    for name, told in words.items():
        number = (means == name).sum()
        share = f"{number / len(means):.0%}".replace("%", " %")
        assert f"{number} ({share}) {told}" in text
