"""Speed and memory of every experiment against the plain way, Captum and scipy, on texts of 20 to 2000 tokens.

    python benchmarks/lengths.py [--lengths T...] [--limit SECONDS] [--only NAME...]

The texts are made up: random words, models of the papers' sizes that are not trained, random traces. Every side of every experiment
runs in a process of its own under the same settings of the allocator; a dash stands where one instance would take longer than the limit.
Prints three markdown tables: all sides; the experiments of one run together; and how near leave-one-out of the BiLSTM comes to the
matrix products in it, multiplied without anything else.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[1]))

from attnaudit.models.presets import model_preset
from attnaudit.models.product import prepared, product, whole_blocks
from benchmarks.measuring import Measured, apart, measured, measured_apart
from benchmarks.sides import SIDES, Side, batch_rows

LENGTHS = (20, 80, 200, 400, 2000)
TOGETHER = (
    "leave-one-out, bilstm",
    "gradients, bilstm",
    "permutation",
    "correlation",
    "adversary",
    "erasure",
    "comprehensiveness",
)
COLUMNS = (
    "experiment", "T", "ours (ms)", "plain (ms)", "other (ms)", "plain / ours", "other / ours", "ours (MiB)", "plain (MiB)", "other (MiB)",
    "difference, plain", "difference, other",
)  # fmt: skip
Sides = dict[str, Measured]


def measure_lengths(
    experiment: str, lengths: Sequence[int], limit: float
) -> Iterator[tuple[int, Sides]]:
    """All sides at ever greater lengths; ours always, another as long as its time at the length before foresees no more than the limit."""
    able, before = dict.fromkeys(SIDES[experiment], 0.0), lengths[0]
    for length in lengths:
        growth = (length / before) ** 2
        able = {
            side: seconds
            for side, seconds in able.items()
            if side == "ours" or seconds * growth <= limit
        }
        sides = {side: measured_apart(experiment, side, length) for side in able}
        yield length, sides
        able, before = {side: found.seconds for side, found in sides.items()}, length


def table_row(experiment: str, length: int, sides: Sides) -> list[str]:
    other = next((name for name in SIDES[experiment] if name not in ("ours", "plain")), "")
    three = [sides.get(name) for name in ("ours", "plain", other)]
    ours = three[0]
    assert ours is not None
    return [
        f"{experiment} ({other})" if other else experiment, f"{length}", *(milliseconds(side) for side in three),
        *(ratio(side, ours) for side in three[1:]), *(f"{side.memory / 2**20:.0f}" if side else "–" for side in three),
        *(difference(experiment, ours, side) for side in three[1:]),
    ]  # fmt: skip


def milliseconds(side: Measured | None) -> str:
    return figure(1e3 * side.seconds) if side else "–"


def figure(value: float) -> str:
    """Three digits that count."""
    return f"{value:.{max(2 - math.floor(math.log10(value)), 0)}f}"


def ratio(side: Measured | None, ours: Measured) -> str:
    return (
        f"{side.seconds / ours.seconds:.{1 if side.seconds < 10 * ours.seconds else 0}f}"
        if side
        else "–"
    )


def difference(experiment: str, ours: Measured, side: Measured | None) -> str:
    """The largest in absolute value; of the adversary, whose plain way is a search, the least of ours less theirs."""
    if side is None:
        return "–"
    mine = ours.values[: len(side.values)]
    undefined = np.isnan(mine) & np.isnan(side.values)
    gap = np.where(undefined, 0.0, mine - side.values)
    return f"least {gap.min():+.1e}" if experiment == "adversary" else f"{np.abs(gap).max():.0e}"


def together_row(length: int, experiments: list[Sides]) -> list[str]:
    """What a run does with an instance, one experiment after another; of the sides that are not ours, the fastest in each."""
    ours = sum(sides["ours"].seconds for sides in experiments)
    plain = sum(sides["plain"].seconds if "plain" in sides else math.nan for sides in experiments)
    fastest = sum(
        min((side.seconds for name, side in sides.items() if name != "ours"), default=math.nan)
        for sides in experiments
    )
    times = (
        "–" if math.isnan(seconds) else figure(1e3 * seconds) for seconds in (ours, plain, fastest)
    )
    return [
        f"{length}",
        *times,
        *("–" if math.isnan(seconds) else f"{seconds / ours:.0f}" for seconds in (plain, fastest)),
    ]


def recurrent_operations(length: int) -> float:
    """Of one text: per direction one row through the H × 4H weight for every deletion and every later token, and for the text itself."""
    hidden = model_preset("bilstm", "additive").hidden
    return 2 * (length * (length + 1) / 2 + 1) * 2 * hidden * 4 * hidden


def default_product(rows: torch.Tensor, count: int, weight: torch.Tensor) -> torch.Tensor:
    return functional.linear(rows[:count], weight)


def matrix_products(
    multiply: Callable[[torch.Tensor, int, torch.Tensor], torch.Tensor], length: int
) -> Measured:
    """The same products of the same shapes for the texts of one batch, and nothing else."""
    hidden, count = model_preset("bilstm", "additive").hidden, batch_rows(length)
    state, weight = (
        torch.rand(whole_blocks((length + 2) * count), hidden),
        torch.rand(4 * hidden, hidden),
    )
    weight = prepared(weight) if multiply is product else weight

    def call(rows: np.ndarray) -> np.ndarray:
        for _ in range(2):
            for step in range(length + 1):
                multiply(state, max(step, 1) * count, weight)
        return np.zeros((len(rows), 1))

    return measured(Side(call, count, count))


def operations_row(length: int, ours: Measured) -> list[str]:
    operations = recurrent_operations(length) / 1e9
    rate = operations / ours.seconds
    alone = [
        operations / apart(matrix_products, multiply, length).seconds
        for multiply in (default_product, product)
    ]
    return [
        f"{length}",
        f"{operations:.3g}",
        f"{rate:.1f}",
        *(f"{most:.1f} ({rate / most:.0%})" for most in alone),
    ]


def print_header(columns: Sequence[str]) -> None:
    print("| " + " | ".join(columns) + " |\n|" + " --- |" * len(columns), flush=True)


def print_row(cells: Sequence[str]) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=LENGTHS, help="in ascending order"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=20.0,
        help="seconds an instance may take, foreseen as T² from the length before",
    )
    parser.add_argument("--only", nargs="+", choices=SIDES, default=list(SIDES), metavar="NAME")
    options = parser.parse_args()
    found: dict[str, dict[int, Sides]] = {}
    print_header(COLUMNS)
    for name in options.only:
        found[name] = {}
        for length, sides in measure_lengths(name, options.lengths, options.limit):
            found[name][length] = sides
            print_row(table_row(name, length, sides))
    if set(TOGETHER) <= set(found):
        print()
        print_header(
            ("T", "ours (ms)", "plain (ms)", "fastest other (ms)", "plain / ours", "fastest / ours")
        )
        for length in options.lengths:
            print_row(together_row(length, [found[name][length] for name in TOGETHER]))
    if TOGETHER[0] in found:
        print()
        alone = (
            "GFLOP/s, its matrix products alone, torch's default (share)",
            "the same, oneDNN (share)",
        )
        print_header(("T", "GFLOP an instance", "GFLOP/s, leave-one-out", *alone))
        for length in options.lengths:
            print_row(operations_row(length, found[TOGETHER[0]][length]["ours"]))


if __name__ == "__main__":
    main()
