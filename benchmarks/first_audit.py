"""CPU seconds that the first audit on a machine takes more than the second: compiling kernels.

    python -m benchmarks.first_audit [--rows N]

Run `attnaudit demo`, and audit generated traces of each kind, first with an empty folder of
compiled code, then again. Print a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from attnaudit.trace import Trace, write_shards
from benchmarks.cost import cost_of_attnaudit
from benchmarks.output import print_header, print_row
from tests.traces import make_trace


def kinds(rows: int) -> dict[str, Trace]:
    """Generate a trace of each kind of tail."""
    return {
        "two classes": make_trace(rows, (3, 30), 1),
        "three classes": make_trace(rows, (3, 12), 3),
        "tanh tail, three classes": make_trace(rows, (3, 8), 3, hidden=4),
    }


def print_first_and_second(name: str, command: Sequence[str], folder: Path) -> None:
    """Print the row of a command, each time into a new folder, because finished work is reused."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "code")}
    first, second = (
        cost_of_attnaudit([*command, "--json", "--out", str(folder / out)], environment)
        for out in ("first", "second")
    )
    figures = first.wall, second.wall, first.wall - second.wall, first.cpu, second.cpu
    print_row([name, *(f"{seconds:.1f}" for seconds in figures)])


def main() -> None:
    """Measure all commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20)
    rows = parser.parse_args().rows
    columns = ("command", "first (s)", "second (s)", "more (s)", "first (CPU s)", "second (CPU s)")
    print_header(columns)
    with tempfile.TemporaryDirectory() as folder:
        print_first_and_second("demo", ["demo"], Path(folder))
    for name, trace in kinds(rows).items():
        with tempfile.TemporaryDirectory() as folder:
            write_shards(Path(folder, "trace"), [trace])
            command = ["audit", str(Path(folder, "trace"))]
            print_first_and_second(f"audit, {name}", command, Path(folder))


if __name__ == "__main__":
    main()
