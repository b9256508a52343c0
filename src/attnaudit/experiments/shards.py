"""The tables of all experiments on the shards of a trace, several shards at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
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
Keep = Callable[[str, int, Callable[[], pl.DataFrame]], pl.DataFrame]  # of an experiment, the number of a shard, and what makes the table


def tables_of_shards(
    experiments: Mapping[str, Experiment], shards: Iterable[Trace], rows: int, progress: Progress, keep: Keep | None = None
) -> Iterator[tuple[str, pl.DataFrame]]:
    """The table of every experiment on every shard, those of one experiment in order; ``progress`` reports how many rows are done.

    Kernels run without Python's lock, what is around them does not: one shard after another would leave a core idle meanwhile. The first
    is done alone, and compiles the kernels. So is each whose tail no kernel computes: a network has threads of its own. The tables of these
    take long; with ``keep`` they are those that it has, and it keeps new ones.
    """
    several, done = iter(shards), 0
    for number, shard in enumerate(several):
        compiled = has_compiled_tail(shard.readout)
        made = dict[str, pl.DataFrame]()
        for name in in_turn(shard, list(experiments), progress, partial(_compile_summaries, experiments, made)):
            progress(f"audit: {name}", done, rows)
            make = partial(experiments[name], shard)
            with compiling(partial(progress, f"audit: {name} (compiled once, on its first use)", done, rows)):
                made[name] = make() if compiled or keep is None else keep(name, number, make)
            yield name, made[name]
        done += len(shard)
        if SETTINGS.NUMBA_NUM_THREADS > 1 and compiled:
            yield from _at_once(experiments, several, done, rows, progress)
            return


def _compile_summaries(experiments: Mapping[str, Experiment], made: Mapping[str, pl.DataFrame]) -> None:
    for name, table in made.items():
        experiments[name].summarise(table.head(2).lazy())


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
