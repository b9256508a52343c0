"""Removal experiments on traces of the size of IMDB: 25,000 instances of 200 tokens.

    python benchmarks/erasure.py [--instances 25000] [--length 200]

Made-up traces, the kernel of the bounds compiled. The plain way zeroes, rescales and reads out one step after another in numpy, the eight orders of Serrano
& Smith 2019 (attention, gradient, their product, five at random); it is timed on `SAMPLE` instances and told for all. What it does not
have, the smallest set and the shortest beginnings to keep, is in our time. Prints a markdown table.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from attnaudit.experiments import Experiment, make_experiment
from attnaudit.trace import Trace
from benchmarks.lengths import figure, print_header, print_row
from benchmarks.plain_removals import plain_erasure
from tests.traces import make_trace

COLUMNS = (
    "outputs",
    "instances",
    "T",
    "erasure (s)",
    "comprehensiveness (s)",
    "plain walks (s)",
    "plain / erasure",
    "both at most 20 s",
)
SAMPLE, OUTPUTS, MOST = 100, (1, 5), 20.0


def seconds(experiment: Experiment, trace: Trace) -> float:
    begun = time.perf_counter()
    experiment(trace)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=25_000)
    parser.add_argument("--length", type=int, default=200)
    options = parser.parse_args()
    print_header(COLUMNS)
    for outputs in OUTPUTS:
        trace = make_trace(options.instances, [options.length] * options.instances, outputs, seed=1)
        experiments = [make_experiment(name) for name in ("erasure", "comprehensiveness")]
        for experiment in experiments:
            experiment(trace.take(np.arange(2)))
        taken = [seconds(experiment, trace) for experiment in experiments]
        begun, random = time.perf_counter(), np.random.default_rng(0)
        for row in range(SAMPLE):
            plain_erasure(trace, row, random)
        plain = (time.perf_counter() - begun) / SAMPLE * options.instances
        reached = "yes" if sum(taken) <= MOST else "no"
        cells = [*(figure(value) for value in (*taken, plain)), figure(plain / taken[0]), reached]
        print_row([str(outputs), f"{options.instances:,}", str(options.length), *cells])


if __name__ == "__main__":
    main()
