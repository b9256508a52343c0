"""Importance on the CPU and on a CUDA device, side by side: seconds an instance, ratio, and the largest difference between the two.

    python benchmarks/devices.py [--lengths T...]

Forward pass, both gradients and leave-one-out of every token, as collecting does them, in the batches that suit each device, on made-up
texts and models of the papers' sizes that are not trained. Without a CUDA device it says so and prints the CPU's side alone.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from attnaudit.corpora.corpus import Split
from attnaudit.trace import Trace, concatenate
from attnaudit.tracing.texts import BUDGET, collect_shards
from benchmarks.made_up import made_up_texts, untrained_model
from benchmarks.output import figure, print_header, print_row
from benchmarks.sides import ENCODERS

LENGTHS, COMPARED = (
    (20, 200, 2000),
    ("alpha", "gradient", "importance_full_gradient", "loo"),
)
REPEATS = 3


def split_of(encoder: str, length: int, count: int) -> Split:
    words = np.array(untrained_model(encoder).vocabulary.words)
    tokens = [words[ids].tolist() for ids in made_up_texts(length, count).ids]
    return Split(np.arange(count), tokens, np.zeros(count, np.int32))


def collected(encoder: str, length: int, device: str) -> tuple[float, Trace]:
    """Seconds an instance, the median of repeated collections of as many texts as two batches of the device hold, and the trace."""
    count = max(2 * BUDGET[device] // (length + 2), 2)
    model, split, seconds = (
        untrained_model(encoder).to(device),
        split_of(encoder, length, count),
        [],
    )
    for _ in range(1 + REPEATS):
        begun = time.perf_counter()
        trace = concatenate(list(collect_shards(model, split, shard_rows=count)))
        seconds.append((time.perf_counter() - begun) / count)
    return float(np.median(seconds[1:])), trace


def difference(one: Trace, other: Trace) -> float:
    """The largest over the columns compared, on the rows that both have."""
    rows = np.arange(min(len(one), len(other)))
    return max(
        float(
            np.abs(one.take(rows).ragged(name).values - other.take(rows).ragged(name).values).max()
        )
        for name in COMPARED
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    options = parser.parse_args()
    there = torch.cuda.is_available()
    print(
        f"CUDA device: {torch.cuda.get_device_name() if there else 'none here'}; {torch.get_num_threads()} CPU threads\n"
    )
    print_header(("encoder", "T", "CPU (ms)", "CUDA (ms)", "CPU / CUDA", "largest difference"))
    for encoder in ENCODERS:
        for length in options.lengths:
            cpu, trace = collected(encoder, length, "cpu")
            row = [encoder, f"{length}", figure(1e3 * cpu)]
            if there:
                cuda, other = collected(encoder, length, "cuda")
                row += [figure(1e3 * cuda), f"{cpu / cuda:.1f}", f"{difference(trace, other):.0e}"]
            print_row(row + ["–"] * (6 - len(row)))


if __name__ == "__main__":
    main()
