"""Compute the tables of all experiments, several shards of a trace at a time."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np
import polars as pl

from attnaudit.core import Progress
from attnaudit.core.progress import ignore
from attnaudit.core.threads import cores
from attnaudit.experiments.registry import Experiment, Replaying
from attnaudit.experiments.through_tail import has_compiled_tail
from attnaudit.trace import Trace
from attnaudit.trace.tails import Network

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
        progress: Callback for the number of rows done. Each experiment counts as a share of a row,
            by the outputs that it asks of a model that is run again.
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
        asked = {name: _outputs(one, shard) for name, one in experiments.items()}
        for name, experiment in experiments.items():
            if stopped.is_set():
                return
            begun, share = done, len(shard) * asked[name] / sum(asked.values())

            def tell(replays: int, name: str = name, begun: float = begun, share: float = share):
                nonlocal read
                read += replays
                part = share * min(read / asked[name], 1.0)
                progress(f"audit: {name}, {read:,} outputs", round(begun + part), rows)

            with lock:
                progress(f"audit: {name}", round(done), rows)
            read = 0
            if isinstance(shard.tail, Network):
                shard.tail.replays = tell
            make = partial(experiment, shard)
            yield name, keep(name, number, make) if keep is not None and slow else make()
            if isinstance(shard.tail, Network):
                shard.tail.replays = ignore
            with lock:
                done += share

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


def _outputs(experiment: Experiment, shard: Trace) -> float:
    """Estimate the outputs that an experiment asks of a model that is run again; 1 without one."""
    if not (isinstance(shard.tail, Network) and isinstance(experiment, Replaying)):
        return 1.0
    heads = len(np.unique(shard.array("head"))) if shard.has("head") else 1
    return 1.0 + float(experiment.passes(shard.alpha.lengths, heads).sum())


def _is_network(shard: Trace) -> bool:
    return shard.has("readout") and not has_compiled_tail(shard.readout)
