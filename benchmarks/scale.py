"""What an audit costs an instance, by experiment, length and model, and its memory while it runs: tables, and the picture of docs/scale.md.

    python benchmarks/scale.py cost [--seconds 0.3]
    python benchmarks/scale.py audit INSTANCES
    python benchmarks/scale.py memory INSTANCES --csv FILE [--experiment NAME]... [--permutations K]
    python benchmarks/scale.py plot FILE [--plot docs/scale.svg]

*cost* prints CPU microseconds an instance of generated traces, kernels compiled before. *audit* runs `attnaudit audit` with all
experiments, summary and report on a generated trace of about 20 tokens an instance (`benchmarks/streaming.py`), and prints instances a
second and peak memory. *memory* audits such a trace and writes CPU seconds and resident memory, every few seconds, to FILE.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1]))

from attnaudit.core.files import write_text
from attnaudit.experiments import make_experiment
from attnaudit.recipes.audit import audit_into
from attnaudit.report.charts.svg import render
from attnaudit.trace import write_shards
from benchmarks.growth import INK
from benchmarks.lengths import print_header, print_row
from benchmarks.measuring import forget_peak, peak
from benchmarks.streaming import audited, shards
from tests.traces import make_trace

PLOT = Path(__file__).parents[1] / "docs" / "scale.svg"
EXPERIMENTS = (
    "prediction", "correlation", "permutation", "maximal_change", "adversary", "ranges", "identifiability", "erasure", "comprehensiveness",
)  # fmt: skip
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
EVERY = 2.0  # seconds between two lines of a file


def cost(seconds: float) -> None:
    """A row for each experiment, a column for each length and model."""
    print_header(("CPU µs an instance", *(f"T = {length}, {model}" for length, model in CELLS)))
    for name in EXPERIMENTS:
        print_row(
            [
                name,
                *(
                    f"{1e6 * cpu_seconds(name, length, model, seconds):.0f}"
                    for length, model in CELLS
                ),
            ]
        )


def cpu_seconds(experiment: str, length: int, model: str, seconds: float) -> float:
    """CPU seconds an instance, of as many rows as take ``seconds``."""
    call, rows = make_experiment(experiment), 64
    texts = make_trace(rows, [length] * rows, **MODELS[model])
    call(texts.take(np.arange(2)))
    while True:
        trace = texts.take(np.resize(np.arange(64), rows))
        begun = time.process_time()
        call(trace)
        spent = time.process_time() - begun
        if spent >= seconds or rows >= MOST_ROWS:
            return spent / rows
        rows *= 2 if spent > seconds / 8 else 8


def audit(instances: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        begun, trace = time.perf_counter(), Path(place) / "trace"
        write_shards(trace, shards(instances))
        print(
            f"{instances:,} instances, generated in {time.perf_counter() - begun:.0f} s", flush=True
        )
        seconds, peak = audited(trace, Path(place) / "audit")
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = 1e6 * (spent.ru_utime + spent.ru_stime) / instances
    print(
        f"audit: {seconds:.0f} s, {instances / seconds:,.0f} instances a second, {cpu:.0f} CPU µs an instance, peak {peak:.2f} GiB"
    )


def memory(instances: int, csv: Path, experiments: list[str], settings: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as place:
        write_shards(Path(place) / "trace", shards(instances))
        forget_peak()
        with csv.open("w") as file:
            audit_into(
                Path(place) / "audit",
                Path(place) / "trace",
                experiments,
                settings,
                written(file.write),
            )
    print(f"{instances:,} instances: peak {peak() / 2**30:.2f} GiB")


def written(write: Callable[[str], object]) -> Callable[[str, int, int], None]:
    """Progress that is written as lines of a table."""
    began = last = time.perf_counter()
    write("what,done,cpu,wall,resident,peak,load\n")

    def progress(what: str, done: int, total: int) -> None:
        nonlocal last
        if time.perf_counter() - last >= EVERY:
            last = time.perf_counter()
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf(
                "SC_PAGE_SIZE"
            )
            numbers = (
                time.process_time(),
                last - began,
                resident / 2**30,
                peak() / 2**30,
                os.getloadavg()[0],
            )
            write(",".join([what, str(done), *(f"{number:.3f}" for number in numbers)]) + "\n")

    return progress


def memory_plot(rows: pl.DataFrame) -> str:
    """Resident memory and its peak by instances audited, as SVG that reads on light and on dark pages."""
    audited = rows.filter(pl.col("what").str.starts_with("audit")).select(
        millions=pl.col("done") / 1e6, now="resident", so_far="peak"
    )
    chart = alt.Chart(audited.group_by("millions", maintain_order=True).last())
    x = alt.X("millions:Q", title="instances audited (millions)", scale=alt.Scale(nice=False))
    y = alt.Scale(domain=[0.0, 1.6])
    lines = [
        chart.mark_line(strokeWidth=width, opacity=shade, color="#4269d0").encode(
            x=x, y=alt.Y(f"{name}:Q", title="GiB", scale=y)
        )
        for name, width, shade in (("now", 1.2, 0.6), ("so_far", 2.0, 1.0))
    ]
    limit = (
        alt.Chart(pl.DataFrame({"y": [1.5]}))
        .mark_rule(strokeDash=[4, 4], color="currentColor", opacity=0.7)
        .encode(y="y:Q")
    )
    reached = audited["millions"].max(), audited["so_far"].max()
    label = "Resident memory of an audit, in GiB: its peak after {:.1f} million instances is {:.2f}".format(
        *reached
    )
    svg = render(alt.layer(*lines, limit).properties(width=520, height=240), "scale", label)
    return svg.replace("</title>", f"</title>{INK}", 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("cost").add_argument("--seconds", type=float, default=0.3)
    parts.add_parser("audit").add_argument("instances", type=int)
    watched = parts.add_parser("memory")
    watched.add_argument("instances", type=int)
    watched.add_argument("--csv", type=Path, required=True)
    watched.add_argument("--experiment", action="append", default=[])
    watched.add_argument("--permutations", type=int)
    plotted = parts.add_parser("plot")
    plotted.add_argument("csv", type=Path)
    plotted.add_argument("--plot", type=Path, default=PLOT)
    options = parser.parse_args()
    if options.part == "cost":
        cost(options.seconds)
    elif options.part == "audit":
        audit(options.instances)
    elif options.part == "memory":
        settings = (
            {}
            if options.permutations is None
            else {"permutation.permutations": options.permutations}
        )
        memory(options.instances, options.csv, options.experiment, settings)
    else:
        write_text(options.plot, memory_plot(pl.read_csv(options.csv)))


if __name__ == "__main__":
    main()
