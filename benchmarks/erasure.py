"""Removal experiments on generated traces of the size of IMDB: 25,000 instances of 200 tokens.

    python -m benchmarks.erasure [--instances 25000] [--length 200]

The plain way zeroes, rescales and reads out one step after another in numpy, the eight orders of
Serrano & Smith 2019 (attention, gradient, their product, five at random); it is timed on `SAMPLE`
instances and extrapolated. The smallest set and the bounds, which it does not have, are in our
time. Print a Markdown table.
"""

from __future__ import annotations

import argparse

import numpy as np

from attnaudit.experiments import make_experiment
from benchmarks.measuring import median_seconds
from benchmarks.output import figure, print_header, print_row
from benchmarks.sides import OTHERS
from tests.traces import make_trace

COLUMNS = (
    *("outputs", "instances", "T", "erasure (s)", "comprehensiveness (s)", "plain walks (s)"),
    *("plain / erasure", "both at most 20 s"),
)
SAMPLE, OUTPUTS, MOST = 100, (1, 5), 20.0


def main() -> None:
    """Measure both removal experiments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=25_000)
    parser.add_argument("--length", type=int, default=200)
    options = parser.parse_args()
    print_header(COLUMNS)
    for outputs in OUTPUTS:
        trace = make_trace(options.instances, [options.length] * options.instances, outputs, seed=1)
        seconds = []
        for name in ("erasure", "comprehensiveness"):
            experiment = make_experiment(name)
            experiment(trace.take(np.arange(2)))  # compiles
            seconds.append(median_seconds(lambda e=experiment, t=trace: e(t), 1))
        side = OTHERS["erasure"]["plain"](trace)
        sample = median_seconds(lambda s=side: s.call(np.arange(SAMPLE)), 1)
        plain = sample / SAMPLE * options.instances
        figures = [figure(value) for value in (*seconds, plain, plain / seconds[0])]
        reached = "yes" if sum(seconds) <= MOST else "no"
        print_row([outputs, f"{options.instances:,}", options.length, *figures, reached])


if __name__ == "__main__":
    main()
