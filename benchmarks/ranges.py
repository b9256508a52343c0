"""Possible and necessary weights, and linear programs on the same traces.

    python -m benchmarks.ranges [TRACE…]

The plain way is `tests/oracles/ranges.py`: a minimum and a maximum for every token by
`scipy.optimize.linprog`, all tokens of an instance in one call. The first table is of traces with
one logit, without arguments a generated one of the size of the SST test set. The second is of
generated traces with several outputs: what attentions show and what bounds allow. Print Markdown.
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
from tests.traces import make_trace

EXACT = (
    *("trace", "instances", "mean T", "linprog (s)", "ours, first call (ms)", "ours (ms)", "ratio"),
    *("largest difference", "mean possible weight", "no necessary token"),
)
SEVERAL = (
    *("classes", "tail", "instances", "mean T", "ms an instance", "mean possible weight, found"),
    *("upper bound", "necessary token, proven", "at most"),
)
EPSILON, REPEATS, INSTANCES = 0.01, 9, 50
# Classes, and numbers of a tanh tail.
KINDS = ((3, None), (4, None), (6, None), (10, None), (3, 16), (6, 16))


def exact_row(name: str, trace: Trace) -> list[str]:
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


def several_row(classes: int, hidden: int | None) -> list[str]:
    """Measure the ranges of several outputs."""
    trace = make_trace(INSTANCES, (8, 40), classes, seed=1, hidden=hidden)
    begun = time.perf_counter()
    table = Ranges(share=1.0)(trace)
    seconds = time.perf_counter() - begun
    names = ("mean_possible", "mean_possible_upper", "any_necessary", "any_necessary_upper")
    found, upper, proven, most = table.select(pl.mean(*names)).row(0)
    return [
        *(str(classes), "identity" if hidden is None else f"tanh of {hidden}", str(INSTANCES)),
        *(f"{trace.alpha.lengths.mean():.1f}", f"{1000 * seconds / INSTANCES:.0f}"),
        *(f"{found:.3f}", f"{upper:.3f}", f"{100 * proven:.0f} %", f"{100 * most:.0f} %"),
    ]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", nargs="*", help="trace folders, shards or run directories")
    paths = parser.parse_args().traces
    traces = {Path(path).name: Trace.read(path) for path in paths} or {"random": sst_sized()}
    print_header(EXACT)
    for name, trace in traces.items():
        print_row(exact_row(name, trace))
    print()
    print_header(SEVERAL)
    for kind in KINDS:
        print_row(several_row(*kind))


if __name__ == "__main__":
    main()
