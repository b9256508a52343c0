"""The adversary beyond two classes: what is found beside the bound, what pairs of tokens alone find, and the relaxed search.

    python benchmarks/bounds.py --data-dir DIR [CORPUS...]
    python benchmarks/bounds.py --runs RUN...

Trains the default model on each corpus of DIR (trec6, ag_news4, snli and babi1 unless others are named), or takes runs that are there, and
prints a markdown table with a row for each. The relaxed search, compiled too, takes every so many rows, 500 at most.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from attnaudit.core.kernels import kernel
from attnaudit.experiments import make_experiment, settings_for_task
from attnaudit.experiments.adversary.experiment import CERTIFIED_GAP, Adversary
from attnaudit.experiments.adversary.row import as_row
from attnaudit.experiments.adversary.search import try_pairs, try_single_tokens
from attnaudit.experiments.compiled_readout import kernel_rows, row_parts
from attnaudit.trace import Trace

CORPORA = ("trec6", "ag_news4", "snli", "babi1")
SEARCHED = 500
OTHER_SEED = (
    1  # of the search alone: with one seed both have the same starts, and ours is never below it
)
COLUMNS = (
    "corpus", "instances", "mean T", "classes", "ε", "found, mean", "bound, mean", "gap, median", "certified", "ms an instance",
    "certified by pairs", "relaxed, mean", "ms an instance, relaxed", "least found − relaxed",
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
    """What is found and what bounds it; pairs alone and the relaxed search on the same instances."""
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
    pairs = pairs_alone(trace.take(rows), ours.epsilon)
    return [
        f"{len(trace)}", f"{trace.alpha.lengths.mean():.1f}", f"{len(trace.class_names)}", f"{ours.epsilon:g}", f"{found.mean():.4f}",
        f"{upper.mean():.4f}", f"{np.median(upper - found):.5f}", _share(upper - found), f"{1e3 * seconds / len(trace):.2f}",
        _share(upper[rows] - pairs), f"{searched.mean():.4f}", f"{1e3 * search_seconds / len(rows):.2f}",
        f"{(found[rows] - searched).min():+.2e}",
    ]  # fmt: skip


def pairs_alone(trace: Trace, epsilon: float) -> np.ndarray:
    """The best that single tokens and all pairs reach, per instance."""
    reached = np.zeros(len(trace))
    _pair_rows(kernel_rows(trace.readout, trace.alpha), epsilon, reached)
    return reached


@kernel
def _pair_rows(rows, epsilon, reached):
    for i in range(len(reached)):
        row = as_row(row_parts(rows, i), epsilon)
        best = row.own.copy()
        reached[i] = try_pairs(row, np.arange(len(best)), try_single_tokens(row, 0.0, best), best)


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
