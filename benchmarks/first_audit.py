"""What the first audit of a machine costs more than the second: kernels are compiled in the first, and loaded in the second.

    python benchmarks/first_audit.py [--rows N]

`attnaudit demo`, and generated traces of each kind, audited by the command line, each first with an empty folder of compiled code.
Prints a markdown table.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
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


def timed(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU seconds of a command of attnaudit."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    argv = [sys.executable, "-m", "attnaudit", *command, "--json"]
    subprocess.run(
        argv, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        time.perf_counter() - begun,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    )


def first_and_second(name: str, command: Sequence[str], folder: Path) -> None:
    """Print the row of a command, each time into a new folder, as what is there already is not done again."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "code")}
    (first, first_cpu), (second, second_cpu) = (
        timed([*command, "--out", str(folder / out)], environment) for out in ("first", "second")
    )
    print(
        f"| {name} | {first:.1f} | {second:.1f} | {first - second:.1f} | {first_cpu:.1f} | {second_cpu:.1f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20)
    options = parser.parse_args()
    columns = ("command", "first (s)", "second (s)", "more (s)", "first (CPU s)", "second (CPU s)")
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    with tempfile.TemporaryDirectory() as folder:
        first_and_second("demo", ["demo"], Path(folder))
    for name, trace in kinds(options.rows).items():
        with tempfile.TemporaryDirectory() as folder:
            write_shards(Path(folder, "trace"), [trace])
            first_and_second(f"audit, {name}", ["audit", str(Path(folder, "trace"))], Path(folder))


if __name__ == "__main__":
    main()
