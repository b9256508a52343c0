"""Threads of work that is split by rows, batches or seeds; no result depends on their number."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

CHUNKS = 16  # a thread, so that rows of unlike length keep all threads busy


def cores() -> int:
    """Return ``$OMP_NUM_THREADS`` if it is a number, else the processors of this process."""
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
    """Call ``function(first, last, *arguments)`` for chunks of ``rows`` rows, on all threads.

    ``function`` must release the GIL to gain anything: a kernel compiled with ``nogil=True``, or
    numpy on large arrays. Threads are Python's, since numba's own would change those of torch.

    Args:
        function: Works on the rows ``first`` to ``last - 1``.
        rows: Number of rows, 0 or more.
        *arguments: Passed on to every call.

    Returns:
        What the calls returned, in the order of the rows.
    """
    threads = cores()
    if threads == 1 or rows < 2:
        return [function(0, rows, *arguments)]
    ends = np.unique(np.linspace(0, rows, CHUNKS * threads + 1).astype(np.int64)).tolist()
    # The first chunk is done alone: it compiles the kernel, which threads would do several times.
    done = [function(0, ends[1], *arguments)]
    with ThreadPoolExecutor(threads) as pool:
        more = pool.map(lambda first, last: function(first, last, *arguments), ends[1:-1], ends[2:])
        return done + list(more)
