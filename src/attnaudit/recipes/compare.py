"""Finished runs and audits compared with each other."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core import InputError, RunError, atomic
from attnaudit.experiments import EXPERIMENTS, keys, make_experiment
from attnaudit.experiments.registry import measures_of_rows
from attnaudit.experiments.verdict import decide_verdict
from attnaudit.plans.audit import TransformerSpec
from attnaudit.recipes.kinds import KINDS
from attnaudit.report.cards.skill import no_skill_of_run
from attnaudit.results import SummaryRows, read_record
from attnaudit.results.paired import MeasuredRun, PairedRuns, pair
from attnaudit.steps import read_spec, refuse_other, require_as_written, require_finished
from attnaudit.steps.finished import trace_shown
from attnaudit.trace import ROW_KEYS, SHOWN, Trace

# Kinds of folders that hold the results of one trace.
AUDITED = ("audit", TransformerSpec.kind, *KINDS)
# How a value was computed, and not what the models do.
OF_THE_METHOD = (("permutation", "shuffles"), ("permutation", "median_error"))
DIFFERENCES, INSTANCES = "differences.parquet", "instances.parquet"
_READ = (*ROW_KEYS, "tokens", "question", "alpha", f"importance_{SHOWN}", "prediction")


def compare_runs(folders: Sequence[Path]) -> list[PairedRuns]:
    """Compare each further run with the first. Raises RunError, TraceError and InputError."""
    for folder in folders:
        require_as_written(folder)
    first, *others = map(measured_run, folders)
    return [pair(first, other) for other in others]


def measured_run(folder: Path) -> MeasuredRun:
    """Read what a finished run, or an audit, measured of every row of its trace.

    Raises:
        RunError: If the folder holds no finished run.
        TraceError: If its trace is damaged.
        InputError: If its tables are not of this trace, or of another version.
    """
    trace = trace_of(folder)
    record = read_record(folder, trace)
    rows = pl.concat([_named(part) for part in Trace.columns(trace, _READ)])
    settings = record.about.spec["experiments"]
    named = rows.select(key for key in ROW_KEYS if key in rows.columns)
    measures, found = {}, [rows]
    # The table of an experiment that is not installed is not read.
    for name in (name for name in EXPERIMENTS if name in record.tables):
        table = _measured(folder, name, settings, record.tables[name], named)
        kept = [measure for measure in table.columns if (name, measure) not in OF_THE_METHOD]
        measures |= {f"{name}.{measure}": (name, measure) for measure in kept}
        found.append(table.rename({measure: f"{name}.{measure}" for measure in table.columns}))
    summary = SummaryRows.of(record.summary)
    notice, verdict = no_skill_of_run(summary), decide_verdict(summary).code
    table = pl.concat(found, how="horizontal")
    return MeasuredRun(str(folder), table, measures, settings, notice, verdict)


def write_comparison(out: Path, compared: Sequence[PairedRuns]) -> Path:
    """Write both tables and the page of a comparison; an earlier one there is overwritten.

    Returns:
        The page.

    Raises:
        RunError: If ``out`` holds something else.
    """
    # Charts and templates take long to import.
    from attnaudit.report.sections.differences import write_comparison as write_page

    refuse_other("compare", out, (out / DIFFERENCES).exists(), "one of an earlier comparison")
    named = [one.instances.select(pl.lit(one.b).alias("run_b"), pl.all()) for one in compared]
    tables = {
        DIFFERENCES: pl.concat([one.differences for one in compared]),
        INSTANCES: pl.concat(named, how="diagonal_relaxed"),
    }
    for name, table in tables.items():
        with atomic(out / name) as temporary:
            table.write_parquet(temporary)
    return write_page(out / "report.html", compared)


def trace_of(folder: Path) -> Path:
    """Return the trace that a finished run holds, or that an audit names. Raises RunError."""
    require_finished(folder)
    spec = read_spec(folder)
    if spec.get("kind") not in AUDITED:
        got, do = f"a folder of kind {spec.get('kind')}", "name runs/… or an audit's folder"
        raise RunError("compare", str(folder), got, "a run or an audit", do)
    return trace_shown(folder, spec)


def _named(part: Trace) -> pl.DataFrame:
    """Return keys, predicted class, text and weights of the rows of a piece."""
    weights = "alpha" if part.has("alpha") else part.heatmap_column
    text = [name for name in ("tokens", "question") if part.has(name)]
    shown = part.table.select(*text, pl.col(weights).alias("alpha"))
    if not part.has("question"):
        shown = shown.with_columns(pl.lit(None, pl.List(pl.String)).alias("question"))
    return pl.concat([keys(part), shown], how="horizontal")


def _measured(
    folder: Path, name: str, settings: Mapping[str, Any], table: pl.LazyFrame, named: pl.DataFrame
) -> pl.DataFrame:
    """Return the measures of every row of an experiment's table, which has the trace's rows."""
    found = table.select(named.columns).collect()
    place, do = str(folder / "results" / f"{name}.parquet"), "run the audit again"
    if not found.equals(named):
        got = f"{found.height} rows, and a trace of {named.height} rows that names other instances"
        raise InputError("compare", place, got, "the table of this trace", do)
    try:
        rows = measures_of_rows(make_experiment(name, settings.get(name)), table)
        return rows.cast(pl.Float64).collect()
    except pl.exceptions.PolarsError as error:
        expected = "the columns of this version of attnaudit"
        raise InputError("compare", place, str(error).partition("\n")[0], expected, do) from error
