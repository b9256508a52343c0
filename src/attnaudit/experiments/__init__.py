"""Experiments: one file per question, each a frozen configuration and a pure call, trace → tidy table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import polars as pl

from attnaudit.errors import InputError, TraceError, did_you_mean
from attnaudit.experiments.adversary import Adversary
from attnaudit.experiments.correlation import Correlation
from attnaudit.experiments.permutation import Permutation
from attnaudit.experiments.plausibility import Plausibility
from attnaudit.experiments.prediction import Prediction
from attnaudit.results import Result, Results
from attnaudit.trace import ASKING, Trace, trace_task


class Experiment(Protocol):
    """A question put to a trace.

    ``needs`` are the optional columns it reads, ``paper`` the BibTeX key of its source. Calling it gives a frame with a row per
    trace row, in order, whose first columns are `keys(trace)`; ``summarise`` turns that frame, of all shards, into summary rows.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    paper: ClassVar[str]
    seed: int

    def refuses(self, trace: Trace) -> str | None: ...

    def __call__(self, trace: Trace) -> pl.DataFrame: ...

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame: ...


REGISTRY: dict[str, type] = {e.name: e for e in (Prediction, Correlation, Permutation, Adversary, Plausibility)}


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
    trace: Trace | str | Path, experiments: Sequence[str] | None = None, settings: Mapping[str, Mapping[str, Any]] | None = None
) -> Results:
    """Put every experiment that the trace's columns allow to it; with ``experiments`` just those.

    ``trace`` is a `Trace`, or the path of one, which is then read shard by shard. ``settings`` maps an experiment's name to its
    settings, for example ``{"adversary": {"epsilon": 0.05}}``; where it says nothing, the defaults for the trace's task hold.

    Raises InputError for an unknown experiment or setting and TraceError where an experiment asked for by name cannot use this trace.
    """
    task = trace.task if isinstance(trace, Trace) else trace_task(trace)
    usual, given = settings_for_task(task), settings or {}
    make_all = {name: make_experiment(name, {**usual.get(name, {}), **given.get(name, {})}) for name in (experiments or REGISTRY)}
    shards: Iterable[Trace] = [trace] if isinstance(trace, Trace) else Trace.shards(trace)
    tables: dict[str, list[pl.DataFrame]] = {}
    left_out: dict[str, str] = {}
    for shard in shards:
        for name, experiment in make_all.items():
            reason = left_out.get(name) or _missing(experiment, shard) or experiment.refuses(shard)
            if reason and experiments:
                raise TraceError("audit", name, reason, "a trace that this experiment can use")
            if reason:
                left_out[name] = reason
            else:
                tables.setdefault(name, []).append(experiment(shard))
    return Results({name: _result(make_all[name], tables[name]) for name in make_all if name in tables and name not in left_out}, left_out)


def _result(experiment: Experiment, tables: list[pl.DataFrame]) -> Result:
    table = pl.concat(tables)
    return Result(experiment.name, table, experiment.summarise(table))


def _missing(experiment: Experiment, trace: Trace) -> str | None:
    missing = [name for name in experiment.needs if not trace.has(name)]
    return f"the trace has no column {', '.join(missing)}" if missing else None
