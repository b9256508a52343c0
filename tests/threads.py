"""Threads of compiled functions and of torch in the tests: one, so that processes side by side do not wait for each other; or two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numba
import torch


def take_one() -> None:
    """One thread from here on; numba's are launched first, since launching them changes how many torch uses."""
    numba.set_num_threads(1)
    torch.set_num_threads(1)


@contextmanager
def two_threads() -> Iterator[None]:
    """Within it compiled functions run on two threads."""
    numba.set_num_threads(2)
    try:
        yield
    finally:
        numba.set_num_threads(1)
