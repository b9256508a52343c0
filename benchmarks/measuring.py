"""Seconds, memory and values of one side of one experiment, each in a process of its own under the same settings of the allocator."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmarks.sides import SIDES, Side

# What was freed stays with the process: else glibc maps large arrays anew each time, and page faults are what is measured.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(1 << 25), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
SHORT = 12  # tokens of the texts that compile the kernels
REPEATS, SPENT = 5, 2.0  # calls at least, unless they have taken so many seconds


@dataclass(frozen=True)
class Measured:
    """``seconds`` per instance, the median of repeated calls; ``memory`` beyond what the process held before, in bytes; the ``values``."""

    seconds: float
    memory: float
    values: np.ndarray


def measured_apart(experiment: str, side: str, length: int) -> Measured:
    """One side measured in a fresh process."""
    return apart(measure_side, experiment, side, length)


def apart(measure: Callable[..., Measured], *arguments: object) -> Measured:
    """``measure(*arguments)`` in a fresh process, forked from one that has loaded the libraries and computed nothing."""
    os.environ.update(ALLOCATOR)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.measuring"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=send, args=(sender, measure, arguments))
    process.start()
    sender.close()  # so that the end of a process that says nothing is noticed
    answer = receiver.recv()
    process.join()
    return answer


def send(
    sender: Connection, measure: Callable[..., Measured], arguments: tuple[object, ...]
) -> None:
    sender.send(measure(*arguments))


def measure_side(experiment: str, name: str, length: int) -> Measured:
    SIDES[experiment][name](SHORT).call(np.arange(2))
    return measured(SIDES[experiment][name](length))


def measured(side: Side) -> Measured:
    """All rows once where time allows, chunk by chunk; the first call, which finds no memory at hand, counts only if it is alone."""
    chunks = [
        np.arange(start, min(start + side.together, side.count))
        for start in range(0, side.count, side.together)
    ]
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
    memory, reached = peak() - held, np.concatenate(values)
    if side.same_draws is not None:
        reached = side.same_draws(np.arange(len(reached)))
    return Measured(float(np.median(seconds[1:] or seconds)), memory, reached)


def forget_peak() -> float:
    """Give back what is free, start the peak anew and return the resident size; NaN where the system does not let us."""
    references = Path("/proc/self/clear_refs")
    if not references.exists():
        return np.nan
    ctypes.CDLL(None).malloc_trim(0)
    references.write_text("5")
    return peak()


def peak() -> float:
    """Largest resident size since the peak was forgotten, in bytes."""
    status = Path("/proc/self/status")
    if not status.exists():
        return np.nan
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return 1024.0 * int(line.split()[1])
