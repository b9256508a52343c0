"""Compute the tables of all experiments, several shards of a trace at a time."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import polars as pl

from attnaudit.core import Progress
from attnaudit.core.threads import cores
from attnaudit.experiments.registry import Experiment
from attnaudit.experiments.through_tail import has_compiled_tail
from attnaudit.trace import Trace

Tables = Iterator[tuple[str, pl.DataFrame]]
# Called with an experiment's name, a shard's number and a function that computes the table.
Keep = Callable[[str, int, Callable[[], pl.DataFrame]], pl.DataFrame]


def tables_of_shards(
    experiments: Mapping[str, Experiment],
    shards: Iterable[Trace],
    rows: int,
    progress: Progress,
    keep: Keep | None = None,
) -> Tables:
    """Compute the table of each experiment on each shard, in the order of shards.

    The first shard runs alone, because it compiles the kernels. The others run side by side, one
    per thread: while the Python code of one shard holds the GIL, kernels of the others run. A shard
    whose tail is a network always runs alone, because the network has threads of its own.

    Args:
        experiments: Experiments by name.
        shards: Parts of one trace.
        rows: Number of rows of the whole trace.
        progress: Callback for the number of rows done; each experiment counts as a share of a row.
        keep: Cache of slow tables, those that need a network: it computes and stores a table, or
            returns the stored one.

    Yields:
        Names of experiments with their tables.
    """
    done, lock, stopped = 0.0, threading.Lock(), threading.Event()
    waiting = deque[Future[list[tuple[str, pl.DataFrame]]]]()

    def tables(number, shard):
        nonlocal done
        slow = keep is not None and _is_network(shard)
        for name, experiment in experiments.items():
            if stopped.is_set():
                return
            with lock:
                progress(f"audit: {name}", round(done), rows)
            make = partial(experiment, shard)
            yield name, keep(name, number, make) if keep is not None and slow else make()
            with lock:
                done += len(shard) / len(experiments)

    with ThreadPoolExecutor(cores()) as pool:
        try:
            for number, shard in enumerate(shards):
                if number == 0 or cores() == 1 or _is_network(shard):
                    yield from tables(number, shard)
                    continue
                waiting.append(pool.submit(list, tables(number, shard)))
                # One shard waits beyond those in progress: no thread idles while the next one is
                # read, and memory stays bounded.
                if len(waiting) > cores():
                    yield from waiting.popleft().result()
            for future in waiting:
                yield from future.result()
        finally:
            # After an error the pool still runs what is queued, which then has nothing to do.
            stopped.set()


def _is_network(shard: Trace) -> bool:
    return shard.has("readout") and not has_compiled_tail(shard.readout)
