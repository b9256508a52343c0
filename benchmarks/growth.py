"""How the cost of an instance grows with its length, from 10 to 4000 tokens, with fitted exponents and a plot.

    python benchmarks/growth.py [--plot FILE] [--runs RUN...]

Made-up texts and traces (`benchmarks/made_up.py`), each measurement in a process of its own. The exponent is the slope of log seconds
on log T over the upper half of the lengths. The rows of a run's trace are cut by length into bins of as many rows, and each bin,
repeated to about as many tokens as a made-up trace has, is timed; there the slope is over all bins. Prints markdown tables and writes
the plot as SVG.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1]))

from attnaudit.core.files import write_text
from attnaudit.report.charts.palette import Palette
from attnaudit.report.charts.svg import render
from attnaudit.trace import Trace
from benchmarks.lengths import figure, print_header, print_row
from benchmarks.measuring import Measured, apart, measured, measured_apart
from benchmarks.sides import ENCODERS, OURS, POSITIONS, on_trace

PLOT = Path(__file__).parents[1] / "docs" / "growth.svg"
LENGTHS = tuple(np.geomspace(10, 4000, 9).round().astype(int).tolist())
QUESTIONS = (*(f"leave-one-out, {encoder}" for encoder in ENCODERS), *OURS)
BINS = 6
HEIGHT, LINE = 360, 15  # of the plot and of a line of text
INK = "<style>svg{color:#24292f}@media(prefers-color-scheme:dark){svg{color:#d1d7de}}</style>"


def exponent(lengths: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of log seconds on log T."""
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])


def late_exponent(lengths: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope over the upper half of the lengths, where what a call costs at any length no longer shows."""
    late = slice((len(lengths) - 1) // 2, None)
    return exponent(lengths[late], seconds[late])


def length_bins(trace: Trace) -> list[np.ndarray]:
    """Row numbers, shortest texts first, in bins of as many rows each."""
    return np.array_split(np.argsort(trace.alpha.lengths, kind="stable"), BINS)


def measure_bin(run: str, name: str, k: int) -> Measured:
    """A bin's rows, over and over, up to the tokens of a made-up trace."""
    trace = Trace.read(run)
    rows = length_bins(trace)[k]
    tokens = int(trace.alpha.lengths[rows].sum())
    side = on_trace(name, OURS[name], trace.take(np.tile(rows, max(POSITIONS // tokens, 1))))
    side.call(np.arange(2))
    return measured(side)


def print_run(run: str) -> None:
    """Milliseconds of every counterfactual on the bins of a real trace."""
    trace = Trace.read(run)
    lengths = [float(trace.alpha.lengths[rows].mean()) for rows in length_bins(trace)]
    print(f"\nThe trace of {Path(run).name}, mean T of the bins:\n")
    print_header(("ms an instance", *(f"{length:.1f}" for length in lengths), "exponent"))
    for name in OURS:
        seconds = [apart(measure_bin, run, name, k).seconds for k in range(BINS)]
        print_row(
            [name, *(figure(1e3 * value) for value in seconds), f"{exponent(lengths, seconds):.2f}"]
        )


def growth_plot(lengths: Sequence[int], seconds: dict[str, list[float]]) -> str:
    """Lines on two logarithmic axes, each with its name and exponent at its end, as SVG that reads on light and on dark pages."""
    palette = Palette(tuple(seconds))
    points = [
        (name, length, value)
        for name, values in seconds.items()
        for length, value in zip(lengths, values, strict=True)
    ]
    chart = alt.Chart(pl.DataFrame(points, schema=["group", "T", "seconds"], orient="row"))
    low, high = decades(seconds)
    ticks = [10.0**power for power in range(low, high + 1)]
    x = alt.X(
        "T:Q", title="tokens of an instance, T", scale=alt.Scale(type="log", domain=[lengths[0], lengths[-1]], nice=False),
        axis=alt.Axis(values=[10, 30, 100, 300, 1000, 4000]),
    )  # fmt: skip
    y = alt.Y(
        "seconds:Q", title="time an instance", scale=alt.Scale(type="log", domain=[ticks[0], ticks[-1]], nice=False),
        axis=alt.Axis(values=ticks, labelExpr="format(datum.value, '~s') + 's'"),
    )  # fmt: skip
    lines = chart.mark_line(strokeWidth=1.8).encode(
        x=x, y=y, color=palette.colour(), strokeDash=palette.dash()
    )
    marks = chart.mark_point(filled=True, size=28, opacity=1).encode(
        x=x, y=y, color=palette.colour()
    )
    names = names_at_end(lengths, seconds)
    named = alt.Chart(names).mark_text(align="left", dx=20).encode(x=x, y=y, text="text:N")
    keyed = (
        alt.Chart(names)
        .mark_point(filled=True, size=42, opacity=1, xOffset=13)
        .encode(x=x, y=y, color=palette.colour())
    )
    label = "Seconds an instance against its tokens, both logarithmic: " + ", ".join(names["text"])
    room = {
        "left": 4,
        "right": 44,
        "top": 6,
        "bottom": 4,
    }  # at the right for fonts wider than those measured here
    svg = render(
        alt.layer(lines, marks, named, keyed).properties(width=520, height=HEIGHT, padding=room),
        "growth",
        label,
    )
    return svg.replace("</title>", f"</title>{INK}", 1)


def decades(seconds: dict[str, list[float]]) -> tuple[int, int]:
    """The powers of ten that hold all values."""
    powers = np.log10(np.concatenate(list(seconds.values())))
    return int(np.floor(powers.min())), int(np.ceil(powers.max()))


def names_at_end(lengths: Sequence[int], seconds: dict[str, list[float]]) -> pl.DataFrame:
    """Name and exponent of every line where it ends, moved up where the one below is too near."""
    low, high = decades(seconds)
    apart = LINE / HEIGHT * (high - low)
    rows, place = [], -np.inf
    for name, values in sorted(seconds.items(), key=lambda item: item[1][-1]):
        place = max(float(np.log10(values[-1])), place + apart)
        rows.append(
            (name, f"{name}: T^{late_exponent(lengths, values):.2f}", lengths[-1], 10.0**place)
        )
    return pl.DataFrame(rows, schema=["group", "text", "T", "seconds"], orient="row")


def main() -> None:
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
        print_row(
            [
                name,
                *(figure(1e3 * value) for value in seconds[name]),
                f"{late_exponent(options.lengths, seconds[name]):.2f}",
            ]
        )
    write_text(options.plot, growth_plot(options.lengths, seconds))
    for run in options.runs:
        print_run(run)


if __name__ == "__main__":
    main()
