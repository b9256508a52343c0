"""Threads of the tests: one, so that processes side by side do not wait for each other; or two."""

import os
from contextlib import contextmanager

from attnaudit.core.threads import take


def take_one():
    """Use one thread from here on."""
    os.environ["OMP_NUM_THREADS"] = "1"
    take(1)


@contextmanager
def two_threads():
    """Use two threads within a block."""
    take(2)
    try:
        yield
    finally:
        take(1)
