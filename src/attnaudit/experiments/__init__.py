"""Experiments: one file per question, each a frozen configuration and a pure call, trace → tidy table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core.progress import Progress, silent
from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.experiments.agreement import Agreement
from attnaudit.experiments.alignment import Alignment
from attnaudit.experiments.comprehensiveness import Comprehensiveness
from attnaudit.experiments.correlation import Correlation
from attnaudit.experiments.erasure.experiment import Erasure
from attnaudit.experiments.identifiability.experiment import Identifiability
from attnaudit.experiments.joint import Joint
from attnaudit.experiments.maximal_change.experiment import MaximalChange
from attnaudit.experiments.permutation import Permutation
from attnaudit.experiments.plausibility import Plausibility
from attnaudit.experiments.prediction import Prediction
from attnaudit.experiments.ranges.experiment import Ranges
from attnaudit.experiments.registry import (
    EXPERIMENTS,
    Experiment,
    facts,
    make_experiment,
    measure_label,
    refusal,
    register_experiment,
    require_usable,
    with_settings,
)
from attnaudit.experiments.replay import network_of
from attnaudit.experiments.rows import keys, row_streams
from attnaudit.experiments.shards import tables_of_shards
from attnaudit.results import Result, Results
from attnaudit.results.groups import by_group
from attnaudit.results.table import read_table, table_file
from attnaudit.trace import ASKING, Trace, trace_rows, trace_task
from attnaudit.trace.tails import Network

Tables = Callable[
    [Mapping[str, Experiment], Iterable[Trace], int, Progress], Iterator[tuple[str, pl.DataFrame]]
]
"""Computes the table of every experiment on every shard, those of one experiment in the order of the shards."""
_OURS = (
    Prediction,
    Correlation,
    Permutation,
    MaximalChange,
    Joint,
    Adversary,
    Ranges,
    Identifiability,
    Erasure,
    Comprehensiveness,
    Plausibility,
    Agreement,
    Alignment,
)
for _experiment in _OURS:
    register_experiment(_experiment)

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "audit",
    "by_group",
    "facts",
    "keys",
    "make_experiment",
    "measure_label",
    "refusal",
    "register_experiment",
    "require_usable",
    "row_streams",
    "settings_for_task",
    "tables_of_shards",
    "with_settings",
]


def settings_for_task(task: str | None) -> dict[str, dict[str, Any]]:
    """The settings of Jain & Wallace 2019 for question answering and inference that differ from the defaults."""
    return {"adversary": {"epsilon": 0.05}, "ranges": {"epsilon": 0.05}} if task in ASKING else {}


def audit(
    trace: Trace | str | Path,
    experiments: str | Sequence[str] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    folder: Path | None = None,
    progress: Progress = silent,
    replay: Any = None,
    tables: Tables | None = None,
) -> Results:
    """Run every registered experiment that the trace's columns allow; with ``experiments`` just those, or the one.

    ``trace`` is a `Trace`, or the path of one, which is then read shard by shard. ``settings`` maps an experiment's name to its
    settings, for example ``{"adversary": {"epsilon": 0.05}}``; where it says nothing, the defaults for the trace's task hold. With
    ``folder`` the tables are written there as they come, ``<experiment>.parquet``; memory then holds one shard, and for the summary
    a few measures of every row at a time. ``replay`` is the model of a trace that stores no tail: one of the transformers library, its
    folder, or `attnaudit.hf.Replay`. ``tables`` computes the tables of the shards in place of this process.

    Raises InputError for an unknown experiment or setting, and for a model, given or held by the trace, that is not the one that the
    trace was collected from, as it was then; TraceError where an experiment asked for by name cannot use this trace.
    """
    task = trace.task if isinstance(trace, Trace) else trace_task(trace)
    usual, given = settings_for_task(task), settings or {}
    experiments = [experiments] if isinstance(experiments, str) else experiments
    make_all = {
        name: make_experiment(name, {**usual.get(name, {}), **given.get(name, {})})
        for name in (experiments or EXPERIMENTS)
    }
    shards = _shards(trace, network_of(trace, replay))
    first = next(shards)  # of one kind with the others: what it lacks they lack
    if experiments:
        require_usable(make_all.values(), first)
    skipped = {
        name: reason
        for name, experiment in make_all.items()
        if (reason := refusal(experiment, first))
    }
    taken = {name: experiment for name, experiment in make_all.items() if name not in skipped}
    keep = _into_memory if folder is None else partial(_into_files, folder)
    rows = len(trace) if isinstance(trace, Trace) else trace_rows(trace)
    kept = keep(taken, (tables or tables_of_shards)(taken, chain([first], shards), rows, progress))
    results = {}
    for name, table in kept.items():
        results[name] = Result(name, table, taken[name].summarise(table))
        progress("summarise", len(results), len(kept))
    return Results(results, skipped, first.metadata)


def _shards(trace: Trace | str | Path, network: Network | None) -> Iterator[Trace]:
    """The trace piece by piece, with a checked model in place of the one that it holds."""
    if not isinstance(trace, Trace):
        return Trace.shards(trace, network)
    if network is not None and isinstance(trace.tail, Network):
        trace = Trace(trace.table, trace.metadata, network)
    return iter([trace])


def _into_memory(
    experiments: Iterable[str], made: Iterable[tuple[str, pl.DataFrame]]
) -> dict[str, pl.LazyFrame]:
    tables: dict[str, list[pl.DataFrame]] = {name: [] for name in experiments}
    for name, table in made:
        tables[name].append(table)
    return {name: pl.concat(parts).lazy() for name, parts in tables.items()}


def _into_files(
    folder: Path, experiments: Iterable[str], made: Iterable[tuple[str, pl.DataFrame]]
) -> dict[str, pl.LazyFrame]:
    paths = {name: folder / f"{name}.parquet" for name in experiments}
    with ExitStack() as files:
        add = {name: files.enter_context(table_file(path)) for name, path in paths.items()}
        for name, table in made:
            add[name](table)
    return {name: read_table(path) for name, path in paths.items()}
