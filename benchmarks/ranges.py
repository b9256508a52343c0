"""Possible and necessary weights, and linear programs on the same traces.

    python -m benchmarks.ranges [TRACE…]

The plain way is `tests/oracles/ranges.py`: a minimum and a maximum for every token by
`scipy.optimize.linprog`, all tokens of an instance in one call. Without arguments, a generated trace
of the size of the SST test set. Print a Markdown table.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import polars as pl

from attnaudit.experiments.ranges.experiment import Ranges
from attnaudit.trace import Trace
from benchmarks.made_up import sst_sized
from benchmarks.measuring import median_seconds
from benchmarks.output import print_header, print_row
from tests.oracles.ranges import ranges_by_programs

COLUMNS = (
    *("trace", "instances", "mean T", "linprog (s)", "ours, first call (ms)", "ours (ms)", "ratio"),
    *("largest difference", "mean possible weight", "no necessary token"),
)
EPSILON, REPEATS = 0.01, 9


def row_of(name: str, trace: Trace) -> list[str]:
    """Compare the ranges of one logit with linear programs."""
    ranges = Ranges()
    _ = trace.alpha, trace.readout  # read before the clock starts, as for every experiment
    first, later = (median_seconds(lambda: ranges(trace), calls) for calls in (1, 1 + REPEATS))
    table = ranges(trace)
    begun = time.perf_counter()
    known = [ranges_by_programs(trace, row, EPSILON) for row in range(len(trace))]
    plain = time.perf_counter() - begun
    found = zip(table["necessary"], table["possible"], known, strict=True)
    difference = max(
        float(np.abs(np.array([least, most]) - np.array(both)).max()) for least, most, both in found
    )
    possible, necessary = table.select(pl.mean("mean_possible", "any_necessary")).row(0)
    return [
        *(name, f"{len(trace):,}", f"{trace.alpha.lengths.mean():.1f}", f"{plain:.1f}"),
        *(f"{1000 * first:.1f}", f"{1000 * later:.1f}", f"{plain / later:,.0f}"),
        *(f"{difference:.0e}", f"{possible:.3f}", f"{100 * (1 - necessary):.1f} %"),
    ]


def main() -> None:
    """Print a row for each trace."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", nargs="*", help="trace folders, shards or run directories")
    paths = parser.parse_args().traces
    traces = {Path(path).name: Trace.read(path) for path in paths} or {"random": sst_sized()}
    print_header(COLUMNS)
    for name, trace in traces.items():
        print_row(row_of(name, trace))


if __name__ == "__main__":
    main()
