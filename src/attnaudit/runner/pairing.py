"""Finished runs and audits compared with each other: what is read of each, and what is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import atomic
from attnaudit.experiments import EXPERIMENTS, keys, make_experiment
from attnaudit.experiments.registry import measures_of_rows
from attnaudit.report.cards.skill import no_skill_of_run
from attnaudit.results.paired import MeasuredRun, PairedRuns, pair
from attnaudit.results.record import read_record
from attnaudit.results.summary import SummaryRows
from attnaudit.runner.store import (
    is_free,
    read_spec,
    require_as_written,
    require_finished,
    trace_shown,
)
from attnaudit.runner.tasks import TASKS
from attnaudit.runner.transformers import TransformerSpec
from attnaudit.trace import ROW_KEYS, Trace

AUDITED = (
    "audit",
    TransformerSpec.kind,
    *TASKS,
)  # kinds of folders that hold the results of one trace
OF_THE_METHOD = (
    ("permutation", "shuffles"),
    ("permutation", "median_error"),
)  # how a value was computed, and not what the models do
DIFFERENCES, INSTANCES = "differences.parquet", "instances.parquet"
_READ = (*ROW_KEYS, "tokens", "question", "alpha", "prediction")


def compare_runs(folders: Sequence[Path]) -> list[PairedRuns]:
    """Each further run compared with the first. Raises RunError, TraceError and InputError."""
    for folder in folders:
        require_as_written(folder)
    first, *others = map(measured_run, folders)
    return [pair(first, other) for other in others]


def measured_run(folder: Path) -> MeasuredRun:
    """What a finished run, or an audit, measured of every row of its trace. Raises RunError, TraceError and InputError."""
    trace = trace_of(folder)
    record = read_record(folder, trace)
    rows = pl.concat([_named(part) for part in Trace.columns(trace, _READ)])
    settings = record.about.spec.get("experiments")
    settings = settings if isinstance(settings, Mapping) else {}
    named = [key for key in ROW_KEYS if key in rows.columns]
    audited = [
        name for name in EXPERIMENTS if name in record.tables
    ]  # the table of an experiment that is not installed is not read
    tables = {
        name: _measured(folder, name, settings, record.tables[name], rows.select(named))
        for name in audited
    }
    measures = {
        f"{name}.{measure}": (name, measure)
        for name, table in tables.items()
        for measure in table.columns
        if (name, measure) not in OF_THE_METHOD
    }
    found = [
        table.rename(lambda measure, name=name: f"{name}.{measure}")
        for name, table in tables.items()
    ]
    notice = no_skill_of_run(SummaryRows.of(record.summary))
    return MeasuredRun(
        str(folder), pl.concat([rows, *found], how="horizontal"), measures, settings, notice
    )


def write_comparison(out: Path, compared: Sequence[PairedRuns]) -> Path:
    """Write both tables and the page of a comparison into ``out``, and return the page; an earlier one there is overwritten.

    Raises RunError where ``out`` holds something else.
    """
    from attnaudit.report.sections.differences import (
        write_comparison as write_page,
    )  # charts and templates: slow to import

    if not is_free(out) and not (out / DIFFERENCES).exists():
        expected = "a new folder, or one of an earlier comparison"
        raise RunError(
            "compare", str(out), "it holds something else", expected, "choose another --out"
        )
    tables = {
        DIFFERENCES: pl.concat([one.differences for one in compared]),
        INSTANCES: pl.concat([one.instances.select(pl.lit(one.b).alias("run_b"), pl.all()) for one in compared], how="diagonal_relaxed"),
    }  # fmt: skip
    for name, table in tables.items():
        with atomic(out / name) as temporary:
            table.write_parquet(temporary)
    return write_page(out / "report.html", compared)


def trace_of(folder: Path) -> Path:
    """The trace that a finished run holds, or that an audit names. Raises RunError."""
    require_finished(folder)
    spec = read_spec(folder)
    if spec.get("kind") not in AUDITED:
        got, do = f"a folder of kind {spec.get('kind')}", "name runs/… or an audit's folder"
        raise RunError("compare", str(folder), got, "a run or an audit", do)
    return trace_shown(folder, spec)


def _named(part: Trace) -> pl.DataFrame:
    """Keys, predicted class, text and attention of the rows of a piece."""
    shown = part.table.select([name for name in ("tokens", "question", "alpha") if part.has(name)])
    question = [] if part.has("question") else [pl.lit(None, pl.List(pl.String)).alias("question")]
    return pl.concat([keys(part), shown], how="horizontal").with_columns(question)


def _measured(
    folder: Path, name: str, settings: Mapping[str, Any], table: pl.LazyFrame, named: pl.DataFrame
) -> pl.DataFrame:
    """The measures of every row of an experiment's table, which has the rows of the trace."""
    found, place = (
        table.select(named.columns).collect(),
        str(folder / "results" / f"{name}.parquet"),
    )
    if not found.equals(named):
        got = f"{found.height} rows, and a trace of {named.height} rows that names other instances"
        raise InputError("compare", place, got, "the table of this trace", "run the audit again")
    try:
        return (
            measures_of_rows(make_experiment(name, settings.get(name)), table)
            .cast(pl.Float64)
            .collect()
        )
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            "compare",
            place,
            reason,
            "the columns of this version of attnaudit",
            "run the audit again",
        ) from error
