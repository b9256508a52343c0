"""Threads of the tests: one, so that processes side by side do not wait for each other; or two."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from attnaudit.core.threads import take


def take_one() -> None:
    """Use one thread from here on."""
    os.environ["OMP_NUM_THREADS"] = "1"
    take(1)


@contextmanager
def two_threads() -> Iterator[None]:
    """Use two threads within a block."""
    take(2)
    try:
        yield
    finally:
        take(1)
