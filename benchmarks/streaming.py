"""Time and memory of an audit against the number of rows of its trace.

    python -m benchmarks.streaming [ROWS…] [--tokens 20] [--plot FILE] [OPTIONS]

Generate a trace of each number of rows, and audit it by the command line, with all experiments and
the report, or with other OPTIONS of `attnaudit audit`. Print a Markdown table. ``--plot`` draws the
memory of the last audit against time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import altair as alt
import polars as pl

from attnaudit.trace import write_shards
from benchmarks.cost import memory_of
from benchmarks.made_up import made_up_shards
from benchmarks.output import print_header, print_row, write_plot

ROWS = (10_000, 100_000, 1_000_000)
LIMIT = 1.5  # GiB that an audit of 10,000,000 rows may take
EVERY = 0.2  # seconds between two looks at the memory
COLUMNS = ("rows", "trace (MiB)", "audit (s)", "CPU µs a row", "peak memory (GiB)", "report (MiB)")


def watch(command: list[str]) -> tuple[float, pl.DataFrame]:
    """Run a command; return its CPU seconds, and its memory in GiB against seconds."""
    begun, rows = time.perf_counter(), []
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # A process that has ended stays until it is waited for, so its id is not another's.
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        rows.append((time.perf_counter() - begun, *memory_of(process.pid)))
        time.sleep(EVERY)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: exit status {os.waitstatus_to_exitcode(status)}")
    columns = ["seconds", "resident", "peak"]
    return used.ru_utime + used.ru_stime, pl.DataFrame(rows, schema=columns, orient="row")


def write_memory(path: Path, memory: pl.DataFrame, rows: int) -> None:
    """Draw resident memory and its peak against time."""
    chart = alt.Chart(memory[:: max(memory.height // 1000, 1)])
    lines = [
        chart.mark_line(strokeWidth=width, opacity=opacity, color="#4269d0").encode(
            x=alt.X("seconds:Q", title="seconds", scale=alt.Scale(nice=False)),
            y=alt.Y(f"{name}:Q", title="GiB"),
        )
        for name, width, opacity in (("resident", 1.2, 0.6), ("peak", 2.0, 1.0))
    ]
    limit = alt.Chart(pl.DataFrame({"y": [LIMIT]})).mark_rule(
        strokeDash=[4, 4], color="currentColor", opacity=0.7
    )
    label = f"Memory of an audit of {rows:,} rows, in GiB; its peak is {memory['peak'].max():.2f}"
    write_plot(path, alt.layer(*lines, limit.encode(y="y:Q")), label)


def main() -> None:
    """Audit a trace of each number of rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--tokens", type=int, default=20, help="of a row on average")
    parser.add_argument("--plot", type=Path)
    options, further = parser.parse_known_args()
    print_header(COLUMNS)
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            trace, out = Path(folder, "trace"), Path(folder, "audit")
            files = write_shards(trace, made_up_shards(rows, options.tokens))
            size = sum(file.stat().st_size for file in files) / 2**20
            command = [sys.executable, "-m", "attnaudit", "audit", str(trace), "--out", str(out)]
            cpu, memory = watch([*command, *further])
            seconds, page = memory["seconds"][-1], (out / "report.html").stat().st_size / 2**20
        figures = f"{seconds:.1f}", f"{1e6 * cpu / rows:.0f}", f"{memory['peak'].max():.2f}"
        print_row([f"{rows:,}", f"{size:.0f}", *figures, f"{page:.1f}"])
        if options.plot:
            write_memory(options.plot, memory, rows)


if __name__ == "__main__":
    main()
