"""A second process compiles what takes longest; results do not depend on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attnaudit.core.kernels import SETTINGS
from attnaudit.core.progress import silent
from attnaudit.experiments import EXPERIMENTS, ahead, audit, make_experiment, refusal
from attnaudit.runner import RunSpec, run
from attnaudit.trace import Trace, write_shards
from tests.experiments.test_adversary_several import tail_trace
from tests.traces import make_trace

NAMES = list(EXPERIMENTS)


class Process:
    """In place of the process: what was asked of it."""

    def __init__(self) -> None:
        self.experiments: list[str] = []
        self.said: list[str] = []
        self.started: list[list[str]] = []

    @contextmanager
    def compiling(self, trace: Trace, experiments: list[str]) -> Iterator[Process]:
        self.experiments = experiments
        self.started.append(experiments)
        yield self
        self.said.append("ended")

    def wait(self) -> None:
        self.said.append("waited for")


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    """Two threads, and nothing compiled so far."""
    fake = Process()
    monkeypatch.setattr(ahead, "_compiling", fake.compiling)
    monkeypatch.setattr(ahead, "is_compiled", lambda function: False)
    monkeypatch.setattr(SETTINGS, "NUMBA_NUM_THREADS", 2)
    return fake


@pytest.mark.parametrize(
    ("trace", "later"),
    [
        (make_trace(3, (2, 4), 1), ["erasure", "comprehensiveness"]),
        (make_trace(3, (2, 4), 3), ["adversary", "ranges"]),
        (tail_trace(3, (2, 4), 3, 4, 0), ["adversary", "ranges"]),
    ],
)
def test_what_takes_longest_is_compiled_elsewhere_and_run_last(
    process: Process, trace: Trace, later: list[str]
):
    order = list(
        ahead.in_turn(trace, NAMES, silent, lambda: process.said.append("something else done"))
    )
    assert process.experiments == later
    assert order == [*(name for name in NAMES if name not in later), *later]
    assert process.said == ["something else done", "waited for", "ended"]


def test_what_is_run_meanwhile_uses_nothing_that_the_other_process_compiles(
    process: Process, monkeypatch: pytest.MonkeyPatch
):
    trace = make_trace(3, (2, 4), 3)
    taken = [name for name in NAMES if refusal(make_experiment(name), trace) is None]
    monkeypatch.setattr(
        EXPERIMENTS["adversary"], "bounded", lambda *arguments: pytest.fail("compiled by both")
    )
    for name in ahead.in_turn(trace, taken, silent):
        if name in process.experiments:
            break
        make_experiment(name)(trace)
    assert process.experiments


def test_an_experiment_that_fails_ends_the_process(process: Process):
    names = ahead.in_turn(make_trace(3, (2, 4), 1), NAMES, silent)
    next(names)
    names.close()
    assert process.said == []  # the fake is left by an exception, as the process is then terminated


@pytest.mark.parametrize(
    "names", [["erasure"], ["erasure", "comprehensiveness"], ["correlation", "permutation"]]
)
def test_there_is_no_process_for_what_this_one_can_do_as_fast(process: Process, names: list[str]):
    assert list(ahead.in_turn(make_trace(3, (2, 4), 1), names, silent)) == names
    assert process.experiments == []


def test_with_one_thread_or_all_compiled_there_is_no_process(
    process: Process, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr(SETTINGS, "NUMBA_NUM_THREADS", 1)
        assert list(ahead.in_turn(make_trace(3, (2, 4), 1), NAMES, silent)) == NAMES
    monkeypatch.setattr(ahead, "is_compiled", lambda function: True)
    assert list(ahead.in_turn(make_trace(3, (2, 4), 3), NAMES, silent)) == NAMES
    assert process.experiments == []


def test_results_are_the_same_and_stand_in_the_same_order(process: Process):
    trace = make_trace(12, (1, 9), 1, seed=3)
    with_process = audit(trace)
    assert process.experiments
    SETTINGS.NUMBA_NUM_THREADS = 1
    alone = audit(trace)
    assert list(with_process) == list(alone)
    assert with_process.summary.equals(alone.summary)


def test_the_process_leaves_the_code_of_kernels(tmp_path: Path):
    write_shards(tmp_path / "trace", [make_trace(1, (3, 3), 1)])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "code")}
    program = f"from {ahead.__name__} import compile_for; compile_for({str(tmp_path / 'trace')!r}, 'plausibility')"
    command = [sys.executable, "-c", program]
    open_end, _ = os.pipe()
    done = subprocess.run(
        command, env=environment, stdin=open_end, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "code" / "attnaudit.stats.agreement").glob("*.nbi"))


def test_a_process_that_fails_is_no_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ahead, "is_compiled", lambda function: False)
    monkeypatch.setattr(SETTINGS, "NUMBA_NUM_THREADS", 2)
    monkeypatch.setattr(sys, "executable", "false")
    assert len(list(ahead.in_turn(make_trace(3, (2, 4), 1), NAMES, silent))) == len(NAMES)


def test_a_run_compiles_while_it_trains_and_has_the_same_results(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        "attnaudit.report.run_page.write_report", lambda folder, trace, page: page.write_text("")
    )
    settings = {
        "corpus.size": 60,
        "corpus.length": (10, 12),
        "model.embedding": 8,
        "model.hidden": 4,
        "training.epochs": 2,
    }
    spec = RunSpec.of("planted-decisive", vectors="random", device="cpu", settings=settings)
    run(spec, tmp_path / "with")
    in_training, in_audit = process.started
    assert in_training[:2] == in_audit == ["erasure", "comprehensiveness"]
    assert set(in_training) == set(spec.experiments)
    SETTINGS.NUMBA_NUM_THREADS = 1
    run(spec, tmp_path / "alone")
    names = [
        path.relative_to(tmp_path / "alone")
        for part in ("model", "trace", "results")
        for path in (tmp_path / "alone" / part).iterdir()
    ]
    assert names
    assert all(
        (tmp_path / "with" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
        for name in names
    )


def test_the_process_ends_with_the_one_that_started_it(tmp_path: Path):
    """Whichever way that ends: the pipe between them closes."""
    write_shards(tmp_path / "trace", [make_trace(1, (3, 3), 3)])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "code")}
    program = f"from {ahead.__name__} import compile_for; compile_for({str(tmp_path / 'trace')!r}, 'adversary')"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait() == 1
    assert not list(tmp_path.rglob("*.nbi"))


def test_where_no_process_can_be_started_there_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ahead, "is_compiled", lambda function: False)
    monkeypatch.setattr(SETTINGS, "NUMBA_NUM_THREADS", 2)
    monkeypatch.setattr(sys, "executable", "/no/such/program")
    assert len(list(ahead.in_turn(make_trace(3, (2, 4), 1), NAMES, silent))) == len(NAMES)
