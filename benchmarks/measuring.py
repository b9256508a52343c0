"""Measure one side of one experiment in a process of its own: seconds, memory and values."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import time
from collections.abc import Callable
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.cost import memory_of
from benchmarks.sides import SIDES, Side

# Freed memory stays with the process. Otherwise glibc maps large arrays anew each time, and page
# faults are what is measured.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(1 << 25), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
SHORT = 12  # tokens of the texts that compile the kernels
REPEATS, SPENT = 5, 2.0  # calls at least, unless they have taken so many seconds


class Measured(NamedTuple):
    """Median seconds of an instance, peak memory beyond what was held before (GiB), and values."""

    seconds: float
    memory: float
    values: np.ndarray


def median_seconds(call: Callable[[], object], repeats: int = 3) -> float:
    """Return the median of repeated calls without the first, which compiles."""
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return float(np.median(seconds[1:] or seconds))


def measured_apart(experiment: str, side: str, length: int) -> Measured:
    """Measure one side in a fresh process."""
    return apart(measure_side, experiment, side, length)


def apart(measure: Callable[..., Measured], *arguments: object) -> Measured:
    """Call ``measure`` in a process forked from one that has only loaded the libraries."""
    os.environ.update(ALLOCATOR)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.measuring"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=send, args=(sender, measure, arguments))
    process.start()
    sender.close()  # so that a process that ends without an answer is noticed
    answer = receiver.recv()
    process.join()
    return answer


def send(
    sender: Connection, measure: Callable[..., Measured], arguments: tuple[object, ...]
) -> None:
    """Send what ``measure`` returns."""
    sender.send(measure(*arguments))


def measure_side(experiment: str, name: str, length: int) -> Measured:
    """Measure a side of `SIDES` after a call that compiles."""
    SIDES[experiment][name](SHORT).call(np.arange(2))
    return measured(SIDES[experiment][name](length))


def measured(side: Side) -> Measured:
    """Measure all rows chunk by chunk, once if time allows.

    The first call, which has to ask for its memory, counts only if it is the only one.
    """
    chunks = side.chunks(np.arange(side.count))
    held, started = forget_peak(), time.perf_counter()
    seconds: list[float] = []
    values: list[np.ndarray] = []
    for call in count():
        rows = chunks[call % len(chunks)]
        begun = time.perf_counter()
        found = side.call(rows)
        seconds.append((time.perf_counter() - begun) / len(rows))
        values.extend([found] if call < len(chunks) else [])
        if call >= max(len(chunks), REPEATS) or time.perf_counter() - started > SPENT:
            break
    memory, reached = memory_of()[1] - held, np.concatenate(values)
    if side.same_draws is not None:
        reached = side.same_draws(np.arange(len(reached)))
    return Measured(float(np.median(seconds[1:] or seconds)), memory, reached)


def forget_peak() -> float:
    """Give back free memory, start the peak anew and return it, in GiB."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return memory_of()[1]
