"""Speed and memory of every experiment against the plain way, Captum and scipy, by length.

    python -m benchmarks.lengths [--lengths T…] [--limit SECONDS] [--only NAME…]

On generated texts of 20 to 2000 tokens, models of the papers' sizes that are not trained, and
generated traces. Every side of every experiment runs in a process of its own with the same settings
of the allocator; a dash stands for an instance that would take longer than the limit. Print three
Markdown tables: all sides; the experiments of one run together; and how near leave-one-out of the
BiLSTM comes to its matrix products alone.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch.nn import functional

from attnaudit.models.presets import model_preset
from attnaudit.models.product import prepared, product, whole_blocks
from benchmarks.measuring import Measured, apart, measured, measured_apart
from benchmarks.output import figure, print_header, print_row
from benchmarks.sides import OURS, SIDES, Side, batch_rows

LENGTHS, SHOWN = (20, 80, 200, 400, 2000), (20, 200, 2000)
LEAVE_ONE_OUT = "leave-one-out, bilstm"
TOGETHER = (LEAVE_ONE_OUT, "gradients, bilstm", *OURS)
COLUMNS = (
    *("experiment", "T", "ours (ms)", "plain (ms)", "other (ms)", "plain / ours", "other / ours"),
    *("ours (MiB)", "difference, plain", "difference, other"),
)
COLUMNS_TOGETHER = (
    *("T", "ours (ms)", "plain (ms)", "fastest other (ms)", "plain / ours", "fastest / ours"),
)
COLUMNS_OF_PRODUCTS = (
    *("T", "GFLOP an instance", "GFLOP/s, leave-one-out"),
    *("GFLOP/s, its matrix products alone, torch's default (share)", "the same, oneDNN (share)"),
)
Sides = dict[str, Measured]


def measure_lengths(
    experiment: str, lengths: Sequence[int], limit: float
) -> Iterator[tuple[int, Sides]]:
    """Measure all sides at growing lengths; ours always, others within the limit.

    The time is foreseen from the length before, as T².
    """
    able, before = dict.fromkeys(SIDES[experiment], 0.0), lengths[0]
    for length in lengths:
        growth = (length / before) ** 2
        sides = {
            side: measured_apart(experiment, side, length)
            for side, seconds in able.items()
            if side == "ours" or seconds * growth <= limit
        }
        yield length, sides
        able, before = {side: found.seconds for side, found in sides.items()}, length


def table_row(experiment: str, length: int, sides: Sides) -> list[str]:
    """Return the row of an experiment at a length."""
    other = next((name for name in SIDES[experiment] if name not in ("ours", "plain")), "")
    ours, others = sides["ours"], [sides.get("plain"), sides.get(other)]
    return [
        f"{experiment} ({other})" if other else experiment,
        f"{length}",
        *(figure(1e3 * side.seconds) if side else "–" for side in (ours, *others)),
        *(ratio(side.seconds, ours.seconds) if side else "–" for side in others),
        f"{1024 * ours.memory:.0f}",
        *(difference(experiment, ours, side) if side else "–" for side in others),
    ]


def ratio(seconds: float, ours: float) -> str:
    """Format how many times longer another side takes."""
    return f"{seconds / ours:.{1 if seconds < 10 * ours else 0}f}"


def difference(experiment: str, ours: Measured, side: Measured) -> str:
    """Format the largest absolute difference of values."""
    mine = ours.values[: len(side.values)]
    gap = np.where(np.isnan(mine) & np.isnan(side.values), 0.0, mine - side.values)
    # The plain adversary is a search, so ours may be above it.
    return f"least {gap.min():+.1e}" if experiment == "adversary" else f"{np.abs(gap).max():.0e}"


def together_row(length: int, experiments: list[Sides]) -> list[str]:
    """Return the row of all experiments one after another; of the other sides the fastest."""
    ours = sum(sides["ours"].seconds for sides in experiments)
    plain = sum(sides["plain"].seconds if "plain" in sides else math.nan for sides in experiments)
    fastest = sum(
        min((side.seconds for name, side in sides.items() if name != "ours"), default=math.nan)
        for sides in experiments
    )
    times = ["–" if math.isnan(each) else figure(1e3 * each) for each in (ours, plain, fastest)]
    ratios = ["–" if math.isnan(each) else f"{each / ours:.0f}" for each in (plain, fastest)]
    return [f"{length}", *times, *ratios]


def recurrent_operations(length: int) -> float:
    """Return the floating-point operations of leave-one-out of one text.

    In each direction a row goes through the H × 4H weight for every deletion and every later token,
    and for the text itself.
    """
    hidden = model_preset("bilstm", "additive").hidden
    return 2 * (length * (length + 1) / 2 + 1) * 2 * hidden * 4 * hidden


def default_product(rows: torch.Tensor, count: int, weight: torch.Tensor) -> torch.Tensor:
    """Multiply with torch's default."""
    return functional.linear(rows[:count], weight)


def matrix_products(
    multiply: Callable[[torch.Tensor, int, torch.Tensor], torch.Tensor], length: int
) -> Measured:
    """Measure products of the same shapes for the texts of one batch, and nothing else."""
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


def products_row(length: int, ours: Measured) -> list[str]:
    """Return the row of leave-one-out and its matrix products."""
    operations = recurrent_operations(length) / 1e9
    rate = operations / ours.seconds
    alone = [
        operations / apart(matrix_products, multiply, length).seconds
        for multiply in (default_product, product)
    ]
    shares = [f"{most:.1f} ({rate / most:.0%})" for most in alone]
    return [f"{length}", f"{operations:.3g}", f"{rate:.1f}", *shares]


def main() -> None:
    """Print the three tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="ascending")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds of an instance")
    parser.add_argument("--only", nargs="+", choices=SIDES, default=list(SIDES), metavar="NAME")
    options = parser.parse_args()
    # The lengths between foresee the time of the next one.
    shown = SHOWN if options.lengths == LENGTHS else options.lengths
    found: dict[str, dict[int, Sides]] = {}
    print_header(COLUMNS)
    for name in options.only:
        found[name] = {}
        for length, sides in measure_lengths(name, options.lengths, options.limit):
            found[name][length] = sides
            if length in shown:
                print_row(table_row(name, length, sides))
    if set(TOGETHER) <= set(found):
        print()
        print_header(COLUMNS_TOGETHER)
        for length in shown:
            print_row(together_row(length, [found[name][length] for name in TOGETHER]))
    if LEAVE_ONE_OUT in found:
        print()
        print_header(COLUMNS_OF_PRODUCTS)
        for length in shown:
            print_row(products_row(length, found[LEAVE_ONE_OUT][length]["ours"]))


if __name__ == "__main__":
    main()
