"""What the first audit of a machine costs more than the second: kernels are compiled in the first, and loaded in the second.

    python benchmarks/first_audit.py [--rows N]

Generated traces of each kind, audited by the command line, each first with an empty folder of compiled code. CPU seconds are those of the
command and of the process that it compiles with. Prints a markdown table.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from attnaudit.trace import Trace, write_shards
from tests.traces import make_trace


def kinds(rows: int) -> dict[str, Trace]:
    return {
        "two classes": make_trace(rows, (3, 30), 1),
        "three classes": make_trace(rows, (3, 12), 3),
        "tanh tail, three classes": make_trace(rows, (3, 8), 3, hidden=4),
    }


def audited(trace: Path, out: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU seconds of one audit; ``out`` is a new folder, as an audit that is there already is not done again."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "attnaudit", "audit", str(trace), "--out", str(out), "--json"]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - begun, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20)
    options = parser.parse_args()
    columns = ("trace", "first (s)", "second (s)", "more (s)", "first (CPU s)", "second (CPU s)")
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for name, trace in kinds(options.rows).items():
        with tempfile.TemporaryDirectory() as folder:
            write_shards(Path(folder, "trace"), [trace])
            environment = {**os.environ, "NUMBA_CACHE_DIR": str(Path(folder, "code"))}
            (first, first_cpu), (second, second_cpu) = (
                audited(Path(folder, "trace"), Path(folder, out), environment) for out in ("first", "second")
            )
        print(f"| {name} | {first:.1f} | {second:.1f} | {first - second:.1f} | {first_cpu:.1f} | {second_cpu:.1f} |", flush=True)


if __name__ == "__main__":
    main()
