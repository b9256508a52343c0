"""Shards that are audited at once give the tables of shards that are audited one after another."""

import threading
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
import pytest

from attnaudit.core import TraceError, silent
from attnaudit.experiments import make_experiment
from attnaudit.experiments.shards import tables_of_shards
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

    def __call__(self, trace):
        first = int(trace.instance[0])
        self.seen[0].append(first)
        self.seen[1].append(threading.active_count())
        time.sleep(0.05 if first == 2 else 0.0)
        if first >= self.broken:
            raise TraceError("audit", f"instance {first}", "nothing", "something")
        return pl.DataFrame({"instance": trace.instance})

    def summarise(self, table):
        return pl.DataFrame()


def run(experiments, shards, threads, progress=silent):
    made = {name: [] for name in experiments}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", str(threads))
        for name, table in tables_of_shards(experiments, shards, sum(map(len, shards)), progress):
            made[name].append(table)
    return {name: pl.concat(tables) for name, tables in made.items()}


@pytest.mark.parametrize("threads", [2, 3])
def test_the_tables_are_in_the_order_of_the_shards(threads):
    experiments = {name: make_experiment(name) for name in ("ranges", "identifiability")} | {
        "watched": Watched(seen=([], []))
    }
    told = []
    alone = run(experiments, SHARDS, 1, lambda *one: told.append(one))
    at_once = run(experiments, SHARDS, threads)
    assert told[:4] == [
        ("audit: ranges", 0, ROWS),
        ("audit: identifiability", 1, ROWS),
        ("audit: watched", 1, ROWS),
        ("audit: ranges", 2, ROWS),
    ]
    assert all(at_once[name].equals(alone[name]) for name in experiments)
    assert at_once["watched"]["instance"].to_list() == list(range(ROWS))


def test_an_error_stops_the_audit():
    watched = Watched(4, ([], []))
    with pytest.raises(TraceError, match="instance 4"):
        run({"watched": watched}, SHARDS, 2)
    assert max(watched.seen[0]) <= 8  # what was under way when the error was met


def test_a_network_is_asked_by_one_thread_alone():
    watched, before = Watched(seen=([], [])), threading.active_count()
    run({"watched": watched}, [opaque(shard) for shard in SHARDS], 2)
    assert max(watched.seen[1]) == before
