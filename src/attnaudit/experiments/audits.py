"""Run the experiments that a trace allows, and summarise their tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core import Progress, silent
from attnaudit.experiments.registry import (
    EXPERIMENTS,
    Experiment,
    make_experiment,
    refusal,
    require_usable,
)
from attnaudit.experiments.replay import network_of
from attnaudit.experiments.shards import tables_of_shards
from attnaudit.results import Result, Results, read_table, table_file
from attnaudit.trace import ASKING, Trace, trace_rows, trace_task
from attnaudit.trace.tails import Network

# Computes the table of each experiment on each shard, in the order of shards.
Tables = Callable[
    [Mapping[str, Experiment], Iterable[Trace], int, Progress], Iterator[tuple[str, pl.DataFrame]]
]


@dataclass(frozen=True)
class Audit:
    """Plan of an audit; nothing is computed yet.

    Attributes:
        experiments: The experiments that the trace allows, by name.
        left_out: The reason for each experiment that it does not allow.
        shards: The trace in pieces, which can be read once.
        rows: Number of rows of the trace.
        metadata: Metadata of the trace.
    """

    experiments: Mapping[str, Experiment]
    left_out: Mapping[str, str]
    shards: Iterator[Trace]
    rows: int
    metadata: Mapping[str, Any]


def settings_for_task(task: str | None) -> dict[str, dict[str, Any]]:
    """Return the settings that Jain & Wallace 2019 change for a task, by experiment."""
    # Their ε is 0.01 in text classification, and 0.05 if a question comes with the text.
    return {"adversary": {"epsilon": 0.05}, "ranges": {"epsilon": 0.05}} if task in ASKING else {}


def audit(
    trace: Trace | str | Path,
    experiments: str | Sequence[str] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    folder: Path | None = None,
    progress: Progress = silent,
    replay: Any = None,
) -> Results:
    """Run every registered experiment that the trace's columns allow.

    Args:
        trace: A trace, or the path of one, which is then read shard by shard.
        experiments: Names of the only experiments to run, or one name.
        settings: Settings by experiment, such as ``{"adversary": {"epsilon": 0.05}}``; defaults are
            those for the trace's task.
        folder: Folder for the tables, ``<experiment>.parquet``, written shard by shard. Memory then
            holds the shards in progress and, for the summary, a few measures of every row.
        progress: Callback for the number of rows done.
        replay: Model of a trace that stores no tail: one of the transformers library, its folder,
            or `attnaudit.hf.Replay`.

    Returns:
        Tables and summaries by experiment, and the reason for each experiment left out.

    Raises:
        InputError: For an unknown experiment or setting, for another model than the one that the
            trace was collected from, and for a model that has changed since.
        TraceError: If an experiment that was asked for by name cannot use this trace.
    """
    results = run_audit(plan_audit(trace, experiments, settings, replay), folder, progress)
    return replace(results, trace=trace) if isinstance(trace, Trace) else results


def plan_audit(
    trace: Trace | str | Path,
    experiments: str | Sequence[str] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    replay: Any = None,
) -> Audit:
    """Choose the experiments of an audit; arguments and errors are those of `audit`."""
    usual = settings_for_task(trace.task if isinstance(trace, Trace) else trace_task(trace))
    names = [experiments] if isinstance(experiments, str) else experiments
    chosen = {
        name: make_experiment(name, {**usual.get(name, {}), **(settings or {}).get(name, {})})
        for name in (names or EXPERIMENTS)
    }
    network = network_of(trace, replay)
    if not isinstance(trace, Trace):
        shards = Trace.shards(trace, network)
    elif network is not None and isinstance(trace.tail, Network):
        shards = iter([Trace(trace.table, trace.metadata, network)])  # the checked model
    else:
        shards = iter([trace])
    # All shards have the same columns, so the first one decides which experiments apply.
    first = next(shards)
    if names:
        require_usable(chosen.values(), first)
    left_out = {
        name: reason
        for name, experiment in chosen.items()
        if (reason := refusal(experiment, first))
    }
    return Audit(
        {name: experiment for name, experiment in chosen.items() if name not in left_out},
        left_out,
        chain([first], shards),
        len(trace) if isinstance(trace, Trace) else trace_rows(trace),
        first.metadata,
    )


def run_audit(
    plan: Audit,
    folder: Path | None = None,
    progress: Progress = silent,
    tables: Tables = tables_of_shards,
) -> Results:
    """Compute a planned audit.

    Args:
        plan: The plan; its shards are used up.
        folder: Folder for the tables; in memory by default.
        progress: Callback for the number of rows done.
        tables: Computes the tables of the shards, in this process by default.
    """
    experiments = plan.experiments
    # Tables of different experiments arrive in turn, so all files stay open until the last shard.
    with ExitStack() as files:
        parts: dict[str, list[pl.DataFrame]] = {name: [] for name in experiments}
        paths = {name: (folder or Path()) / f"{name}.parquet" for name in experiments}
        add = {
            name: parts[name].append if folder is None else files.enter_context(table_file(path))
            for name, path in paths.items()
        }
        for name, table in tables(experiments, plan.shards, plan.rows, progress):
            add[name](table)
    rows = {
        name: pl.concat(parts[name]).lazy() if folder is None else read_table(path)
        for name, path in paths.items()
    }
    results = {}
    for name, table in rows.items():
        results[name] = Result(name, table, experiments[name].summarise(table))
        progress("summarise", len(results), len(rows))
    return Results(results, plan.left_out, plan.metadata)
