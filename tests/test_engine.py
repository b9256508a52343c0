"""Commands on another engine than the local one: the same bytes, whatever the order; and one driver at a time in a folder."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from attnaudit.cli import main
from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import read_with_digest
from attnaudit.core.progress import Progress, silent
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.audit import audit_into
from attnaudit.recipes.classifier import CLASSIFIERS
from attnaudit.recipes.kinds import KINDS
from attnaudit.recipes.reproduction.sweep import reproduce
from attnaudit.recipes.studies import study
from attnaudit.recipes.study import TRAININGS, StudySpec, prepared
from attnaudit.recipes.trained import run
from attnaudit.recipes.transformer import audit_transformer
from attnaudit.results.table import tables_in
from attnaudit.runner import studies
from attnaudit.runner.claim import NAME
from attnaudit.runner.engine import Here
from attnaudit.runner.ray_engine import _put_alone
from attnaudit.steps.claim import BusyError, claimed
from attnaudit.steps.folder import held, is_free
from attnaudit.steps.pieces import do_missing, whole
from attnaudit.steps.pool import SERIAL, Call, pool_of
from attnaudit.trace import Trace, trace_files, write_shards
from attnaudit.tracing import texts as tracing_texts
from attnaudit.tracing.texts import SHARD_ROWS
from tests.calls import Elsewhere
from tests.hf.classes import tiny
from tests.hf.tokenizing import SIZE, texts, tokenizer
from tests.test_reproduce import data, small_sweep
from tests.traces import make_trace

__all__ = ["data"]
SMALL = {
    "corpus.size": 100,
    "corpus.length": (10, 14),
    "training.epochs": 2,
    "model.embedding": 8,
    "model.hidden": 4,
}


def made(out: Path) -> dict[str, bytes]:
    """Every file below ``out`` but manifests, which tell of time and memory; of these the digests of files and the notes."""
    files = {
        path.relative_to(out).as_posix(): path for path in sorted(out.rglob("*")) if path.is_file()
    }
    told = {
        name: json.loads(path.read_text())
        for name, path in files.items()
        if path.name == "manifest.json"
    }
    return {name: path.read_bytes() for name, path in files.items() if name not in told} | {
        name: json.dumps([one["files"], one.get("notes")]).encode() for name, one in told.items()
    }


@pytest.mark.usefixtures("quick_pages")
def test_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With shards of a few rows, so that there are several."""
    options = partial(tracing_texts.CollectOptions, shard_rows=8)
    monkeypatch.setattr(tracing_texts, "CollectOptions", options)
    monkeypatch.setitem(KINDS, "run", replace(CLASSIFIERS, shard_rows=8))
    spec = RunSpec.of("planted-decisive", encoder="average", settings=SMALL)
    run(spec, tmp_path / "local")
    run(spec, tmp_path / "elsewhere", engine=Elsewhere())
    assert len(trace_files(tmp_path / "local")) > 1
    assert made(tmp_path / "elsewhere") == made(tmp_path / "local")


def test_trainings_of_a_study_with_teachers(tmp_path: Path) -> None:
    spec = StudySpec.of(
        "guide",
        "planted-decisive",
        encoder="average",
        settings=SMALL | {"guide.seeds": 1, "training.epochs": 1},
    )
    for name, engine in (("local", SERIAL), ("elsewhere", Elsewhere())):
        plan = prepared(spec, tmp_path / name, silent)
        studies._train_all(plan, tmp_path / name / TRAININGS, silent, lambda line: None, engine)
    expected, found = (made(tmp_path / name) for name in ("local", "elsewhere"))
    assert set(found) == set(expected)
    differing = {name for name in found if found[name] != expected[name]}
    assert {name.rpartition("/")[2] for name in differing} == {
        "spec.json",
        "manifest.json",
    }  # a spec says where its teacher lies
    specs = [
        read_with_digest(tmp_path / "elsewhere" / name)
        for name in differing
        if name.endswith("spec.json")
    ]
    assert all(spec["teacher"]["trace"].startswith(str(tmp_path / "elsewhere")) for spec in specs)


@pytest.mark.usefixtures("quick_pages")
def test_a_paper(data: Path, tmp_path: Path) -> None:
    for name, engine in (("local", SERIAL), ("elsewhere", Elsewhere())):
        reproduce(small_sweep(tmp_path / name, data, seeds=1), engine=engine)
    runs = [tmp_path / name / "runs" for name in ("elsewhere", "local")]
    assert made(runs[0]) == made(runs[1])


@pytest.mark.usefixtures("quick_pages")
def test_an_audit_of_several_files(tmp_path: Path) -> None:
    shards = [make_trace(10, (2, 9), seed=seed, first_instance=10 * seed) for seed in range(3)]
    write_shards(tmp_path / "trace", shards)
    for name, engine in (("local", SERIAL), ("elsewhere", Elsewhere())):
        audit_into(tmp_path / name, tmp_path / "trace", engine=engine)
    assert made(tmp_path / "elsewhere") == made(tmp_path / "local")


@pytest.mark.usefixtures("quick_pages")
def test_tables_of_a_file_are_written_and_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of several pieces, whose tables have several row groups, is audited as locally; no more than a row group is read at a time."""
    monkeypatch.setattr("attnaudit.trace.files.PIECE", 1000)
    monkeypatch.setattr("attnaudit.results.table.ROW_GROUP", 8)
    heights, pieces = list[int](), list[int]()

    def read(path: Path) -> Iterator[pl.DataFrame]:
        for rows in tables_in(path):
            heights.append(rows.height)
            yield rows

    def written(source: Path, *options: Any) -> Iterator[Trace]:
        for shard in shards(source, *options):
            pieces.append(len(shard))
            yield shard

    shards = Trace.shards
    make_trace(44, (2, 9), seed=0).write(tmp_path / "trace")
    audit_into(tmp_path / "local", tmp_path / "trace")
    monkeypatch.setattr("attnaudit.steps.pieces.tables_in", read)
    monkeypatch.setattr("attnaudit.steps.pieces.Trace.shards", written)
    audit_into(tmp_path / "elsewhere", tmp_path / "trace", engine=Elsewhere())
    assert made(tmp_path / "elsewhere") == made(tmp_path / "local")
    assert len(pieces) > 3
    assert len(heights) % 6 == 0
    assert set(heights) == {8, 44 % 8}


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        Path.unlink,
        lambda file: Path(f"{file}x").touch(),
    ],
)
def test_a_damaged_piece_is_made_again(tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    done = list[int]()

    def work(here: Here, held: None, progress: Progress, *, number: int) -> None:
        with whole(tmp_path / str(number)) as made:
            (made / "file").write_text(str(number))
        done.append(number)

    calls = [Call(f"call {k}", work, tmp_path / str(k), {"number": k}) for k in range(3)]
    do_missing(SERIAL, calls, silent)
    damage(tmp_path / "1" / "file")
    do_missing(SERIAL, calls, silent)
    assert done == [0, 1, 2, 1]
    assert (tmp_path / "1" / "file").read_text() == "1"


def test_a_file_of_another_trace_is_refused(tmp_path: Path) -> None:
    """Although each file is read by a process of its own; nothing is left."""
    make_trace(5, (2, 9), seed=0).write(tmp_path / "trace")
    make_trace(5, (2, 9), 3, seed=0, first_instance=5).write(tmp_path / "other")
    (tmp_path / "other" / "part-00000.parquet").rename(tmp_path / "trace" / "part-00001.parquet")
    with pytest.raises(InputError, match=r"part-00001.parquet.*as in the first file"):
        audit_into(tmp_path / "out", tmp_path / "trace", engine=Elsewhere())
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("one_registry", "quick_pages")
@pytest.mark.parametrize(
    "options", [{"layers": "last"}, {"layers": "all"}], ids=["graph", "replay"]
)
def test_a_transformer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """In shards of two texts, behind a graph and with the model itself."""
    monkeypatch.setattr("attnaudit.hf.trace.SHARD_TEXTS", 2)
    model, source = tmp_path / "bert", tmp_path / "texts.csv"
    tiny("BertForSequenceClassification", vocab_size=SIZE).save_pretrained(model)
    tokenizer("wordpiece", "[CLS] $A [SEP]").save_pretrained(model)
    pl.DataFrame({"text": sorted(set(texts()))[:3]}).write_csv(source)
    collect = {**options, "heads": "0", "scores": ("gradient",), "sample": 3}
    for name, engine in (("local", SERIAL), ("elsewhere", Elsewhere())):
        audit_transformer(
            model,
            source,
            tmp_path / name,
            experiments=["permutation"],
            collect=collect,
            engine=engine,
        )
    assert len(trace_files(tmp_path / "local")) == 2
    assert made(tmp_path / "elsewhere") == made(tmp_path / "local")


def test_a_second_driver_is_refused_while_the_first_is_alive(tmp_path: Path) -> None:
    with claimed(tmp_path / "out", beat=0.05) as check:
        for clock in (0, 4e9):  # whatever the clock of another machine says
            os.utime(tmp_path / "out" / NAME, (clock, clock))
            with (
                pytest.raises(RunError, match=f"process {os.getpid()} of .* is at work there"),
                claimed(tmp_path / "out", silent=5),
            ):
                pass
        check()
        assert is_free(tmp_path / "out")
    assert not (tmp_path / "out").exists()


PLANTED = [
    "planted-decisive",
    "--model",
    "average",
    "--set",
    "corpus.size=60",
    "--set",
    "training.epochs=1",
]
COMMANDS = {
    "run": ["run", *PLANTED],
    "study": ["study", "uniform", *PLANTED, "--set", "uniform.seeds=1"],
    "audit": ["audit", "trace", "--experiment", "permutation"],
}


@pytest.mark.usefixtures("quick_pages")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_local_command_is_refused_where_a_driver_is_alive(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """And nothing there changes; it is done once the driver has ended, or is dead."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("attnaudit.steps.claim.SILENT", 0.5)
    make_trace(5, (2, 4), seed=0).write(tmp_path / "trace")
    options, out = [*COMMANDS[command], "--out", "out"], tmp_path / "out"
    with claimed(out, beat=0.05) as check:
        assert main(options) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert f"process {os.getpid()} of " in line
        assert "is at work there; expected one command at a time" in line
        check()
        assert {path.name for path in out.iterdir() if not path.name.startswith(f"{NAME}.")} == {
            NAME
        }  # a beat may be half-written
    out.mkdir()
    (out / NAME).write_text('{"owner": "dead", "beat": 3}')
    assert main(options) == 0
    assert not (out / NAME).exists()


@pytest.mark.usefixtures("quick_pages")
def test_a_local_paper_is_refused_where_a_driver_is_alive(data: Path, tmp_path: Path) -> None:
    sweep = small_sweep(tmp_path / "out", data, seeds=1)
    with (
        claimed(tmp_path / "out", beat=0.05),
        pytest.raises(RunError, match="is at work there; expected one command at a time"),
    ):
        reproduce(sweep)
    assert not (tmp_path / "out").exists()
    reproduce(sweep)


def test_what_a_worker_made_is_not_put_where_another_process_is_at_work(tmp_path: Path) -> None:
    place = tmp_path / "run"
    with held(place):
        assert isinstance(_put_alone({"made": b"new"}, place), BusyError)
        assert not (place / "made").exists()
    assert _put_alone({"made": b"new"}, place) is None
    assert [path.name for path in place.iterdir()] == ["made"]
    assert _put_alone({"": b"a file held"}, tmp_path / "file") is None
    assert (tmp_path / "file").read_bytes() == b"a file held"


def test_the_claim_of_a_dead_driver_is_taken_over_by_one_of_several(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"owner": "dead", "beat": 3}')
    os.utime(tmp_path / NAME, (4e9, 4e9))
    taken, refused = [], []

    def take() -> None:
        try:
            with claimed(tmp_path, beat=0.05, silent=0.5):
                taken.append(1)
                time.sleep(1.5)
        except RunError:
            refused.append(1)

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(taken), len(refused)) == (1, 2)
    assert not list(tmp_path.iterdir())


def test_a_claim_on_a_full_disk_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str, **_: object) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with (
        pytest.raises(RunError, match=r"No space left on device; .* free some space"),
        claimed(tmp_path),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_heartbeat_outlives_a_claim_that_cannot_be_read_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network's folder, or while another process looks whether the claim is dead."""
    own, failed = Path.read_text, threading.Event()

    def stale(path: Path, **options: Any) -> str:
        if not failed.is_set():
            failed.set()
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return own(path, **options)

    with claimed(tmp_path, beat=0.05):
        monkeypatch.setattr(Path, "read_text", stale)
        assert failed.wait(10)
        before = own(tmp_path / NAME)
        until = time.monotonic() + 10
        while own(tmp_path / NAME) == before:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_a_beat_on_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that is killed leave a file that makes the folder one that is not free."""
    began = threading.Event()

    def full(path: Path, text: str, **_: object) -> None:
        path.touch()
        began.set()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with claimed(tmp_path, beat=0.05):
        monkeypatch.setattr(Path, "write_text", full)
        assert began.wait(10)
        assert is_free(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_driver_that_was_taken_for_dead_stops(tmp_path: Path) -> None:
    with claimed(tmp_path, beat=100) as check:
        check()
        (tmp_path / NAME).write_text('{"owner": "other", "host": "n2", "pid": 7, "beat": 0}')
        with pytest.raises(RunError, match="process 7 of n2 took it over"):
            check()
    assert (tmp_path / NAME).exists()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--engine", "dask"], "expected one of local, ray"),
        (["--address", "127.0.0.1:1"], "the engine local; expected --engine ray"),
        (["--unshared"], "the engine local; expected --engine ray"),
        (["--engine", "ray", "--address", "127.0.0.1:1"], "nobody listens there"),
        (["--engine", "ray", "--address", "head"], "no HOST:PORT"),
        (["--engine", "ray", "--address", "[::1]:6379"], "an IPv6 address"),
    ],
)
def test_wrong_options_are_one_line(
    options: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_trace(3, (2, 4), seed=0).write(tmp_path / "trace")
    assert main(["audit", str(tmp_path / "trace"), "--out", str(tmp_path / "out"), *options]) == 2
    (told,) = capsys.readouterr().err.strip().splitlines()
    assert line in told
    assert not (tmp_path / "out").exists()


def test_copying_stays_in_one_process(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--engine local"):
        study("copying", "permutations", tmp_path / "out", engine=pool_of("ray"))


def test_shards_of_a_run_are_those_of_a_trace() -> None:
    assert CLASSIFIERS.shard_rows == SHARD_ROWS
