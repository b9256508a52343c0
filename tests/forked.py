"""Work in processes that may be killed, forked from one that has imported everything: it starts once and imports once."""

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

T = TypeVar("T")
START = multiprocessing.get_context("forkserver")
START.set_forkserver_preload([
    "torch._dynamo",  # else by the first optimiser of a process, in seconds
    "attnaudit.experiments", "attnaudit.models.classifier", "attnaudit.models.weights", "attnaudit.models.log_odds",
    "attnaudit.report.study_page", "attnaudit.tracing.texts", "attnaudit.training.texts", "filelock", "pandas", "scipy.stats",
    "tests.killed",
])  # fmt: skip


def apart(work, *arguments):
    """What ``work``, a function of a module, answers in a process of its own, which has no threads yet and may fork."""
    with ProcessPoolExecutor(1, START) as process:
        return process.submit(work, *arguments).result()


def survived(work):
    """Whether ``work`` came to its end in a process of its own; SIGKILL is the only other end that is accepted."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0 or os.WTERMSIG(status) == 9, status
    return status == 0


def printed(program, *arguments, **environment):
    """What a Python program prints, which must end well, warnings being errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *map(str, arguments)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
