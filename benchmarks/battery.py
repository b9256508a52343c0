"""Own time of every experiment on one trace: first call (compiled or loaded), then the median of repeated calls.

    python benchmarks/battery.py [TRACE] [--repeat N]

Without a trace a random one of the size of the SST test set is made. Prints a markdown table, with scipy's Kendall tau and the plain
permutation loop of numpy beside ours.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

sys.path.insert(0, str(Path(__file__).parents[1]))

from attnaudit.experiments import EXPERIMENTS, make_experiment, refusal
from attnaudit.stats.measures import activate, tvd
from attnaudit.trace import Trace
from benchmarks.adversary import sst_sized


def seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def plain_permutation(trace: Trace, count: int = 100) -> None:
    """Algorithm 2 an instance at a time, numpy for the sums."""
    rng, readout, before = np.random.default_rng(0), trace.readout, trace.readout(trace.alpha)
    for row, alpha in enumerate(trace.alpha):
        orders = np.array([rng.permutation(alpha) for _ in range(count)])
        after = activate(
            orders @ readout.contribution[row] + readout.offset[row], readout.activation
        )
        np.median(tvd(after, np.repeat(before[row][None], count, axis=0)))


def plain_correlation(trace: Trace) -> None:
    """scipy an instance at a time."""
    for a, g, loo in zip(trace.alpha, trace.ragged("gradient"), trace.ragged("loo"), strict=True):
        for x, y in ((a, g), (a, loo), (g, loo)):
            kendalltau(x, y)


PLAIN = {"permutation": plain_permutation, "correlation": plain_correlation}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", nargs="?", help="a trace folder, one shard or a run directory")
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    trace = Trace.read(options.trace) if options.trace else sst_sized()
    print(f"{len(trace)} instances, mean T {trace.alpha.lengths.mean():.1f}\n")
    print(
        "| experiment | first call (s) | later calls (s) | summary (s) | plain way (s) | ratio |\n| --- | --- | --- | --- | --- | --- |"
    )
    for name in EXPERIMENTS:
        experiment = make_experiment(
            name, {"permutations": 100} if name == "permutation" else None
        )  # as many as the plain way
        if refusal(experiment, trace):
            continue
        first = seconds(lambda e=experiment: e(trace))
        later = float(
            np.median([seconds(lambda e=experiment: e(trace)) for _ in range(options.repeat)])
        )
        table = experiment(trace)
        experiment.summarise(table)
        summary = seconds(lambda e=experiment, t=table: e.summarise(t))
        plain = seconds(lambda n=name: PLAIN[n](trace)) if name in PLAIN else None
        compared = f"{plain:.2f} | {plain / later:.0f}" if plain else " | "
        print(f"| {name} | {first:.2f} | {later:.4f} | {summary:.4f} | {compared} |")


if __name__ == "__main__":
    main()
