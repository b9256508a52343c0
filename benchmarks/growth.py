"""Growth of the cost of an instance with its length, from 10 to 4000 tokens.

    python -m benchmarks.growth [--plot FILE] [--runs RUN…]

Generated texts and traces, each measurement in a process of its own. The exponent is the slope of
log seconds on log T over the upper half of the lengths. The rows of a run's trace are sorted by
length into bins of equal size; each bin, repeated to about as many tokens as a generated trace has,
is timed, and the slope is over all bins. Print Markdown tables, and write the plot as SVG.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

from attnaudit.trace import Trace
from benchmarks.measuring import Measured, apart, measured, measured_apart
from benchmarks.output import figure, print_header, print_row, write_plot
from benchmarks.sides import ENCODERS, OURS, POSITIONS, ours

PLOT = Path(__file__).parents[1] / "docs" / "research" / "growth.svg"
LENGTHS = tuple(np.geomspace(10, 4000, 9).round().astype(int).tolist())
TICKS = (10, 30, 100, 300, 1000, 4000)
QUESTIONS = (*(f"leave-one-out, {encoder}" for encoder in ENCODERS), *OURS)
BINS = 6


def exponent(lengths: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the slope of log seconds on log T."""
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])


def late_exponent(lengths: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the slope over the upper half, in which the constant cost of a call no longer shows."""
    late = slice((len(lengths) - 1) // 2, None)
    return exponent(lengths[late], seconds[late])


def length_bins(trace: Trace) -> list[np.ndarray]:
    """Return row numbers, shortest texts first, in bins of equal size."""
    return np.array_split(np.argsort(trace.alpha.lengths, kind="stable"), BINS)


def measure_bin(run: str, name: str, k: int) -> Measured:
    """Measure a bin's rows, repeated up to the tokens of a generated trace."""
    trace = Trace.read(run)
    rows = length_bins(trace)[k]
    tokens = int(trace.alpha.lengths[rows].sum())
    side = ours(name, OURS[name], trace.take(np.tile(rows, max(POSITIONS // tokens, 1))))
    side.call(np.arange(2))
    return measured(side)


def print_times(name: str, seconds: Sequence[float], slope: float) -> None:
    """Print the times of one experiment, and its exponent."""
    print_row([name, *(figure(1e3 * value) for value in seconds), f"{slope:.2f}"])


def print_run(run: str) -> None:
    """Print the times of every counterfactual on the bins of a real trace."""
    trace = Trace.read(run)
    lengths = [float(trace.alpha.lengths[rows].mean()) for rows in length_bins(trace)]
    print(f"\nThe trace of {Path(run).name}, mean T of the bins:\n")
    print_header(("ms an instance", *(f"{length:.1f}" for length in lengths), "exponent"))
    for name in OURS:
        seconds = [apart(measure_bin, run, name, k).seconds for k in range(BINS)]
        print_times(name, seconds, exponent(lengths, seconds))


def write_growth(
    path: Path, lengths: Sequence[int], seconds: Mapping[str, Sequence[float]]
) -> None:
    """Draw seconds against T, both logarithmic."""
    # The names in the legend have the order of the lines at the end.
    order = sorted(seconds, key=lambda name: -seconds[name][-1])
    titles = {name: f"{name}: T^{late_exponent(lengths, seconds[name]):.2f}" for name in order}
    points = [
        (titles[name], length, value)
        for name in order
        for length, value in zip(lengths, seconds[name], strict=True)
    ]
    chart = alt.Chart(pl.DataFrame(points, schema=["name", "T", "seconds"], orient="row"))
    ends, label = [lengths[0], lengths[-1]], "format(datum.value, '~s') + 's'"
    x = alt.X("T:Q", title="tokens of an instance, T", axis=alt.Axis(values=TICKS))
    y = alt.Y("seconds:Q", title="time of an instance", axis=alt.Axis(labelExpr=label))
    line = chart.mark_line(point=True, strokeWidth=1.8).encode(
        x=x.scale(type="log", domain=ends, nice=False),
        y=y.scale(type="log"),
        color=alt.Color("name:N", sort=list(titles.values()), title=None),
        strokeDash=alt.StrokeDash("name:N", sort=list(titles.values()), title=None),
    )
    description = "Seconds of an instance against its tokens, both logarithmic: "
    write_plot(path, alt.layer(line), description + ", ".join(titles.values()))


def main() -> None:
    """Measure generated texts and traces, then the traces of runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--plot", type=Path, default=PLOT)
    parser.add_argument("--runs", nargs="*", default=())
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {}
    print_header(("ms an instance, T =", *map(str, options.lengths), "exponent"))
    for name in QUESTIONS:
        seconds[name] = [measured_apart(name, "ours", length).seconds for length in options.lengths]
        print_times(name, seconds[name], late_exponent(options.lengths, seconds[name]))
    write_growth(options.plot, options.lengths, seconds)
    for run in options.runs:
        print_run(run)


if __name__ == "__main__":
    main()
