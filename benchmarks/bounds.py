"""The adversary beyond two classes: what is found beside the bound, and the relaxed search.

    python benchmarks/bounds.py --data-dir DIR [CORPUS...]
    python benchmarks/bounds.py --runs RUN...

Trains the default model on each corpus of DIR (trec6, ag_news4, snli and babi1 unless others are named), or takes runs that are there, and
prints a markdown table with a row for each. The relaxed search takes every so many rows, 500 at most.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from attnaudit.experiments import make_experiment, settings_for_task
from attnaudit.experiments.adversary.experiment import CERTIFIED_GAP, Adversary
from attnaudit.trace import Trace

CORPORA = ("trec6", "ag_news4", "snli", "babi1")
SEARCHED = 500
OTHER_SEED = (
    1  # of the search alone: with one seed both have the same starts, and ours is never below it
)
COLUMNS = (
    "corpus", "instances", "mean T", "classes", "ε", "found, mean", "bound, mean", "gap, median", "certified", "ms an instance",
    "relaxed, mean", "ms an instance, relaxed", "least found − relaxed",
)  # fmt: skip


def train(corpus: str, data_dir: str, out: Path) -> Path:
    """The run that a user's command makes."""
    command = [
        str(Path(sys.executable).with_name("attnaudit")),
        "run",
        corpus,
        "--data-dir",
        data_dir,
        "--out",
        str(out / corpus),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return out / corpus


def bounds_row(trace: Trace) -> list[str]:
    """What is found and what bounds it; the relaxed search on the same instances."""
    settings = settings_for_task(trace.task).get("adversary", {})
    ours = make_experiment("adversary", settings)
    search = make_experiment("adversary", {**settings, "method": "relaxed", "seed": OTHER_SEED})
    assert isinstance(ours, Adversary)
    for experiment in (ours, search):
        experiment(trace.take(np.arange(1)))  # compile
    begun = time.perf_counter()
    table = ours(trace)
    seconds = time.perf_counter() - begun
    found, upper = table["emax_jsd"].to_numpy(), table["emax_jsd_upper"].to_numpy()
    rows = np.arange(len(trace))[:: max(len(trace) // SEARCHED, 1)]
    begun = time.perf_counter()
    searched = search(trace.take(rows))["emax_jsd"].to_numpy()
    search_seconds = time.perf_counter() - begun
    return [
        f"{len(trace)}", f"{trace.alpha.lengths.mean():.1f}", f"{len(trace.class_names)}", f"{ours.epsilon:g}", f"{found.mean():.4f}",
        f"{upper.mean():.4f}", f"{np.median(upper - found):.5f}", _share(upper - found), f"{1e3 * seconds / len(trace):.2f}",
        f"{searched.mean():.4f}", f"{1e3 * search_seconds / len(rows):.2f}",
        f"{(found[rows] - searched).min():+.2e}",
    ]  # fmt: skip


def _share(gap: np.ndarray) -> str:
    return f"{(gap <= CERTIFIED_GAP).mean():.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="*", default=CORPORA)
    parser.add_argument("--data-dir")
    parser.add_argument("--runs", nargs="+", help="run directories, in place of training")
    options = parser.parse_args()
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + " --- |" * len(COLUMNS))
    with tempfile.TemporaryDirectory() as folder:
        for name in options.runs or options.corpora:
            run = Path(name) if options.runs else train(name, options.data_dir, Path(folder))
            print("| " + " | ".join([run.name, *bounds_row(Trace.read(run))]) + " |", flush=True)


if __name__ == "__main__":
    main()
