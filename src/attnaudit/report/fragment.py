"""The playground by itself: a fragment of HTML for a notebook or a page of one's own."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from html import escape

import numpy as np
import polars as pl
from jaxtyping import Int64

from attnaudit.core.errors import InputError
from attnaudit.core.numbers import thousands
from attnaudit.core.printable import printable
from attnaudit.experiments import make_experiment, settings_for_task
from attnaudit.experiments import refusal as why_not
from attnaudit.report.page import page_text
from attnaudit.report.sections.playground import playground_section, refusal
from attnaudit.results import Results
from attnaudit.trace import Trace

ASKED = ("adversary", "erasure", "ranges")  # whose answers the buttons are
MOST_ROWS = 12  # heads of one text
HEIGHT = 900  # pixels


def playground(
    trace: Trace, instance: int, results: Results | None = None, *, height: int = HEIGHT
) -> str:
    """An ``<iframe>`` with the playground of an instance: it has its own style, no network, and works in a notebook.

    Of an instance with several rows (heads) the reader chooses one, of the first `MOST_ROWS`. Without ``results`` of this trace the
    adversary, the ranges and the smallest flipping set are computed here, for these rows alone. Raises InputError for an unknown
    ``instance``, and for results of another trace; TypeError where either is something else.
    """
    picks = rows_of("playground", trace, instance, results)[:MOST_ROWS]
    rows = trace.take(picks)
    facts = (
        pl.DataFrame()
        if refusal(rows)
        else facts_of(rows)
        if results is None
        else _chosen(results, trace, picks)
    )
    section = playground_section(rows, facts, _epsilon(trace))
    page = page_text([section], "", title=f"Playground of instance {instance}", bare=True)
    return (
        f'<iframe title="Playground of instance {instance}" style="width:100%;height:{int(height)}px;border:0" '
        f'sandbox="allow-scripts allow-downloads" srcdoc="{escape(page)}"></iframe>'
    )


def rows_of(
    operation: str, trace: Trace, instance: object, results: object
) -> Int64[np.ndarray, " r"]:
    """The numbers of the rows of an instance. Raises InputError for an unknown one; TypeError for what is no id, or no results."""
    if isinstance(instance, bool) or not isinstance(instance, int | np.integer):
        raise TypeError(
            _expected(operation, "instance", instance, f"the id of one {_among(trace)}")
        )
    if not isinstance(results, Results | None):
        raise TypeError(
            _expected(
                operation,
                "results",
                results,
                "the Results that audit(trace) returns; a call shows one instance",
            )
        )
    found = np.flatnonzero(trace.instance == instance)
    if not len(found):
        raise InputError(
            operation,
            f"instance {instance}",
            "no row of the trace",
            f"the id of one {_among(trace)}",
        )
    return found


def _expected(operation: str, where: str, got: object, expected: str) -> str:
    return printable(
        f"{operation}: {where}: {type(got).__name__} {reprlib.repr(got)}; expected {expected}"
    )


def _among(trace: Trace) -> str:
    ids = np.unique(trace.instance)
    return f"of {thousands(len(ids))} instances, a whole number" + (
        f" from {ids[0]} to {ids[-1]}" if len(ids) else ""
    )


def facts_of(rows: Trace, epsilon: float | None = None) -> pl.DataFrame:
    """The tables of the experiments that the playground asks, side by side, computed for ``rows``."""
    chosen = {"epsilon": epsilon} if epsilon is not None else {}
    settings: Mapping[str, Mapping[str, float]] = {
        "adversary": chosen,
        "ranges": {**chosen, "share": 1.0},
    }
    return _joined(
        {name: found for name in ASKED if (found := _table(rows, name, settings)) is not None}
    )


def _table(
    rows: Trace, name: str, settings: Mapping[str, Mapping[str, float]]
) -> pl.DataFrame | None:
    experiment = make_experiment(
        name, {**settings_for_task(rows.task).get(name, {}), **settings.get(name, {})}
    )
    return None if why_not(experiment, rows) else experiment(rows)


def _chosen(results: Results, trace: Trace, picks: np.ndarray) -> pl.DataFrame:
    """The rows ``picks`` of the tables. Raises InputError where they are of another trace."""
    tables = {name: results[name].table for name in ASKED if name in results}
    for name, table in tables.items():
        if table.height != len(trace) or not np.array_equal(
            table["instance"].to_numpy(), trace.instance
        ):
            got = (
                f"{name} has {table.height} rows, or other instances than the trace of {len(trace)}"
            )
            raise InputError(
                "playground",
                "results",
                got,
                "results of this trace",
                "audit the trace, or leave the results out",
            )
    return _joined(tables)[picks]


def _joined(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    columns = {
        name: column
        for table in tables.values()
        for name, column in zip(table.columns, table.get_columns(), strict=True)
    }
    return pl.DataFrame(list(columns.values()))


def _epsilon(trace: Trace) -> float:
    return settings_for_task(trace.task).get("adversary", {}).get("epsilon", 0.01)
