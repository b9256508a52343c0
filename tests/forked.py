"""Work in a forked process that may be killed: the imports before the fork are done once."""

from __future__ import annotations

import os
from collections.abc import Callable


def survived(work: Callable[[], object]) -> bool:
    """Whether ``work`` came to its end in a process of its own; SIGKILL is the only other end that is accepted."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0 or os.WTERMSIG(status) == 9, status
    return status == 0
