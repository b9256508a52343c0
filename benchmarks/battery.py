"""Time of every experiment on one trace: the first call, which compiles, and later ones.

    python -m benchmarks.battery [TRACE] [--repeat N]

Without a trace, on a generated one of the size of the SST test set. Print a Markdown table, with
the plain ways of correlation (scipy) and permutation (numpy) beside ours.
"""

from __future__ import annotations

import argparse

import numpy as np

from attnaudit.experiments import EXPERIMENTS, make_experiment, refusal
from attnaudit.trace import Trace
from benchmarks.made_up import sst_sized
from benchmarks.measuring import median_seconds
from benchmarks.output import print_header, print_row
from benchmarks.sides import PAPER, plain_permutation, scipy_correlation

PLAIN = {"permutation": plain_permutation, "correlation": scipy_correlation}


def main() -> None:
    """Measure the experiments that the trace allows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", nargs="?", help="a trace folder, one shard or a run directory")
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    trace = Trace.read(options.trace) if options.trace else sst_sized()
    print(f"{len(trace)} instances, mean T {trace.alpha.lengths.mean():.1f}\n")
    columns = ("experiment", "first call (s)", "later calls (s)", "summary (s)", "plain way (s)")
    print_header((*columns, "ratio"))
    for name in EXPERIMENTS:
        experiment = make_experiment(name, PAPER.get(name))
        if refusal(experiment, trace):
            continue
        first = median_seconds(lambda e=experiment: e(trace), 1)
        later = median_seconds(lambda e=experiment: e(trace), 1 + options.repeat)
        table = experiment(trace)
        summary = median_seconds(lambda e=experiment, t=table: e.summarise(t), 2)
        compared = ["", ""]
        if name in PLAIN:
            side = PLAIN[name](trace)
            plain = median_seconds(lambda s=side: s.call(np.arange(len(trace))), 1)
            compared = [f"{plain:.2f}", f"{plain / later:.0f}"]
        print_row([name, f"{first:.2f}", f"{later:.4f}", f"{summary:.4f}", *compared])


if __name__ == "__main__":
    main()
