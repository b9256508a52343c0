"""Shards that are audited at once give the tables of shards that are audited one after another."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from attnaudit.core.errors import TraceError
from attnaudit.core.progress import Progress, silent
from attnaudit.experiments import make_experiment
from attnaudit.experiments.shards import tables_of_shards
from attnaudit.trace import Trace
from tests.tails import opaque
from tests.traces import make_trace

ROWS = 12
TRACE = make_trace(ROWS, (2, 6), seed=1)
SHARDS = [TRACE.take(np.arange(start, start + 2)) for start in range(0, ROWS, 2)]


@dataclass(frozen=True)
class Watched:
    """Takes longest for the second shard, and fails from ``broken`` on."""

    name: ClassVar[str] = "watched"
    needs: ClassVar[tuple[str, ...]] = ()
    broken: int = ROWS
    seen: tuple[list[int], list[int]] = ([], [])

    def __call__(self, trace: Trace) -> pl.DataFrame:
        first = int(trace.instance[0])
        self.seen[0].append(first)
        self.seen[1].append(threading.active_count())
        time.sleep(0.05 if first == 2 else 0.0)
        if first >= self.broken:
            raise TraceError("audit", f"instance {first}", "nothing", "something")
        return pl.DataFrame({"instance": trace.instance})

    def summarise(self, table: pl.LazyFrame) -> pl.DataFrame:
        return pl.DataFrame()


def run(
    experiments: dict[str, Any], shards: list[Trace], threads: int, progress: Progress = silent
) -> dict[str, pl.DataFrame]:
    made: dict[str, list[pl.DataFrame]] = {name: [] for name in experiments}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", str(threads))
        for name, table in tables_of_shards(experiments, shards, sum(map(len, shards)), progress):
            made[name].append(table)
    return {name: pl.concat(tables) for name, tables in made.items()}


@pytest.mark.parametrize("threads", [2, 3])
def test_the_tables_are_in_the_order_of_the_shards(threads: int) -> None:
    experiments = {name: make_experiment(name) for name in ("ranges", "identifiability")} | {
        "watched": Watched(seen=([], []))
    }
    alone, at_once = run(experiments, SHARDS, 1), run(experiments, SHARDS, threads)
    assert all(at_once[name].equals(alone[name]) for name in experiments)
    assert at_once["watched"]["instance"].to_list() == list(range(ROWS))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_shard_that_takes_long_reports_how_far_it_is_and_its_tables_are_those_of_the_whole(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = make_trace(20, (2, 5), 3, seed=2)
    shards = [trace.take(np.arange(12)), trace.take(np.arange(12, 20))]
    experiments = {name: make_experiment(name) for name in ("adversary", "permutation")}
    whole = run(experiments, shards, threads)
    told: list[tuple[str, int, int]] = []
    monkeypatch.setattr("attnaudit.experiments.shards.PART", 5)
    parts = run(experiments, shards, threads, lambda *one: told.append(one))
    assert all(parts[name].equals(whole[name]) for name in experiments)
    of_adversary, at_once = (
        [done for what, done, rows in told if what == name]
        for name in ("audit: adversary", "audit")
    )
    assert (of_adversary, at_once) == (
        ([0, 5, 10, 12, 17], []) if threads == 1 else ([0, 5, 10], [12, 14, 16, 18])
    )
    assert {rows for what, done, rows in told} == {20}


def test_heads_of_a_text_are_never_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnaudit.experiments.shards.PART", 5)
    seen = Watched(seen=([], []))
    trace = make_trace(12, (2, 5), 3)
    headed = Trace(
        trace.table.with_columns(pl.Series("head", [0, 1] * 6, pl.Int32)),
        trace.metadata,
        trace.tail,
    )
    run({"watched": seen}, [headed], 1)
    assert seen.seen[0] == [0]
    run({"watched": seen}, [trace], 1)
    assert seen.seen[0] == [0, 0, 5, 10]


def test_an_error_stops_the_audit() -> None:
    watched = Watched(4, ([], []))
    with pytest.raises(TraceError, match="instance 4"):
        run({"watched": watched}, SHARDS, 2)
    assert max(watched.seen[0]) <= 8  # what was under way when the error was met


def test_a_network_is_asked_by_one_thread_alone() -> None:
    watched, before = Watched(seen=([], [])), threading.active_count()
    run({"watched": watched}, [opaque(shard) for shard in SHARDS], 2)
    assert max(watched.seen[1]) == before
