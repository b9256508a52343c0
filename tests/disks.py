"""Files of the tests are not waited for until a disk has them: a process that is killed loses none of them, only a machine would."""

from __future__ import annotations

import os


def wait_for_none() -> None:
    """From here on, in this process and in those that it forks."""
    os.fsync = lambda handle: None
