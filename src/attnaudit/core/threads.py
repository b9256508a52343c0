"""How many threads work that is split by rows, batches or seeds takes: as many as there are cores, and its results do not depend on it."""

from __future__ import annotations

import os
import sys


def cores() -> int:
    """``$OMP_NUM_THREADS`` where it is set to a number, else the processors that this process may use."""
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if given.isdigit() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def take(number: int) -> None:
    """From here on this process takes ``number`` threads: what is split by `cores`, compiled kernels, and torch where it is loaded."""
    from attnaudit.core.kernels import SETTINGS

    os.environ["OMP_NUM_THREADS"] = str(number)  # torch that is loaded later reads it
    SETTINGS.NUMBA_NUM_THREADS = number
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(number)
