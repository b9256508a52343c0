"""The tables of docs/transformers.md, from finished runs of attnaudit hf.

    python docs/transformers_tables.py --sst runs/sst-s0 runs/sst-s1 runs/sst-s2 --hidden runs/pronoun-s0 runs/deceptive-s0

Prints markdown: the measures of the last layer over seeds, τ of every score with leave-one-out, heads, and what uncovers hidden attention.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import polars as pl

from attnaudit.experiments import measure_label
from attnaudit.experiments.rows import importance_scores, over_words
from attnaudit.results.record import read_summary
from attnaudit.results.words import figure
from attnaudit.stats.kendall import kendall_tau
from attnaudit.trace import Trace

MEASURES = (
    ("prediction", "accuracy"), ("correlation", "tau_gradient"), ("correlation", "tau_loo"), ("correlation", "tau_gradient_loo"),
    ("permutation", "median_delta_y"), ("maximal_change", "max_delta_y"), ("maximal_change", "flips"), ("joint", "joint_uniform"),
    ("joint", "joint_max_delta_y"), ("joint", "joint_flips"), ("adversary", "emax_jsd"), ("adversary", "emax_jsd_upper"),
    ("erasure", "never_attention"), ("erasure", "never_minimum"),
)  # fmt: skip
_COLUMNS = (
    "instance", "tokens", "alpha", "special", "gradient", "loo", "layer", "head", "importance_gradient_input", "importance_rollout",
    "importance_norm", "importance_value_zeroing", "importance_integrated_gradients", "importance_loo_mask",
)  # fmt: skip


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows))


def of_seeds(runs: Sequence[Path]) -> str:
    """A row for each measure, a column for each run, with its interval over texts."""
    rows = []
    for experiment, measure in MEASURES:
        found = [_row(run, experiment, measure) for run in runs]
        cells = [f"{figure(row['value'], 3)} [{figure(row['low'], 3)}, {figure(row['high'], 3)}]" for row in found]
        rows.append([measure_label(measure, experiment), *cells])
    return _table(["measure", *(run.name for run in runs)], rows)


def _row(run: Path, experiment: str, measure: str, group: str = "all") -> dict[str, float]:
    return read_summary(run / "summary.json").row(
        by_predicate=(pl.col("experiment") == experiment) & (pl.col("measure") == measure) & (pl.col("group") == group), named=True
    )


def of_heads(runs: Sequence[Path], experiment: str, measure: str) -> str:
    """The lowest and the highest head of each run."""
    lines = []
    for run in runs:
        found = read_summary(run / "summary.json").filter(
            pl.col("experiment") == experiment, pl.col("measure") == measure, pl.col("group").str.starts_with("head:")
        )
        lines.append(f"{run.name}: {figure(min(found['value']), 3)} to {figure(max(found['value']), 3)}")
    return f"{measure} by head: {'; '.join(lines)}"


def of_scores(runs: Sequence[Path]) -> str:
    """The mean τ of every score with leave-one-out over the words of a text; attention is the mean over heads of its τ."""
    found: dict[str, list[float]] = {}
    for run in runs:
        taus: dict[str, list[np.ndarray]] = {}
        for part in Trace.columns(run / "trace", _COLUMNS):
            scores = over_words(part, {"attention": part.ragged("alpha"), **importance_scores(part)})
            loo = scores.pop("loo")
            for name, score in scores.items():
                taus.setdefault(name, []).append(kendall_tau(score, loo)[0])
        for name, values in taus.items():
            found.setdefault(name, []).append(float(np.nanmean(np.concatenate(values))))
    ordered = sorted(found, key=lambda name: -fmean(found[name]))
    rows = [[name, *(figure(value, 3) for value in found[name]), figure(fmean(found[name]), 3)] for name in ordered]
    return _table(["score", *(run.name for run in runs), "mean"], rows)


def of_hidden(runs: Sequence[Path]) -> str:
    """Attention on the impermissible words of every text, and how often a measure names one of them as the most important."""
    rows = []
    for run in runs:
        mass, named = [], {"attention": [], "gradient": [], "loo": []}
        positions = pl.read_parquet(run / "results" / "maximal_change.parquet").get_column("position").to_list()
        maximal, done = [], 0
        for part in Trace.columns(run / "trace", ("instance", "tokens", "alpha", "special", "gradient", "loo", "rationale")):
            marks = [None if row is None else np.array(row) for row in part.table.column("rationale").to_pylist()]
            scores = {name: part.ragged("alpha" if name == "attention" else name) for name in named}
            for row, mark in enumerate(marks):
                if mark is None or not mark.any():
                    continue
                mass.append(float(part.ragged("alpha")[row][mark].sum()))
                maximal.append(bool(mark[positions[done + row]]))
                for name, score in scores.items():
                    named[name].append(bool(mark[score[row].argmax()]))
            done += len(part)
        cells = [fmean(mass), *(fmean(named[name]) for name in named), fmean(maximal)]
        rows.append([run.name, *(figure(100 * cell, 1) for cell in cells)])
    names = ("attention on them", "top token by attention", "by gradient", "by leave-one-out", "by maximal change")
    header = ["run", *(f"{name} (%)" for name in names)]
    return _table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("sst", "hidden"):
        parser.add_argument(f"--{name}", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    if options.sst:
        heads = [of_heads(options.sst, *measure) for measure in (("maximal_change", "max_delta_y"), ("correlation", "tau_loo"))]
        print(of_seeds(options.sst), *heads, of_scores(options.sst), sep="\n\n")
    if options.hidden:
        print(of_hidden(options.hidden))


if __name__ == "__main__":
    main()
