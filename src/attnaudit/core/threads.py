"""Threads for work split by rows, batches or seeds; no result depends on their number."""

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from jaxtyping import Int64

# Pieces of work for each thread, because rows with equally many values may take unequal times.
PIECES = 16
# Fewest values in a piece. To hand a smaller one to a thread takes longer than the work on it.
LEAST = 1 << 12


def cores() -> int:
    """Return ``$OMP_NUM_THREADS`` if it is a number, else the CPUs available to this process."""
    # OpenMP allows a list with a number for each nesting level; the first is for the outermost.
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if given.isdigit() and int(given) > 0:
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def take(number: int) -> None:
    """Use ``number`` threads from now on, in `on_threads` and in torch."""
    os.environ["OMP_NUM_THREADS"] = str(number)  # a torch that is loaded later reads it
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(number)


def on_threads(function: Callable[..., Any], *items: Sequence[Any]) -> list[Any]:
    """Call ``function`` for each item on all threads, and return the results as `map` does.

    Only a ``function`` that releases the GIL gains from this: a kernel compiled with
    ``nogil=True``, or numpy on large arrays.
    """
    threads = min(cores(), len(items[0]))
    if threads < 2:
        return list(map(function, *items))
    # Threads are Python's: numba's own parallel loops would change the number of torch's threads.
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, *items))


def over_rows(
    kernel: Callable[..., None], offsets: Int64[np.ndarray, " n1"], *arguments: Any
) -> None:
    """Call ``kernel(first, last, offsets, *arguments)`` for pieces of the rows, on all threads.

    Args:
        kernel: Function that works on the rows ``first`` to ``last - 1``.
        offsets: Begin of every row in flat values, and their end. Pieces have equally many values.
        *arguments: Further arguments of every call.
    """
    pieces = int(min(PIECES * cores(), offsets[-1] // LEAST))
    cuts = np.searchsorted(offsets, np.linspace(0, offsets[-1], max(pieces, 1) + 1)[1:-1])
    ends = np.unique([0, *cuts, len(offsets) - 1]).tolist()
    on_threads(lambda *rows: kernel(*rows, offsets, *arguments), ends[:-1], ends[1:])
