"""The first audit on a machine: a second process compiles kernels while this one compiles others, or trains the model to be audited."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory

import numpy as np

from attnaudit.core.kernels import SETTINGS, is_compiled
from attnaudit.core.progress import Progress
from attnaudit.experiments.adversary.branch import bounded_rows
from attnaudit.experiments.adversary.exact import one_logit_decides
from attnaudit.experiments.erasure.rows import erase_rows
from attnaudit.experiments.through_tail import has_compiled_tail
from attnaudit.trace import Trace, write_shards


def in_turn(
    trace: Trace,
    experiments: Sequence[str],
    progress: Progress,
    meanwhile: Callable[[], None] = lambda: None,
) -> Generator[str, None, None]:
    """The names of the experiments as they are to be run: last those whose kernels another process compiles meanwhile.

    Before it waits for the other process it calls ``meanwhile``. With one thread, or with everything compiled, there is no other process.
    One that fails costs time alone: kernels that it did not compile are compiled here.
    """
    later = _slowest(trace, experiments)
    now = [name for name in experiments if name not in later]
    if not now or not later:
        yield from experiments
        return
    with _compiling(trace, later) as process:
        yield from now
        progress(f"compile {' and '.join(later)} (once, on their first use)", 0, 0)
        meanwhile()
        if process is not None:
            process.wait()
    yield from later


@contextmanager
def compiled_meanwhile(trace: Trace, experiments: Sequence[str]) -> Iterator[None]:
    """Within it another process compiles the kernels of the experiments, the slowest first; what is not done at its end is dropped.

    ``trace`` is any trace of the kind that is audited later. There is no process with one thread, or where the slowest are compiled.
    """
    slowest = _slowest(trace, experiments)
    if not slowest:
        yield
        return
    with _compiling(trace, [*slowest, *(name for name in experiments if name not in slowest)]):
        yield


def _slowest(trace: Trace, experiments: Sequence[str]) -> list[str]:
    """About half of what is to be compiled: the adversary, where more than one logit decides, else removals; none with one thread.

    With the adversary go the ranges, which search by its kernels. A tail that no kernel computes needs hardly any kernel.
    """
    if SETTINGS.NUMBA_NUM_THREADS == 1 or not has_compiled_tail(trace.readout):
        return []
    if (
        "adversary" in experiments
        and not one_logit_decides(trace.readout)
        and not is_compiled(bounded_rows)
    ):
        return [name for name in ("adversary", "ranges") if name in experiments]
    return (
        []
        if is_compiled(erase_rows)
        else [name for name in ("erasure", "comprehensiveness") if name in experiments]
    )


@contextmanager
def _compiling(
    trace: Trace, experiments: Sequence[str]
) -> Iterator[subprocess.Popen[bytes] | None]:
    """The process, ended at the end; None where none can be started."""
    with ExitStack() as stack:
        try:
            process = _started(stack, trace, experiments)
        except OSError:
            process = None
        yield process


def _started(stack: ExitStack, trace: Trace, experiments: Sequence[str]) -> subprocess.Popen[bytes]:
    """It also ends when this process does, which closes the pipe that it reads from."""
    folder = stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True))
    write_shards(f"{folder}/trace", [trace.take(np.zeros(1, np.int64))])
    program = f"import sys; from {__name__} import compile_for; compile_for(*sys.argv[1:])"
    command = [sys.executable, "-c", program, f"{folder}/trace", *experiments]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    stack.enter_context(process)
    stack.callback(process.terminate)
    return process


def compile_for(trace: str, *experiments: str) -> None:
    """What the second process does, and ends: the experiments on a trace of one row, for the code of their kernels."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from attnaudit.experiments import make_experiment, refusal

    one_row = Trace.read(trace)
    for experiment in map(make_experiment, experiments):
        if refusal(experiment, one_row) is None:
            experiment(one_row)
    os._exit(0)  # Python would take a second to free what numba made


def _end_with_parent() -> None:
    os.read(
        sys.stdin.fileno(), 1
    )  # the end of the pipe; unbuffered, so that no lock is held when the work is done first
    os._exit(1)
