"""Experiments: one file per question, each a frozen configuration and a pure call, trace → tidy table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Protocol

import polars as pl

from attnaudit.core.errors import InputError, TraceError, did_you_mean
from attnaudit.core.kernels import compiling
from attnaudit.core.papers import Paper
from attnaudit.core.progress import Progress, silent
from attnaudit.experiments.adversary import Adversary
from attnaudit.experiments.comprehensiveness import Comprehensiveness
from attnaudit.experiments.correlation import Correlation
from attnaudit.experiments.erasure import Erasure
from attnaudit.experiments.permutation import Permutation
from attnaudit.experiments.plausibility import Plausibility
from attnaudit.experiments.prediction import Prediction
from attnaudit.results import Result, Results
from attnaudit.results.file import table_file
from attnaudit.trace import ASKING, Trace, trace_rows, trace_task


class Experiment(Protocol):
    """A question put to a trace.

    ``needs`` are the optional columns it reads, ``paper`` its source. Calling it gives a frame with a row per
    trace row, in order, whose first columns are `keys(trace)`; ``summarise`` turns that frame, of all shards, into summary rows.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    paper: ClassVar[Paper]
    seed: int

    def refuses(self, trace: Trace) -> str | None: ...

    def __call__(self, trace: Trace) -> pl.DataFrame: ...

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame: ...


REGISTRY: dict[str, type] = {e.name: e for e in (Prediction, Correlation, Permutation, Adversary, Erasure, Comprehensiveness, Plausibility)}


def make_experiment(name: str, settings: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment ``name`` with ``settings`` in place of its defaults. Raises InputError for an unknown name or setting."""
    if name not in REGISTRY:
        raise InputError("audit", "experiment", repr(name), f"one of {', '.join(REGISTRY)}", did_you_mean(name, REGISTRY))
    experiment = REGISTRY[name]()
    known = {f.name: f for f in fields(experiment)}
    for key in settings or {}:
        if key not in known:
            raise InputError("audit", f"setting {name}.{key}", "no such setting", f"one of {', '.join(known)}", did_you_mean(key, known))
    return replace(experiment, **(settings or {}))


def settings_for_task(task: str | None) -> dict[str, dict[str, Any]]:
    """The settings that Jain & Wallace 2019 chose otherwise for question answering and inference."""
    return {"adversary": {"epsilon": 0.05}} if task in ASKING else {}


def audit(
    trace: Trace | str | Path, experiments: Sequence[str] | None = None, settings: Mapping[str, Mapping[str, Any]] | None = None,
    folder: Path | None = None, progress: Progress = silent,
) -> Results:  # fmt: skip
    """Put every experiment that the trace's columns allow to it; with ``experiments`` just those.

    ``trace`` is a `Trace`, or the path of one, which is then read shard by shard. ``settings`` maps an experiment's name to its
    settings, for example ``{"adversary": {"epsilon": 0.05}}``; where it says nothing, the defaults for the trace's task hold. With
    ``folder`` the tables are written there as they come, ``<experiment>.parquet``; memory then holds one shard, and for the summary
    a few measures of every row at a time.

    Raises InputError for an unknown experiment or setting and TraceError where an experiment asked for by name cannot use this trace.
    """
    task = trace.task if isinstance(trace, Trace) else trace_task(trace)
    usual, given = settings_for_task(task), settings or {}
    make_all = {name: make_experiment(name, {**usual.get(name, {}), **given.get(name, {})}) for name in (experiments or REGISTRY)}
    shards = iter([trace]) if isinstance(trace, Trace) else Trace.shards(trace)
    first = next(shards)  # of one kind with the others: what it lacks they lack
    left_out = {
        name: reason for name, experiment in make_all.items() if (reason := _missing(experiment, first) or experiment.refuses(first))
    }
    if experiments and left_out:
        name, reason = next(iter(left_out.items()))
        raise TraceError("audit", name, reason, "a trace that this experiment can use")
    taken = {name: experiment for name, experiment in make_all.items() if name not in left_out}
    put = _into_memory if folder is None else partial(_into_files, folder)
    rows = len(trace) if isinstance(trace, Trace) else trace_rows(trace)
    tables = put(taken, _asked(taken, chain([first], shards), rows, progress))
    results = {}
    for name, rows in tables.items():
        progress("summarise", len(results), len(tables))
        results[name] = Result(name, rows, taken[name].summarise(rows))
    return Results(results, left_out)


def _asked(
    experiments: Mapping[str, Experiment], shards: Iterable[Trace], rows: int, progress: Progress
) -> Iterator[tuple[str, pl.DataFrame]]:
    """What every experiment says of every shard; whoever waits hears which is at work, and how many rows are done."""
    done = 0
    for shard in shards:
        for name, experiment in experiments.items():
            progress(f"audit: {name}", done, rows)
            with compiling(partial(progress, f"audit: {name} (compiled once, on its first use)", done, rows)):
                table = experiment(shard)
            yield name, table
        done += len(shard)


def _into_memory(experiments: Iterable[str], made: Iterable[tuple[str, pl.DataFrame]]) -> dict[str, pl.LazyFrame]:
    tables: dict[str, list[pl.DataFrame]] = {name: [] for name in experiments}
    for name, table in made:
        tables[name].append(table)
    return {name: pl.concat(parts).lazy() for name, parts in tables.items()}


def _into_files(folder: Path, experiments: Iterable[str], made: Iterable[tuple[str, pl.DataFrame]]) -> dict[str, pl.LazyFrame]:
    paths = {name: folder / f"{name}.parquet" for name in experiments}
    with ExitStack() as files:
        add = {name: files.enter_context(table_file(path)) for name, path in paths.items()}
        for name, table in made:
            add[name](table)
    return {name: pl.scan_parquet(path) for name, path in paths.items()}


def _missing(experiment: Experiment, trace: Trace) -> str | None:
    missing = [name for name in experiment.needs if not trace.has(name)]
    return f"the trace has no column {', '.join(missing)}" if missing else None
