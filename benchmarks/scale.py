"""CPU time of an instance in each experiment, by length and model.

    python -m benchmarks.scale [--seconds 0.3]

On generated traces, with compiled kernels. Print a Markdown table.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from attnaudit.experiments import make_experiment
from benchmarks.output import print_header, print_row
from tests.traces import make_trace

EXPERIMENTS = (
    *("prediction", "correlation", "permutation", "maximal_change", "adversary"),
    *("ranges", "identifiability", "erasure", "comprehensiveness"),
)
LENGTHS = (20, 100, 400)
MODELS: dict[str, dict[str, Any]] = {
    "one logit": {},
    "four classes": {"outputs": 4},
    "answers behind a tanh": {"outputs": 4, "hidden": 16},
}
CELLS = [
    *((length, "one logit") for length in LENGTHS),
    *((LENGTHS[0], model) for model in list(MODELS)[1:]),
]
MOST_ROWS = 1 << 15


def cpu_seconds(experiment: str, length: int, model: str, seconds: float) -> float:
    """Return CPU seconds of an instance, over as many rows as take ``seconds``."""
    call, rows = make_experiment(experiment), 64
    texts = make_trace(rows, [length] * rows, **MODELS[model])
    call(texts.take(np.arange(2)))  # compiles
    while True:
        trace = texts.take(np.resize(np.arange(64), rows))
        begun = time.process_time()
        call(trace)
        spent = time.process_time() - begun
        if spent >= seconds or rows >= MOST_ROWS:
            return spent / rows
        rows *= 2 if spent > seconds / 8 else 8


def main() -> None:
    """Print a row for each experiment, a column for each length and model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=0.3)
    seconds = parser.parse_args().seconds
    print_header(["CPU µs an instance", *(f"T = {length}, {model}" for length, model in CELLS)])
    for name in EXPERIMENTS:
        costs = (1e6 * cpu_seconds(name, length, model, seconds) for length, model in CELLS)
        print_row([name, *(f"{cost:.0f}" for cost in costs)])


if __name__ == "__main__":
    main()
