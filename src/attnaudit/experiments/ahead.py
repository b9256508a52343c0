"""The first audit on a machine: what takes longest to compile is compiled by a second process, next to what this one compiles."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import numpy as np

from attnaudit.core.kernels import SETTINGS, is_compiled
from attnaudit.core.progress import Progress
from attnaudit.experiments.adversary.branch import bounded_row
from attnaudit.experiments.adversary.exact import one_logit_decides
from attnaudit.experiments.erasure.removal import first_flip
from attnaudit.trace import Trace, write_shards


def in_turn(trace: Trace, experiments: Sequence[str], progress: Progress) -> Generator[str, None, None]:
    """The names of the experiments as they are to be run: last those whose kernels another process compiles meanwhile.

    With one thread, or with everything compiled, there is no other process. One that fails costs time alone: kernels that it did not
    compile are compiled here.
    """
    later = _slowest(trace, experiments) if SETTINGS.NUMBA_NUM_THREADS > 1 else []
    now = [name for name in experiments if name not in later]
    if not now or not later:
        yield from experiments
        return
    with _compiling(trace, later) as process:
        yield from now
        progress(f"compile {' and '.join(later)} (once, on their first use)", 0, 0)
        process.wait()
    yield from later


def _slowest(trace: Trace, experiments: Sequence[str]) -> list[str]:
    """About half of what is to be compiled: the adversary, where more than one logit decides, else removals."""
    if "adversary" in experiments and not one_logit_decides(trace.readout) and not is_compiled(bounded_row):
        return ["adversary"]
    return [] if is_compiled(first_flip) else [name for name in ("erasure", "comprehensiveness") if name in experiments]


@contextmanager
def _compiling(trace: Trace, experiments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    with TemporaryDirectory() as folder:
        write_shards(f"{folder}/trace", [trace.take(np.zeros(1, np.int64))])
        program = f"import sys; from {__name__} import compile_for; compile_for(*sys.argv[1:])"
        command = [sys.executable, "-c", program, f"{folder}/trace", *experiments]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                yield process
            finally:
                process.terminate()


def compile_for(trace: str, *experiments: str) -> None:
    """What the second process does: the experiments on a trace of one row, for the code of their kernels."""
    from attnaudit.experiments import EXPERIMENTS

    for name in experiments:
        EXPERIMENTS[name]()(Trace.read(trace))
