"""The copying task: CPU time of an optimizer step of one seed, with a seed on each thread.

    python benchmarks/copying.py [--steps 10] [--threads 2]

Trains the tied model of the study on permutations of 40 symbols. Beside it, one seed after another
with all threads in each operation.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import torch

from attnaudit.copying.model import Copier, descend
from attnaudit.copying.study import Copying
from attnaudit.copying.training import train
from benchmarks.output import print_header, print_row

STUDY = Copying("permutations", "tied")
SEQUENCES, BATCH = STUDY.sequences, STUDY.batch


def train_in_turn(steps: int) -> float:
    """Return the CPU seconds of a step with all threads in each operation."""
    model = Copier.fresh(STUDY, 0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    rows = (SEQUENCES.draw(0, "stage 0", step * BATCH, BATCH) for step in range(steps))
    begun = time.process_time()
    descend(model, optimizer, (SEQUENCES.pair(batch) for batch in rows))
    return (time.process_time() - begun) / steps


def train_side_by_side(threads: int, steps: int) -> float:
    """Return the CPU seconds of a step of one seed; measurements cancel between two trainings."""
    seconds = []
    for length in (1, steps + 1):
        begun = time.process_time()
        train(replace(STUDY, steps=length, seeds=threads, every=length), threads)
        seconds.append(time.process_time() - begun)
    return (seconds[1] - seconds[0]) / (steps * threads)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    in_turn = train_in_turn(options.steps)
    seconds = train_side_by_side(options.threads, options.steps)
    print_header(("threads", "seeds in turn (CPU ms)", "a seed on each thread (CPU ms)"))
    print_row([options.threads, f"{1e3 * in_turn:.0f}", f"{1e3 * seconds:.0f}"])


if __name__ == "__main__":
    main()
