"""The tables of all experiments on the shards of a trace, several shards at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np
import polars as pl

from attnaudit.core.kernels import SETTINGS, compiling
from attnaudit.core.progress import Progress
from attnaudit.experiments.adversary.exact import one_logit_decides
from attnaudit.experiments.ahead import in_turn
from attnaudit.experiments.registry import Experiment
from attnaudit.experiments.through_tail import has_compiled_tail
from attnaudit.trace import Trace

PART = 128  # rows, of a shard that takes long, after which progress is reported
Tables = list[tuple[str, pl.DataFrame]]
Keep = Callable[
    [str, int, Callable[[], pl.DataFrame]], pl.DataFrame
]  # of an experiment, the number of a shard, and what makes the table


def tables_of_shards(
    experiments: Mapping[str, Experiment],
    shards: Iterable[Trace],
    rows: int,
    progress: Progress,
    keep: Keep | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Iterator[tuple[str, pl.DataFrame]]:
    """The table of every experiment on every shard, those of one experiment in order; ``progress`` reports how many rows are done.

    Kernels run without Python's lock, what is around them does not: one shard after another would leave a core idle meanwhile. The first
    is done alone, and compiles the kernels. So is each whose tail no kernel computes: a network has threads of its own. The tables of these
    take long; with ``keep`` they are those that it has, and it keeps new ones. ``meanwhile`` is called before the wait for a process that
    compiles kernels.
    """
    several, done = iter(shards), 0
    for number, shard in enumerate(several):
        compiled = has_compiled_tail(shard.readout)
        parts, made = _parts(shard), dict[str, pl.DataFrame]()
        for name in in_turn(
            shard,
            list(experiments),
            progress,
            partial(_before_the_wait, experiments, made, meanwhile),
        ):
            make = partial(
                _table, experiments[name], parts, _Done(progress, f"audit: {name}", done, rows)
            )
            with compiling(
                partial(progress, f"audit: {name} (compiled once, on its first use)", done, rows)
            ):
                made[name] = make() if compiled or keep is None else keep(name, number, make)
            yield name, made[name]
        done += len(shard)
        if SETTINGS.NUMBA_NUM_THREADS > 1 and compiled:
            yield from _at_once(
                experiments, several, _Done(progress, "audit", done, rows, 1 / len(experiments))
            )
            return


class _Done:
    """Reports how many rows are done, of which an experiment is a ``share``, for several threads."""

    def __init__(
        self, progress: Progress, what: str, done: float, rows: int, share: float = 1.0
    ) -> None:
        self.progress, self.what, self.done, self.rows, self.share, self.lock = (
            progress,
            what,
            done,
            rows,
            share,
            threading.Lock(),
        )

    def report(self) -> None:
        with self.lock:
            self.progress(self.what, round(self.done), self.rows)

    def add(self, rows: int) -> None:
        with self.lock:
            self.done += self.share * rows


def _parts(shard: Trace) -> list[Trace]:
    """Pieces of a shard that takes long, whose adversary is one of several logits. Heads of one text, which are compared, stay together."""
    readout = shard.readout
    if (
        len(shard) <= PART
        or "head" in shard.table.column_names
        or not has_compiled_tail(readout)
        or one_logit_decides(readout)
    ):
        return [shard]
    return [
        shard.take(np.arange(start, min(start + PART, len(shard))))
        for start in range(0, len(shard), PART)
    ]


def _table(experiment: Experiment, parts: Iterable[Trace], done: _Done) -> pl.DataFrame:
    """The table of all parts of a shard."""
    tables = list[pl.DataFrame]()
    for part in parts:
        done.report()
        tables.append(experiment(part))
        done.add(len(part))
    return pl.concat(tables, rechunk=True)


def _before_the_wait(
    experiments: Mapping[str, Experiment],
    made: Mapping[str, pl.DataFrame],
    meanwhile: Callable[[], None],
) -> None:
    for name, table in made.items():
        experiments[name].summarise(table.head(2).lazy())  # for the kernels of summaries
    meanwhile()


def _at_once(
    experiments: Mapping[str, Experiment], shards: Iterable[Trace], done: _Done
) -> Iterator[tuple[str, pl.DataFrame]]:
    """As many shards at a time as there are threads, while the next is read."""
    stopped, waiting = threading.Event(), deque[Future[Tables]]()

    def tables(shard: Trace) -> Tables:
        parts = _parts(shard)
        return [
            (name, _table(experiment, parts, done))
            for name, experiment in experiments.items()
            if not stopped.is_set()
        ]

    with ThreadPoolExecutor(SETTINGS.NUMBA_NUM_THREADS) as pool:
        try:
            for shard in shards:
                waiting.append(pool.submit(tables, shard))
                if len(waiting) > SETTINGS.NUMBA_NUM_THREADS:
                    yield from waiting.popleft().result()
            for future in waiting:
                yield from future.result()
        finally:
            stopped.set()
