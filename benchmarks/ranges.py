"""Possible and necessary weights next to linear programs on the same traces, in one run.

    python benchmarks/ranges.py [TRACE...]

The plain way is `tests/oracles/ranges.py`: a minimum and a maximum for every token by `scipy.optimize.linprog`, all tokens of an instance
in one call. The first table is of traces whose output one logit decides, each a trace folder, one shard or a run directory, and without
any a random one of the size of the SST test set. The second one is of several outputs, on random traces: what attentions show and what
bounds allow. Prints markdown.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from attnaudit.experiments.ranges.experiment import Ranges
from attnaudit.trace import Trace
from benchmarks.adversary import sst_sized
from benchmarks.lengths import print_header, print_row
from tests.oracles.ranges import ranges_by_programs
from tests.traces import make_trace

EXACT = (
    "trace", "instances", "mean T", "linprog (s)", "ours, first call (ms)", "ours (ms)", "ratio", "largest difference",
    "mean possible weight", "no necessary token",
)  # fmt: skip
SEVERAL = (
    "classes",
    "tail",
    "instances",
    "mean T",
    "ms an instance",
    "mean possible weight, found",
    "upper bound",
    "necessary token, proven",
    "at most",
)
EPSILON, REPEATS, INSTANCES = 0.01, 9, 50
KINDS = (
    (3, None),
    (4, None),
    (6, None),
    (10, None),
    (3, 16),
    (6, 16),
)  # classes, numbers of a tanh tail


def timed(experiment: Ranges, trace: Trace) -> tuple[float, dict[str, np.ndarray]]:
    """Seconds of a call, and its columns."""
    begun = time.perf_counter()
    table = experiment(trace)
    return time.perf_counter() - begun, {name: table[name].to_numpy() for name in table.columns}


def exact_row(name: str, trace: Trace) -> list[str]:
    _ = trace.alpha, trace.readout  # read before the clock starts, as every experiment finds them
    first, _ = timed(Ranges(), trace)
    calls = [timed(Ranges(), trace) for _ in range(REPEATS)]
    ours, columns = float(np.median([seconds for seconds, _ in calls])), calls[0][1]
    begun = time.perf_counter()
    known = [ranges_by_programs(trace, row, EPSILON) for row in range(len(trace))]
    plain = time.perf_counter() - begun
    found = zip(columns["necessary"], columns["possible"], known, strict=True)
    difference = max(
        float(np.abs(np.array([least, most]) - np.array(both)).max()) for least, most, both in found
    )
    return [
        name, f"{len(trace):,}", f"{trace.alpha.lengths.mean():.1f}", f"{plain:.1f}", f"{1000 * first:.1f}", f"{1000 * ours:.1f}",
        f"{plain / ours:,.0f}", f"{difference:.0e}", f"{columns['mean_possible'].mean():.3f}",
        f"{100 * (1 - columns['any_necessary'].mean()):.1f} %",
    ]  # fmt: skip


def several_row(classes: int, hidden: int | None) -> list[str]:
    trace = make_trace(INSTANCES, (8, 40), classes, seed=1, hidden=hidden)
    seconds, columns = timed(Ranges(share=1.0), trace)
    names = ("mean_possible", "mean_possible_upper", "any_necessary", "any_necessary_upper")
    found, upper, proven, most = (float(columns[name].astype(float).mean()) for name in names)
    return [
        str(classes), "identity" if hidden is None else f"tanh of {hidden}", str(INSTANCES), f"{trace.alpha.lengths.mean():.1f}",
        f"{1000 * seconds / INSTANCES:.0f}", f"{found:.3f}", f"{upper:.3f}", f"{100 * proven:.0f} %", f"{100 * most:.0f} %",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", nargs="*", help="trace folders, shards or run directories")
    options = parser.parse_args()
    print_header(EXACT)
    for path in options.traces:
        print_row(exact_row(Path(path).name, Trace.read(path)))
    if not options.traces:
        print_row(exact_row("random", sst_sized()))
    print()
    print_header(SEVERAL)
    for kind in KINDS:
        print_row(several_row(*kind))


if __name__ == "__main__":
    main()
