"""The adversary beyond two classes: the value found and the bound.

    python -m benchmarks.bounds --data-dir DIR [CORPUS…]
    python -m benchmarks.bounds --runs RUN…

Train the default model on each corpus of DIR, or take finished runs, and print a Markdown table
with a row for each.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from attnaudit.experiments import settings_for_task
from attnaudit.experiments.adversary.experiment import CERTIFIED_GAP, Adversary
from attnaudit.trace import Trace
from benchmarks.cost import cost_of_attnaudit
from benchmarks.output import print_header, print_row

CORPORA = ("trec6", "ag_news4", "snli", "babi1")
COLUMNS = (
    *("corpus", "instances", "mean T", "classes", "ε", "found, mean", "bound, mean"),
    *("gap, median", "certified", "CPU ms an instance"),
)


def timed(experiment: Adversary, trace: Trace) -> tuple[float, pl.DataFrame]:
    """Return CPU milliseconds of an instance, without compiling, and the table."""
    experiment(trace.take(np.arange(1)))
    begun = time.process_time()
    table = experiment(trace)
    return 1e3 * (time.process_time() - begun) / len(trace), table


def bounds_row(name: str, trace: Trace) -> list[str]:
    """Measure what is found and what bounds it."""
    ours = Adversary(**settings_for_task(trace.task).get("adversary", {}))
    milliseconds, table = timed(ours, trace)
    found, upper = (table[column].to_numpy() for column in ("emax_jsd", "emax_jsd_upper"))
    gap = upper - found
    return [
        *(name, f"{len(trace)}", f"{trace.alpha.lengths.mean():.1f}", f"{len(trace.class_names)}"),
        *(f"{ours.epsilon:g}", f"{found.mean():.4f}", f"{upper.mean():.4f}"),
        *(f"{np.median(gap):.5f}", f"{(gap <= CERTIFIED_GAP).mean():.1%}", f"{milliseconds:.2f}"),
    ]


def main() -> None:
    """Print a row for each corpus or run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="*", default=CORPORA)
    parser.add_argument("--data-dir")
    parser.add_argument("--runs", nargs="+", type=Path, help="finished runs, in place of training")
    options = parser.parse_args()
    print_header(COLUMNS)
    for run in options.runs or []:
        print_row(bounds_row(run.name, Trace.read(run)))
    for corpus in options.corpora if not options.runs else []:
        with tempfile.TemporaryDirectory() as folder:
            run = str(Path(folder, corpus))
            cost_of_attnaudit(["run", corpus, "--data-dir", options.data_dir, "--out", run])
            print_row(bounds_row(corpus, Trace.read(run)))


if __name__ == "__main__":
    main()
