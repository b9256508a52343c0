"""The exact adversary beside the relaxed search written the plain way, on the same trace, in one run.

    python benchmarks/adversary.py [TRACE] [--rows N] [--hidden M] [--batch B]

The plain way is `tests/oracles/relaxed_adversary.py`: torch autograd on padded batches, context vectors of M numbers rebuilt in each of
500 steps. Without a trace a random one of the size of the SST test set is made; a trace holds no hidden states, so M-dimensional ones
are made that read out what the trace says. Prints one row of a markdown table.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.trace import Trace
from tests.oracles.relaxed_adversary import accepted_divergence, naive_search, padded
from tests.traces import make_trace

COLUMNS = (
    "instances", "mean T", "plain relaxed (s)", "exact, first call (s)", "exact (s)", "ratio", "compiled relaxed (s)",
    "ε-max JSD plain", "ε-max JSD exact", "least exact − plain",
)  # fmt: skip


def sst_sized() -> Trace:
    """1725 instances of 6 to 52 tokens, 19 on average."""
    lengths = np.clip(np.random.default_rng(0).gamma(5.0, 3.6, 1725).round().astype(int), 6, 52)
    return make_trace(len(lengths), lengths, seed=0)


def plain_search(
    trace: Trace, batch: int, hidden: int, k: int = 5, epsilon: float = 0.01
) -> tuple[float, np.ndarray]:
    """Seconds of the search alone, and the ε-max JSD of every instance; the paper's settings."""
    generator = torch.Generator().manual_seed(0)
    order, seconds, found = (
        np.argsort(trace.alpha.lengths, kind="stable"),
        0.0,
        np.zeros(len(trace)),
    )
    for start in range(0, len(trace), batch):
        rows = order[start : start + batch]
        model, alpha = padded(trace.take(rows), hidden, torch.float32)
        scores = 3.0 * torch.randn(len(rows), k, alpha.shape[1], generator=generator)
        begun = time.perf_counter()
        ends = naive_search(model, alpha, scores, epsilon)
        found[rows] = accepted_divergence(model, alpha, ends, epsilon).numpy()
        seconds += time.perf_counter() - begun
    return seconds, found


def timed(experiment: Adversary, trace: Trace) -> tuple[float, np.ndarray]:
    begun = time.perf_counter()
    table = experiment(trace)
    return time.perf_counter() - begun, table["emax_jsd"].to_numpy()


def print_row(columns: tuple[str, ...], figures: list[str]) -> None:
    print("| " + " | ".join(columns) + " |")
    print("|" + " --- |" * len(columns))
    print("| " + " | ".join(figures) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", nargs="?", help="a trace folder, one shard or a run directory")
    parser.add_argument("--rows", type=int, help="only the first N instances")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    trace = Trace.read(options.trace) if options.trace else sst_sized()
    trace = trace.take(np.arange(min(options.rows or len(trace), len(trace))))
    first, _ = timed(Adversary(), trace)
    times = [timed(Adversary(), trace) for _ in range(5)]
    exact, reached = float(np.median([seconds for seconds, _ in times])), times[0][1]
    timed(Adversary(method="relaxed", steps=1), trace)
    relaxed, _ = timed(Adversary(method="relaxed"), trace)
    plain, found = plain_search(trace, options.batch, options.hidden)
    figures = [
        f"{len(trace)}", f"{trace.alpha.lengths.mean():.1f}", f"{plain:.1f}", f"{first:.2f}", f"{exact:.4f}", f"{plain / exact:.0f}",
        f"{relaxed:.2f}", f"{found.mean():.3f}", f"{reached.mean():.3f}", f"{(reached - found).min():+.2e}",
    ]  # fmt: skip
    print_row(COLUMNS, figures)


if __name__ == "__main__":
    main()
