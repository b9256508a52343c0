"""The tables of all experiments on the shards of a trace, several shards at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import polars as pl

from attnaudit.core.kernels import SETTINGS, compiling
from attnaudit.core.progress import Progress
from attnaudit.experiments.ahead import in_turn
from attnaudit.experiments.registry import Experiment
from attnaudit.experiments.through_tail import has_compiled_tail
from attnaudit.trace import Trace

Tables = list[tuple[str, pl.DataFrame]]


def tables_of_shards(
    experiments: Mapping[str, Experiment], shards: Iterable[Trace], rows: int, progress: Progress
) -> Iterator[tuple[str, pl.DataFrame]]:
    """The table of every experiment on every shard, those of one experiment in order; ``progress`` reports how many rows are done.

    Kernels run without Python's lock, what is around them does not: one shard after another would leave a core idle meanwhile. The first
    is done alone, and compiles the kernels. So is each whose tail no kernel computes: a network has threads of its own.
    """
    several = iter(shards)
    for shard in several:
        yield from _alone(experiments, shard, rows, progress)
        if SETTINGS.NUMBA_NUM_THREADS > 1 and has_compiled_tail(shard.readout):
            yield from _at_once(experiments, several, len(shard), rows, progress)
            return


def _alone(experiments: Mapping[str, Experiment], shard: Trace, rows: int, progress: Progress) -> Iterator[tuple[str, pl.DataFrame]]:
    made = dict[str, pl.DataFrame]()

    def compile_summaries() -> None:
        for name, table in made.items():
            experiments[name].summarise(table.head(2).lazy())

    for name in in_turn(shard, list(experiments), progress, compile_summaries):
        progress(f"audit: {name}", 0, rows)
        with compiling(partial(progress, f"audit: {name} (compiled once, on its first use)", 0, rows)):
            made[name] = experiments[name](shard)
        yield name, made[name]


def _at_once(
    experiments: Mapping[str, Experiment], shards: Iterable[Trace], done: int, rows: int, progress: Progress
) -> Iterator[tuple[str, pl.DataFrame]]:
    """As many shards at a time as there are threads, while the next is read."""
    stopped, waiting = threading.Event(), deque[tuple[int, Future[Tables]]]()

    def tables(shard: Trace) -> Tables:
        return [(name, experiment(shard)) for name, experiment in experiments.items() if not stopped.is_set()]

    with ThreadPoolExecutor(SETTINGS.NUMBA_NUM_THREADS) as pool:
        try:
            for shard in shards:
                progress("audit", done, rows)
                waiting.append((len(shard), pool.submit(tables, shard)))
                if len(waiting) > SETTINGS.NUMBA_NUM_THREADS:
                    done += waiting[0][0]
                    yield from waiting.popleft()[1].result()
            for height, future in waiting:
                progress("audit", done, rows)
                done += height
                yield from future.result()
        finally:
            stopped.set()
