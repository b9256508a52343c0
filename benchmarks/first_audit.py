"""CPU seconds that the first audit on a machine takes more than the second: compiling kernels.

    python -m benchmarks.first_audit [--rows N]

Run `attnaudit demo`, train and audit on a csv file of 3,000 texts with column names of its own, and
audit generated traces of each kind, first with an empty folder of compiled code, then again. Print
a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

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


def write_reviews(path: Path, texts: int = 3000) -> None:
    """Write texts of 5 to 40 words, one of which decides the label, and labels."""
    rng = np.random.default_rng(0)
    fillers = [f"word{k}" for k in range(2000)]
    lines = ["body,stars"]
    for _ in range(texts):
        label = int(rng.integers(2))
        words = rng.choice(fillers, rng.integers(5, 40)).tolist()
        words[int(rng.integers(len(words)))] = ("dull", "superb")[label]
        lines.append(f"{' '.join(words)},{label}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


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
    with tempfile.TemporaryDirectory() as folder:
        reviews = Path(folder, "reviews.csv")
        write_reviews(reviews)
        command = ["run", str(reviews), "--column", "text=body", "--column", "label=stars"]
        print_first_and_second("run, a csv of 3,000 texts", command, Path(folder))
    for name, trace in kinds(rows).items():
        with tempfile.TemporaryDirectory() as folder:
            write_shards(Path(folder, "trace"), [trace])
            command = ["audit", str(Path(folder, "trace"))]
            print_first_and_second(f"audit, {name}", command, Path(folder))


if __name__ == "__main__":
    main()
