"""Compare two seeds of the shuffles: print a table and draw docs/research/shuffles.svg.

``python -m benchmarks.shuffles_study TRACE…`` takes traces or runs of classifiers with an identity tail.
Each row has the correlation of the median Δŷ under two seeds over instances, the correlation that
the Monte Carlo error predicts, the mean number of shuffles and the CPU seconds of one seed: with
100 shuffles, as in the paper, and with as many as the default error needs.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl
import vl_convert

from attnaudit.experiments.permutation import Permutation
from attnaudit.trace import Trace

IMAGE = Path(__file__).parents[1] / "docs" / "research" / "shuffles.svg"
WAYS = {"100 shuffles": {"permutations": 100}, "default error": {}}
COLUMNS = ("trace", "way", "r", "expected r", "shuffles", "CPU s")
WANTED = 0.99


def agreement(trace: Trace, settings: dict[str, int]) -> tuple[float, float, float, float]:
    """Return the correlation of two seeds, the expected one, shuffles and CPU seconds."""
    begun = time.process_time()
    one = Permutation(**settings)(trace)
    taken = time.process_time() - begun
    other = Permutation(seed=1, **settings)(trace)
    median, error = one["median_delta_y"].to_numpy(), one["median_error"].to_numpy()
    return (
        float(np.corrcoef(median, other["median_delta_y"])[0, 1]),
        float(1.0 - np.mean(error**2) / median.var()),
        float(one["shuffles"].to_numpy().mean()),
        taken,
    )


def draw(table: pl.DataFrame) -> None:
    """Draw both correlations of each trace, and a line at `WANTED`."""
    ends = alt.Scale(domain=[min([0.94, *table["r"].to_list()]), 1.0], nice=False)
    x = alt.X("r:Q", title="correlation of the median Δŷ between two seeds", scale=ends)
    dots = alt.Chart(table).mark_point(filled=True, size=60, opacity=0.9)
    rule = alt.Chart(pl.DataFrame({"r": [WANTED]})).mark_rule(strokeDash=[5, 3])
    chart = alt.layer(
        rule.encode(x=x),
        dots.encode(
            x=x, y=alt.Y("trace:N", title=None), color=alt.Color("way:N", title=None), shape="way:N"
        ),
    ).properties(width=420, height=18 * table["trace"].n_unique())
    IMAGE.write_text(vl_convert.vegalite_to_svg(chart.to_dict()), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", nargs="+", type=Path)
    rows = []
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    for path in parser.parse_args().traces:
        trace = Trace.read(path)
        agreement(trace, {"permutations": 1})  # compiles
        for way, settings in WAYS.items():
            found = agreement(trace, settings)
            rows.append((path.name, way, *found))
            print(
                f"| {path.name} | {way} | {found[0]:.4f} | {found[1]:.4f} | {found[2]:.0f} | {found[3]:.2f} |"
            )
    draw(pl.DataFrame(rows, schema=list(COLUMNS), orient="row"))


if __name__ == "__main__":
    main()
