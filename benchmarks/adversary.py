"""The exact adversary beside the relaxed search written the plain way, on the same trace, in one run.

    python benchmarks/adversary.py [TRACE] [--rows N] [--hidden M] [--batch B]
    python benchmarks/adversary.py TRACE --bounds [--rows N]

The plain way is `tests/oracles/relaxed_adversary.py`: torch autograd on padded batches, context vectors of M numbers rebuilt in each of
500 steps. Without a trace a random one of the size of the SST test set is made; a trace holds no hidden states, so M-dimensional ones
are made that read out what the trace says. Prints one row of a markdown table.

With ``--bounds``, for traces of more than two classes or with a tail: what is found beside the bound, what single tokens and pairs alone
find, and the compiled relaxed search on the same rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from attnaudit.experiments.adversary import CERTIFIED_GAP, Adversary, divergence
from attnaudit.experiments.adversary_row import as_row
from attnaudit.experiments.adversary_support import try_pairs, try_single_tokens
from attnaudit.experiments.readout_pooled import pooled_arguments
from attnaudit.trace import Trace
from tests.oracles.relaxed_adversary import accepted_divergence, naive_search, padded
from tests.traces import make_trace

COLUMNS = (
    "instances", "mean T", "plain relaxed (s)", "exact, first call (s)", "exact (s)", "ratio", "compiled relaxed (s)",
    "ε-max JSD plain", "ε-max JSD exact", "least exact − plain",
)  # fmt: skip

BOUNDS = (
    "instances", "mean T", "classes", "found, mean", "bound, mean", "gap, median", "certified", "ms an instance", "gap of pairs, median",
    "certified by pairs", "relaxed, mean", "ms an instance, relaxed", "least found − relaxed",
)  # fmt: skip


def sst_sized() -> Trace:
    """1725 instances of 6 to 52 tokens, 19 on average."""
    lengths = np.clip(np.random.default_rng(0).gamma(5.0, 3.6, 1725).round().astype(int), 6, 52)
    return make_trace(len(lengths), lengths, seed=0)


def plain_search(trace: Trace, batch: int, hidden: int, k: int = 5, epsilon: float = 0.01) -> tuple[float, np.ndarray]:
    """Seconds of the search alone, and the ε-max JSD of every instance; the paper's settings."""
    generator = torch.Generator().manual_seed(0)
    order, seconds, found = np.argsort(trace.alpha.lengths, kind="stable"), 0.0, np.zeros(len(trace))
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


def pairs_alone(trace: Trace, epsilon: float = 0.01) -> np.ndarray:
    """The best that single tokens and all pairs reach, per instance."""
    contribution, offset, allowed, _, weight, bias, tail = pooled_arguments(trace.readout)
    reached = np.zeros(len(trace))
    for i in range(len(trace)):
        start, stop = trace.alpha.offsets[i : i + 2]
        alpha = trace.alpha.values[start:stop].copy()
        row = as_row(alpha, contribution[start:stop], offset[i], allowed[i], weight, bias, tail, epsilon)
        best = alpha.copy()
        reached[i] = try_pairs(row, np.arange(len(alpha)), try_single_tokens(row, 0.0, best), best)
    return reached


def bounds_row(trace: Trace) -> list[str]:
    """What is found and what bounds it; the relaxed search on the same instances."""
    timed(Adversary(), trace.take(np.arange(1)))
    timed(Adversary(method="relaxed", steps=1), trace.take(np.arange(1)))
    begun = time.perf_counter()
    ours = Adversary()(trace)
    seconds = time.perf_counter() - begun
    found, upper, pairs = ours["emax_jsd"].to_numpy(), ours["emax_jsd_upper"].to_numpy(), pairs_alone(trace)
    rows = np.arange(len(trace))[:: max(len(trace) // 500, 1)]
    begun = time.perf_counter()
    relaxed = Adversary(method="relaxed", accept=None)._search(trace.take(rows), trace.readout(trace.alpha)[rows])
    relaxed_seconds = time.perf_counter() - begun
    theirs = divergence(relaxed, trace.alpha.take(rows))
    return [
        f"{len(trace)}", f"{trace.alpha.lengths.mean():.1f}", f"{len(trace.class_names)}", f"{found.mean():.4f}", f"{upper.mean():.4f}",
        f"{np.median(upper - found):.5f}", f"{(upper - found <= CERTIFIED_GAP).mean():.1%}", f"{1e3 * seconds / len(trace):.2f}",
        f"{np.median(upper - pairs):.4f}", f"{(upper - pairs <= CERTIFIED_GAP).mean():.1%}", f"{theirs.mean():.4f}",
        f"{1e3 * relaxed_seconds / len(rows):.2f}", f"{(found[rows] - theirs).min():+.2e}",
    ]  # fmt: skip


def print_row(columns: tuple[str, ...], figures: list[str]) -> None:
    print("| " + " | ".join(columns) + " |")
    print("|" + " --- |" * len(columns))
    print("| " + " | ".join(figures) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", help="a trace folder, one shard or a run directory")
    parser.add_argument("--rows", type=int, help="only the first N instances")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--bounds", action="store_true", help="what is found beside the bound, for several classes or a tail")
    options = parser.parse_args()
    trace = Trace.read(options.trace) if options.trace else sst_sized()
    trace = trace.take(np.arange(min(options.rows or len(trace), len(trace))))
    if options.bounds:
        print_row(BOUNDS, bounds_row(trace))
        return
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
