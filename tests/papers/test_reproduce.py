"""The sweep behind a paper's tables: what it plans, how it goes on, and what it says of what cannot be run."""

import html
import json
import re
import shutil
from dataclasses import replace

import polars as pl
import pytest

from attnaudit.cli import main
from attnaudit.core import InputError, RunError, read_json
from attnaudit.corpora import CORPORA as REGISTERED
from attnaudit.papers import PAPERS
from attnaudit.recipes.reproduction.cells import RUNS, averaged_runs
from attnaudit.recipes.reproduction.records import FOLDER, load
from attnaudit.recipes.reproduction.sweep import Sweep, reproduce
from attnaudit.report import paper_page
from tests.cli.test_cli import answers, fails
from tests.corpora.corpus_files import write_babi
from tests.pages import FEW, experiments, summaries_as_pages

JAIN = PAPERS["jain2019"]
plan = JAIN.plan
TINY = {
    "model.embedding": 8,
    "model.hidden": 4,
    "training.epochs": 1,
    "permutation.permutations": 5,
}
WORDS = {
    "0": ["dull", "flat", "slow", "weak", "plain"],
    "1": ["bright", "warm", "quick", "fine", "bold"],
}


@pytest.fixture(autouse=True, scope="module")
def _quick_pages():
    """The page of a sweep, too, has no chart, but that of the finished one."""
    with summaries_as_pages(), experiments(*FEW, "ranges"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper_page, "figures_section", lambda figures: None)
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A small corpus in the layout of `sst`; nothing else is there."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "sst").mkdir()
    for split, rows in (("train", 60), ("dev", 20), ("test", 20)):
        lines = [
            f"the film with the {WORDS[str(k % 2)][k % 5]} end number {chr(97 + k % 26)}{chr(97 + k // 26)},{k % 2}"
            for k in range(rows)
        ]
        (folder / "sst" / f"{split}.csv").write_text("text,label\n" + "\n".join(lines))
    return folder


def small_sweep(out, data, corpora=("sst",), *, attention="additive", seeds=2):
    cells = plan([f"{corpus}-average-{attention}" for corpus in corpora], seeds=seeds)
    return Sweep(out, cells, str(data), "random", TINY)


@pytest.fixture(scope="module")
def finished(_quick_pages, data, tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep")
    reproduce(small_sweep(out, data))
    return out


def test_the_whole_plan_has_every_cell_of_the_paper():
    cells = plan()
    corpora = {cell.corpus for cell in JAIN.cells}
    assert {cell.corpus for cell in cells} == corpora <= set(REGISTERED)
    assert len({cell.key for cell in cells if cell.attention != "log_odds"}) == len(corpora) * 6
    texts = {corpus for corpus in corpora if REGISTERED[corpus].task == "classification"}
    # Models that read questions refuse log-odds.
    assert {cell.corpus for cell in cells if cell.attention == "log_odds"} == texts
    assert len(set(cells)) == len(cells)
    seeds = {corpus: {cell.seed for cell in cells if cell.corpus == corpus} for corpus in corpora}
    assert (seeds["sst"], seeds["imdb"]) == ({0, 1, 2}, {0})


def test_what_is_not_here_is_told_and_the_rest_run(finished, data):
    lines = []
    outcome = reproduce(small_sweep(finished, data, ("adr", "sst")), say=lines.append)
    assert len(lines) == 1
    assert lines[0].startswith("adr is skipped: ")
    assert (outcome.done, [one.corpus for one in outcome.not_run]) == (2, ["adr"])
    assert outcome.not_run[0].reason in html.unescape(outcome.page.read_text())


@pytest.mark.slow
def test_a_sweep_that_was_stopped_goes_on(data, tmp_path, finished):
    """Interrupted in its second run, it ends with the same results."""

    def stop(what, done, total):
        if what.startswith("sst-average-additive-s1 · audit"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(small_sweep(tmp_path, data), stop)
    reproduce(small_sweep(tmp_path, data))
    for seed in (0, 1):
        one, other = (
            folder / RUNS / f"sst-average-additive-s{seed}" / "summary.json"
            for folder in (tmp_path, finished)
        )
        assert one.read_bytes() == other.read_bytes()


def test_the_command_prints_where_table_and_page_are(finished, data, capsys):
    command = command_of(data, finished, seeds=2)
    assert answers(capsys, *command).splitlines() == [
        f"table: {finished / 'reproduction.csv'}",
        f"report: {finished / 'index.html'}",
    ]
    page = (finished / "index.html").read_text()
    assert "runs/sst-average-additive-s1/report.html" in page
    told = json.loads(answers(capsys, *command, "--json"))
    measured = [row for row in told["rows"] if row["ours"] is not None]
    assert {(row["corpus"], row["model"]) for row in measured} == {("sst", "average additive")}
    assert (told["not_run"], told["notes"]) == ([], [])
    wrong = fails(capsys, "reproduce", "jain2018")
    assert "PAPER: 'jain2018'; expected one of jain2019, " in wrong


def command_of(data, out, corpus="sst", vectors="random", seeds=1):
    """A call of `reproduce` for the smallest models."""
    settings = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
    small = ["--only", f"{corpus}-average-additive", "--seeds", str(seeds)]
    places = ["--vectors", vectors, "--data-dir", str(data), "--out", str(out)]
    return ["reproduce", "jain2019", *small, *places, *settings]


def text_of(outcome):
    """Return the text of the page, each entry of a list on a line with a dash."""
    page = outcome.page.read_text()
    page = page.replace("<li>", "\n- ").replace("</li>", "\n")
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def test_nothing_that_was_asked_for_could_be_run(data, tmp_path, capsys):
    assert main([*command_of(data, tmp_path / "out", corpus="adr"), "--json"]) == 2
    shown = capsys.readouterr()
    assert [one["corpus"] for one in json.loads(shown.out)["not_run"]] == ["adr"]
    assert "adr is skipped: read corpus adr" in shown.err
    assert "none of the 1 requested cells could be done" in shown.err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"index.html", "reproduction.csv"}


def test_runs_of_other_settings_are_not_averaged_and_settings_are_told(finished, data, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    sweep = small_sweep(out, data, seeds=3)
    other = TINY | {"training.epochs": 2}
    outcome = reproduce(replace(sweep, cells=sweep.cells[2:], settings=other))
    assert outcome.done == 1
    line = "sst-average-additive-s2 is kept apart from sst-average-additive-s0 and not averaged with it: training.epochs = 2, there 1"
    assert outcome.notes == (line,)
    told = text_of(outcome)
    assert f"- {line}\n" in told
    assert load(out / FOLDER / "sst-average-additive.json")["seeds"] == [0, 1]
    usual = told.partition("sst-average-additive has other settings than those of the paper")[2]
    made = set(usual.splitlines()[0].partition(": ")[2].split(", "))
    assert {"training.epochs = 1", "vectors = random"} <= made


@pytest.mark.slow
def test_splits_drawn_with_the_seed_are_averaged_although_their_fingerprints_differ(tmp_path):
    """bAbI has no dev file: a part of train is drawn with the seed, so that no two seeds read the same train rows."""
    data, out = tmp_path / "data", tmp_path / "out"
    write_babi(data / "babi1", 20)
    reproduce(small_sweep(out, data, ("babi1",)))
    averaged, notes = averaged_runs(out, JAIN)
    assert len({run.corpus["fingerprint"] for run in averaged}) == 2
    assert (len(averaged), notes) == (2, [])
    write_babi(data / "babi1", 25)
    outcome = reproduce(small_sweep(out, data, ("babi1",), seeds=3))
    assert outcome.notes[0].startswith(
        "babi1-average-additive-s2 is kept apart from babi1-average-additive-s0"
    )
    assert "data.rows.train = " in outcome.notes[0]


def test_word_vectors_that_cannot_be_read_are_a_reason(data, tmp_path, capsys):
    ragged, out = tmp_path / "v.txt", tmp_path / "out"
    ragged.write_text("the 0.1 0.2\nfilm 0.1\n")
    assert main(command_of(data, out, vectors=str(ragged), seeds=2)) == 2
    assert capsys.readouterr().err.count("is skipped: read vectors: ") == 1
    assert "v.txt: line 2" in (out / "index.html").read_text()
    assert not (out / RUNS).exists()


def test_a_run_of_ones_own_among_the_runs_is_ignored_with_a_note(finished, data, tmp_path):
    out = shutil.copytree(finished, tmp_path / "out")
    shutil.copytree(out / RUNS / "sst-average-additive-s1", out / RUNS / "mine")
    lines = []
    outcome = reproduce(small_sweep(out, data), say=lines.append)
    assert outcome.notes == ("runs/mine is no run of this sweep and is not counted",)
    assert lines == [f"note: {outcome.notes[0]}"]
    assert f"- {outcome.notes[0]}\n" in text_of(outcome)


def test_a_folder_of_something_else_is_refused_and_left_as_it_is(data, tmp_path):
    page = tmp_path / "index.html"
    page.write_text("my page")
    with pytest.raises(RunError, match="holds something else; expected a new or empty folder, or"):
        reproduce(small_sweep(tmp_path, data))
    with pytest.raises(RunError, match="a file; expected a new or empty folder"):
        reproduce(small_sweep(page, data))
    assert list(tmp_path.iterdir()) == [page]
    assert page.read_text() == "my page"


def test_every_corpus_without_a_run_is_listed_with_what_is_known(finished, data, tmp_path):
    told = text_of(reproduce(small_sweep(tmp_path / "out", data, ("adr",))))
    assert f"- cnn: {JAIN.missing['cnn']}" in told
    assert "- adr-average-additive: read corpus adr: " in told
    (line,) = (line for line in told.splitlines() if "not run yet: " in line)
    assert "sst-bilstm-additive, " in line
    out = shutil.copytree(finished, tmp_path / "other")
    again = text_of(reproduce(small_sweep(out, data)))
    assert "sst-average-additive" not in again.partition("Without a record")[2].partition(":")[0]


@pytest.mark.slow
def test_a_partial_call_leaves_other_models_and_more_seeds_as_they_are(finished, data, tmp_path):
    other, records = tmp_path / "other", shutil.copytree(finished / FOLDER, tmp_path / "records")
    sweep = replace(small_sweep(other, data, attention="dot", seeds=1), records=records)
    assert reproduce(sweep).done == 1
    names = {"sst-average-additive.json", "sst-average-dot.json"}
    before = {place.name: place.read_bytes() for place in records.iterdir()}
    assert before.keys() == names
    name = "sst-average-additive-s0"
    shutil.copytree(finished / RUNS / name, other / RUNS / name)
    reproduce(sweep)
    assert {place.name: place.read_bytes() for place in records.iterdir()} == before


def test_a_record_has_what_the_comparison_needs(finished):
    """Medians by weight of all and of each class, spreads, classes and notes of the corpus."""
    record = load(finished / FOLDER / "sst-average-additive.json")
    assert record["class_names"] == ["negative", "positive"]
    assert record["seeds"] == [0, 1]
    manifest = read_json(finished / RUNS / "sst-average-additive-s0/manifest.json")
    assert manifest["notes"]
    assert set(manifest["notes"]) <= set(record["notes"])
    rows = {(row["measure"], row["group"]): row for row in record["summary"]}
    assert rows["tau_gradient", "all"]["std"] > 0
    assert ("median_delta_y", "predicted:positive max_alpha:[0, .25)") in rows
    runs = (finished / RUNS / f"sst-average-additive-s{seed}" for seed in (0, 1))
    tables = [pl.read_parquet(run / "results/permutation.parquet") for run in runs]
    low = (
        one.filter(pl.col("max_alpha") < 0.25).select(pl.median("median_delta_y")) for one in tables
    )
    value = rows["median_delta_y", "all max_alpha:[0, .25)"]["value"]
    assert value == pytest.approx(pl.concat(low).to_series().mean())


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(
        InputError,
        match=r"--data-dir .*nowhere: no such folder; expected the folder of the corpora",
    ):
        reproduce(small_sweep(tmp_path / "new", tmp_path / "nowhere"))
    assert not list(tmp_path.iterdir())
