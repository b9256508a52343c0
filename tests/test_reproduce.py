"""The sweep behind a paper's tables: what it plans, how it goes on, and what it says of what cannot be run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from attnaudit.cli import main
from attnaudit.corpora import REGISTRY
from attnaudit.errors import InputError, RunError
from attnaudit.runner import Sweep, plan, reproduce
from attnaudit.runner.sweep import CORPORA, ENCODERS, QUICK, RUNS, Cell

TINY = {"model.embedding": 8, "model.hidden": 4, "training.epochs": 1, "permutation.permutations": 5}
WORDS = {"0": ["dull", "flat", "slow", "weak", "plain"], "1": ["bright", "warm", "quick", "fine", "bold"]}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus in the layout of `sst`; nothing else is there."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "sst").mkdir()
    for split, rows in (("train", 60), ("dev", 20), ("test", 20)):
        lines = [
            f"the film with the {WORDS[str(k % 2)][k % 5]} end number {chr(97 + k % 26)}{chr(97 + k // 26)},{k % 2}" for k in range(rows)
        ]
        (folder / "sst" / f"{split}.csv").write_text("text,label\n" + "\n".join(lines), encoding="utf-8")
    return folder


def small_sweep(out: Path, data: Path, corpora: tuple[str, ...] = ("sst",), **chosen) -> Sweep:
    cells = plan(corpora=corpora, **({"encoders": ["average"], "attentions": ["additive"], "seeds": 2} | chosen))
    return Sweep(out, cells, str(data), "random", TINY)


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sweep")
    reproduce(small_sweep(out, data))
    return out


def test_the_whole_plan_has_every_cell_of_the_paper() -> None:
    cells = plan()
    assert {cell.corpus for cell in cells} == set(CORPORA) <= set(REGISTRY)
    assert len({cell.parts for cell in cells}) == len(CORPORA) * 6
    assert len(set(cells)) == len(cells)
    assert {cell.seed for cell in cells if cell.corpus == "sst"} == {0, 1, 2}
    assert {cell.seed for cell in cells if cell.corpus == "imdb"} == {0}


def test_quick_is_a_part_of_the_whole_with_every_encoder_and_every_task() -> None:
    assert set(plan(quick=True)) == set(QUICK) <= set(plan())
    assert {cell.encoder for cell in QUICK} == set(ENCODERS)
    assert {REGISTRY[cell.corpus].task for cell in QUICK} == {"classification", "question_answering", "inference"}


def test_a_plan_is_narrowed_by_names() -> None:
    assert plan(corpora=["sst"], encoders=["cnn"], attentions=["dot"], seeds=1) == [Cell("sst", 0, "cnn", "dot")]
    assert {cell.corpus for cell in plan(quick=True, corpora=["sst"])} == {"sst"}


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"source": "jain2018"}, "source: 'jain2018'; wanted one of jain2019; did you mean jain2019?"),
        ({"corpora": ["stt"]}, "--corpus: 'stt'"),
        ({"encoders": ["lstm"]}, "--encoder: 'lstm'; wanted one of bilstm, cnn, average; did you mean bilstm?"),
    ],
)
def test_unknown_names_are_refused(chosen: dict, message: str) -> None:
    with pytest.raises(InputError) as caught:
        plan(**chosen)
    assert message in str(caught.value)


def test_a_sweep_ends_in_one_page_and_one_table(finished: Path) -> None:
    assert {path.name for path in (finished / RUNS).iterdir()} == {"sst-average-additive-s0", "sst-average-additive-s1"}
    table = pl.read_csv(finished / "reproduction.csv", infer_schema_length=None)
    f1 = table.filter(measure="f1", statistic="mean").row(0, named=True)
    ours = [
        pl.read_json(finished / RUNS / f"sst-average-additive-s{seed}" / "summary.json").filter(measure="f1")["value"][0] for seed in (0, 1)
    ]
    assert f1["seeds"] == 2
    assert f1["ours"] == pytest.approx(sum(ours) / 2)
    assert "runs/sst-average-additive-s1/report.html" in (finished / "index.html").read_text(encoding="utf-8")


def test_finished_runs_are_left_alone_and_others_added(finished: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.stat().st_mtime_ns for path in (finished / RUNS).rglob("*")}
    monkeypatch.setattr("attnaudit.runner.sweep.read", lambda *arguments: pytest.fail("nothing is left to read"))
    reproduce(small_sweep(finished, data))
    assert {path: path.stat().st_mtime_ns for path in (finished / RUNS).rglob("*")} == before


def test_what_is_not_here_is_told_and_the_rest_run(finished: Path, data: Path) -> None:
    lines: list[str] = []
    page = reproduce(small_sweep(finished, data, ("adr", "sst")), say=lines.append)
    assert len(lines) == 1
    assert lines[0].startswith("adr is left out: ")
    assert "adr" in page.read_text(encoding="utf-8")


def test_another_setting_is_refused_before_anything_runs(finished: Path, data: Path) -> None:
    sweep = small_sweep(finished, data)
    with pytest.raises(RunError, match=r"another spec: training\.epochs = 2, there 1"):
        reproduce(replace(sweep, settings=TINY | {"training.epochs": 2}))


def test_a_sweep_that_was_stopped_goes_on(data: Path, tmp_path: Path, finished: Path) -> None:
    """Interrupted in its second run, it ends with the same results."""

    def stop(what: str, done: int, total: int) -> None:
        if what.startswith("sst-average-additive-s1: audit"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(small_sweep(tmp_path, data), stop)
    reproduce(small_sweep(tmp_path, data))
    for seed in (0, 1):
        one, other = (folder / RUNS / f"sst-average-additive-s{seed}" / "summary.json" for folder in (tmp_path, finished))
        assert one.read_bytes() == other.read_bytes()


def test_the_command_prints_where_table_and_page_are(finished: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {path.name for path in (finished / RUNS).iterdir()} >= {"sst-average-additive-s0"}
    settings = [part for key, value in TINY.items() for part in ("--set", f"{key}={value}")]
    chosen = ["--corpus", "sst", "--encoder", "average", "--attention", "additive", "--seeds", "2", "--vectors", "random"]
    command = ["reproduce", "jain2019", *chosen, "--data-dir", str(data), "--out", str(finished), *settings]
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines() == [f"table: {finished / 'reproduction.csv'}", f"report: {finished / 'index.html'}"]
    assert main([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["corpus"] for row in rows} == {"sst"}
    assert main(["reproduce", "serrano2019"]) == 2
    assert "attnaudit: reproduce: source: 'serrano2019'; wanted one of jain2019" in capsys.readouterr().err
