"""Threads of compiled kernels and of torch in the tests: one, so that processes side by side do not wait for each other; or two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from numba.core import config

SETTINGS: Any = config


def take_one() -> None:
    """One thread from here on."""
    SETTINGS.NUMBA_NUM_THREADS = 1
    torch.set_num_threads(1)


@contextmanager
def two_threads() -> Iterator[None]:
    """Within it compiled kernels run on two threads."""
    SETTINGS.NUMBA_NUM_THREADS = 2
    try:
        yield
    finally:
        SETTINGS.NUMBA_NUM_THREADS = 1
