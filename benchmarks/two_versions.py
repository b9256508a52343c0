"""Time of experiments in two versions of the package, call by call in turn.

    python -m benchmarks.two_versions SRC [TRACE ...] [--only NAME ...] [--threads 1 2] [--repeat N]

SRC is the folder `src` of a checkout of the other version. Without a trace, generated ones of three
sizes and three kinds are timed. ``--only audit`` times the whole command with its page. The least
time of all calls counts. CPU time is that of all threads; on busy cores only CPU times can be
compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.experiments import EXPERIMENTS, make_experiment, refusal
from attnaudit.trace import Trace
from benchmarks.cost import cost_of_attnaudit

ROOT = Path(__file__).parents[1]
SIZES = ((2_000, 20), (20_000, 20), (500, 400))
KINDS: dict[str, dict[str, Any]] = {
    "two classes": {"outputs": 1},
    "five classes": {"outputs": 5},
    "tanh tail": {"outputs": 5, "hidden": 16},
}
COLUMNS = ("then, CPU", "now, CPU", "ratio", "then, wall", "now, wall", "ratio")


class Version:
    """A process with one version, which times the calls that it is asked for."""

    def __init__(self, source: Path, threads: int) -> None:
        names = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
        settings = dict.fromkeys(names, str(threads))
        paths = os.pathsep.join(map(str, (source.resolve(), ROOT)))
        self.environment = {**os.environ, **settings, "PYTHONPATH": paths}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.two_versions", "answer"],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, trace: Path, name: str) -> list[float]:
        """Return CPU and wall seconds of a call; an empty list if it does not apply."""
        if name == "audit":
            with tempfile.TemporaryDirectory() as folder:
                whole = ["audit", str(trace), "--out", f"{folder}/audit"]
                cost = cost_of_attnaudit(whole, self.environment)
            return [cost.cpu, cost.wall]
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([str(trace), name]), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def answer() -> None:
    """Time the calls asked for on standard input."""
    read: dict[str, Trace] = {}
    for line in sys.stdin:
        path, name = json.loads(line)
        if path not in read:
            read = {path: Trace.read(path)}
        trace, taken = read[path], list[float]()
        experiment = make_experiment(name) if name in EXPERIMENTS else None
        if experiment is not None and refusal(experiment, trace) is None:
            wall, cpu = time.perf_counter(), time.process_time()
            experiment(trace)
            taken = [time.process_time() - cpu, time.perf_counter() - wall]
        print(json.dumps(taken), flush=True)


def generated(folder: Path) -> list[Path]:
    """Write a trace of each size and kind."""
    from tests.traces import make_trace  # the other version does not need to know it

    traces = []
    for rows, length in SIZES:
        for kind, options in KINDS.items():
            traces.append(folder / f"{kind}, {rows:,} of T ≈ {length}")
            lengths = (length // 2, length * 3 // 2)
            make_trace(rows, lengths, seed=3, **options).write(traces[-1])
    return traces


def main() -> None:
    """Print the times of both versions, and their ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--only", nargs="+", default=list(EXPERIMENTS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    from benchmarks.output import print_header, print_row

    def print_times(trace: Path, threads: int, name: str, times: np.ndarray) -> None:
        cells = (f"{then:.1f} | {now:.1f} | {now / then:.2f}" for then, now in times.T)
        print_row([trace.name, threads, name, *cells])

    with tempfile.TemporaryDirectory() as folder:
        traces = options.traces or generated(Path(folder))
        print_header(("trace", "threads", "experiment (ms)", *COLUMNS))
        for threads in options.threads:
            versions = [Version(source, threads) for source in (options.source, ROOT / "src")]
            for trace in traces:
                total = np.zeros((2, 2))
                for name in options.only:
                    calls = [
                        [version.seconds(trace, name) for version in versions]
                        for _ in range(options.repeat + 1)
                    ]
                    # The first call compiles, or loads compiled code.
                    if all(calls[0]):
                        least = 1e3 * np.min(calls[1:], axis=0)
                        print_times(trace, threads, name, least)
                        total += least
                print_times(trace, threads, "all", total)


if __name__ == "__main__":
    answer() if sys.argv[1:] == ["answer"] else main()
