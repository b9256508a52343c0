"""The exact adversary and the paper's search written the plain way, on the same trace.

    python -m benchmarks.adversary [TRACE] [--rows N]

The plain way is `tests/oracles/relaxed_adversary.py`: torch autograd on padded batches, context
vectors of 256 numbers rebuilt in each of 500 steps. Without a trace, on a generated one of the size
of the SST test set. Print a Markdown table of one row.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.trace import Trace
from benchmarks.made_up import sst_sized
from benchmarks.measuring import median_seconds
from benchmarks.output import print_header, print_row
from benchmarks.sides import plain_adversary

COLUMNS = (
    *("instances", "mean T", "plain relaxed (s)", "exact, first call (s)", "exact (s)", "ratio"),
    *("ε-max JSD plain", "ε-max JSD exact", "least exact − plain"),
)


def plain_search(trace: Trace) -> tuple[float, np.ndarray]:
    """Return the seconds of the paper's search, and the ε-max JSD of every instance."""
    side, found = plain_adversary(trace), np.zeros(len(trace))
    begun = time.perf_counter()
    # Texts of similar length, so that little is padding.
    for rows in side.chunks(np.argsort(trace.alpha.lengths, kind="stable")):
        found[rows] = side.call(rows)[:, 0]
    return time.perf_counter() - begun, found


def main() -> None:
    """Measure the exact adversary, and the plain search."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", nargs="?", help="a trace folder, one shard or a run directory")
    parser.add_argument("--rows", type=int, help="only the first N instances")
    options = parser.parse_args()
    trace = Trace.read(options.trace) if options.trace else sst_sized()
    trace = trace.take(np.arange(min(options.rows or len(trace), len(trace))))
    exact = Adversary()
    first, later = (median_seconds(lambda: exact(trace), calls) for calls in (1, 6))
    plain, found = plain_search(trace)
    reached = exact(trace)["emax_jsd"].to_numpy()
    print_header(COLUMNS)
    print_row([
        *(f"{len(trace)}", f"{trace.alpha.lengths.mean():.1f}", f"{plain:.1f}", f"{first:.2f}"),
        *(f"{later:.4f}", f"{plain / later:.0f}"),
        *(f"{found.mean():.3f}", f"{reached.mean():.3f}", f"{(reached - found).min():+.2e}"),
    ])  # fmt: skip


if __name__ == "__main__":
    main()
