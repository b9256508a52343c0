"""A small transformer from nothing to the report: trained on SST, its attention audited.

    python -m benchmarks.transformer_path --data-dir DIR [--threads N]

Run the command that a user gives. Print a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from attnaudit.core.files import read_json
from benchmarks.cost import cost_of_attnaudit
from benchmarks.output import print_header, print_row

MOST = 360.0  # seconds


def main() -> None:
    """Measure the command and its steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--threads", type=int, help="of an operation of torch; default: all cores")
    options = parser.parse_args()
    threads = {"OMP_NUM_THREADS": str(options.threads)} if options.threads else {}
    command = ["run", "sst", "--model", "small-bert", "--data-dir", options.data_dir]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        cost = cost_of_attnaudit([*command, "--out", str(run)], {**os.environ, **threads})
        timings = read_json(run / "manifest.json")["timings"]
        accuracy = next(
            row["value"]
            for row in read_json(run / "summary.json")
            if (row["measure"], row["group"]) == ("accuracy", "all")
        )
    steps = (f"{seconds:.0f}" for seconds in timings.values())
    columns = (
        "wall (s)",
        "CPU (s)",
        "peak memory (GiB)",
        *(f"{name} (wall s)" for name in timings),
    )
    print_header((*columns, "accuracy on test", f"at most {MOST:.0f} s"))
    reached = "yes" if cost.wall <= MOST else "no"
    figures = f"{cost.wall:.0f}", f"{cost.cpu:.0f}", f"{cost.memory:.2f}"
    print_row([*figures, *steps, f"{accuracy:.3f}", reached])


if __name__ == "__main__":
    main()
