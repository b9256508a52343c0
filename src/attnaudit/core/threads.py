"""Threads for work split by rows, batches or seeds; no result depends on their number."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

CHUNKS = 16  # per thread, so that rows of different lengths keep all threads busy


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
    """Use ``number`` threads from now on, in `over_rows` and in torch."""
    os.environ["OMP_NUM_THREADS"] = str(number)  # a torch that is loaded later reads it
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(number)


def over_rows(function: Callable[..., Any], rows: int, *arguments: Any) -> list[Any]:
    """Call ``function(first, last, *arguments)`` for chunks of rows, on all threads.

    Only a ``function`` that releases the GIL gains from this: a kernel compiled with
    ``nogil=True``, or numpy on large arrays.

    Args:
        function: Function that works on the rows ``first`` to ``last - 1``.
        rows: Number of rows, 0 or more.
        *arguments: Further arguments of every call.

    Returns:
        The results of the calls, in the order of the rows.
    """
    # Threads are Python's: numba's own parallel loops would change the number of torch's threads.
    threads = cores()
    if threads == 1 or rows < 2:
        return [function(0, rows, *arguments)]
    ends = np.unique(np.linspace(0, rows, CHUNKS * threads + 1).astype(np.int64)).tolist()
    # The first call runs before the others, because several threads would each compile the kernel.
    done = [function(0, ends[1], *arguments)]
    with ThreadPoolExecutor(threads) as pool:
        more = pool.map(lambda first, last: function(first, last, *arguments), ends[1:-1], ends[2:])
        return done + list(more)
