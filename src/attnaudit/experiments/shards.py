"""Compute the tables of all experiments, several shards of a trace at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import polars as pl

from attnaudit.core.progress import Progress
from attnaudit.core.threads import cores
from attnaudit.experiments.adversary.exact import one_logit_decides
from attnaudit.experiments.registry import Experiment
from attnaudit.experiments.through_tail import has_compiled_tail
from attnaudit.trace import Trace

# Rows of a slow shard between two reports of progress.
PART = 128
Tables = list[tuple[str, pl.DataFrame]]
# Called with an experiment's name, a shard's number and a function that computes the table.
Keep = Callable[[str, int, Callable[[], pl.DataFrame]], pl.DataFrame]


def tables_of_shards(
    experiments: Mapping[str, Experiment],
    shards: Iterable[Trace],
    rows: int,
    progress: Progress,
    keep: Keep | None = None,
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Compute the table of each experiment on each shard, in the order of shards.

    The first shard runs alone, because it compiles the kernels. The others run side by side, one
    per thread: while the Python code of one shard holds the GIL, kernels of the others run. A shard
    whose tail is a network always runs alone, because the network has threads of its own.

    Args:
        experiments: Experiments by name.
        shards: Parts of one trace.
        rows: Number of rows of the whole trace.
        progress: Callback for the number of rows done.
        keep: Cache of slow tables, those that need a network: it computes and stores a table, or
            returns the stored one.

    Yields:
        Names of experiments with their tables.
    """
    several, done, threads = iter(shards), 0, cores()
    for number, shard in enumerate(several):
        compiled, parts = has_compiled_tail(shard.readout), _parts(shard)
        for name, experiment in experiments.items():
            report = _Done(progress, f"audit: {name}", done, rows)
            make = partial(_table, experiment, parts, report)
            yield name, make() if compiled or keep is None else keep(name, number, make)
        done += len(shard)
        # Shards of one trace have the same tail, so the first one decides for all.
        if threads > 1 and compiled:
            report = _Done(progress, "audit", done, rows, 1 / len(experiments))
            yield from _at_once(experiments, several, report, threads)
            return


@dataclass
class _Done:
    """Progress that several threads may report; each experiment counts as ``share`` of a row."""

    progress: Progress
    name: str
    done: float
    rows: int
    share: float = 1.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self) -> None:
        with self.lock:
            self.progress(self.name, round(self.done), self.rows)

    def add(self, rows: int) -> None:
        with self.lock:
            self.done += self.share * rows


def _parts(shard: Trace) -> list[Trace]:
    """Cut a slow shard into parts, so that progress is visible."""
    readout = shard.readout
    # With one logit the adversary is fast, and a network is read in calls as large as possible.
    # Heads of one text are compared with each other, so they must stay together.
    if (
        len(shard) <= PART
        or "head" in shard.table.columns
        or not has_compiled_tail(readout)
        or one_logit_decides(readout)
    ):
        return [shard]
    return [
        shard.take(np.arange(start, min(start + PART, len(shard))))
        for start in range(0, len(shard), PART)
    ]


def _table(experiment: Experiment, parts: Iterable[Trace], done: _Done) -> pl.DataFrame:
    """Compute the table of all parts of a shard."""
    tables = list[pl.DataFrame]()
    for part in parts:
        done.report()
        tables.append(experiment(part))
        done.add(len(part))
    return pl.concat(tables, rechunk=True)


def _at_once(
    experiments: Mapping[str, Experiment], shards: Iterable[Trace], done: _Done, threads: int
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Compute one shard per thread while the next one is read."""
    stopped, waiting = threading.Event(), deque[Future[Tables]]()

    def tables(shard: Trace) -> Tables:
        parts = _parts(shard)
        return [
            (name, _table(experiment, parts, done))
            for name, experiment in experiments.items()
            if not stopped.is_set()
        ]

    with ThreadPoolExecutor(threads) as pool:
        try:
            for shard in shards:
                waiting.append(pool.submit(tables, shard))
                # One shard waits beyond those in progress: no thread idles while the next one is
                # read, and memory stays bounded.
                if len(waiting) > threads:
                    yield from waiting.popleft().result()
            for future in waiting:
                yield from future.result()
        finally:
            # After an error the pool still runs what is queued, which then has nothing to do.
            stopped.set()
