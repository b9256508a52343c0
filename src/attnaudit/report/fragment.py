"""The playground by itself: a fragment of HTML for a notebook or a page of one's own."""

from html import escape

import numpy as np
import polars as pl

from attnaudit.core import InputError, thousands
from attnaudit.core.given import is_whole
from attnaudit.experiments import make_experiment, settings_for_task
from attnaudit.experiments import refusal as why_not
from attnaudit.report.page import page_text
from attnaudit.report.sections.playground import epsilon_of, playground_section, refusal
from attnaudit.results import About, Results, RunRecord
from attnaudit.trace import Trace

ASKED = ("adversary", "erasure")  # whose answers the buttons are
MOST_ROWS = 12  # heads of one text
MOST_LISTED = 12  # valid ids in an error
HEIGHT = 900  # pixels


def playground(
    trace: Trace,
    instance: int | None = None,
    results: Results | None = None,
    *,
    height: int = HEIGHT,
) -> str:
    """Return an ``<iframe>`` with the playground of an instance.

    It has its own style, no network, and works in a notebook. Of an instance with several rows
    (heads) the reader chooses one, of the first `MOST_ROWS`.

    Args:
        trace: The trace.
        instance: Id of the instance; by default the first.
        results: Results of this trace; without them the adversary and the smallest flipping set
            are computed here, for these rows only.
        height: Height in pixels.

    Raises:
        InputError: The instance is unknown, or the results are of another trace.
    """
    rows, facts = rows_of("playground", trace, instance, results)
    if results is None and not refusal(rows):
        facts = facts_of(rows)
    epsilon = epsilon_of(About(), trace.task)
    title = f"Playground of text {rows.instance[0]}"
    page = page_text([playground_section(rows, facts, epsilon)], "", title=title, bare=True)
    return (
        f'<iframe title="{title}" style="width:100%;height:{int(height)}px;border:0" '
        f'sandbox="allow-scripts allow-downloads" srcdoc="{escape(page)}"></iframe>'
    )


def rows_of(
    operation: str, trace: Trace, instance: object, results: Results | None
) -> tuple[Trace, pl.DataFrame]:
    """Return the first `MOST_ROWS` rows of an instance, and what the experiments found of them.

    Args:
        operation: What is done, for errors.
        trace: The trace.
        instance: Id of the instance; None for the first.
        results: Results of this trace, or None.

    Raises:
        InputError: The instance is unknown, or the results are of another trace.
    """
    if instance is None and len(trace):
        instance = int(trace.instance[0])
    of_id = trace.instance == instance if is_whole(instance) else []
    picks = np.flatnonzero(of_id)[:MOST_ROWS]
    if not len(picks):
        ids = np.unique(trace.instance)
        known = ", ".join(map(str, ids[:MOST_LISTED])) + ("" if len(ids) <= MOST_LISTED else ", …")
        expected = f"the id of one of {thousands(len(ids))} texts: {known}"
        raise InputError(operation, f"text {instance!r}", "no row of the trace", expected)
    if results is None:
        return trace.take(picks), pl.DataFrame()
    record = record_of(results)
    for table in record.tables.values():
        if not np.array_equal(table.select("instance").collect().to_series(), trace.instance):
            raise InputError(
                operation,
                "results",
                "other texts than those of the trace",
                "results of this trace",
                "audit the trace",
            )
    return trace.take(picks), record.rows(picks)


def record_of(results: Results) -> RunRecord:
    """Return results in memory in the form in which reports read those of a run."""
    tables = {name: result.rows for name, result in results.items()}
    return RunRecord("", results.summary, About.of(None, results.metadata), tables)


def facts_of(rows: Trace, epsilon: float | None = None) -> pl.DataFrame:
    """Compute the tables of the experiments that the playground asks, side by side.

    Args:
        rows: The rows.
        epsilon: Change of the output that an adversary is allowed.
    """
    chosen = {} if epsilon is None else {"adversary": {"epsilon": epsilon}}
    columns: dict[str, pl.Series] = {}
    for name in ASKED:
        usual = settings_for_task(rows.task).get(name, {})
        experiment = make_experiment(name, {**usual, **chosen.get(name, {})})
        if not why_not(experiment, rows):
            columns |= experiment(rows).to_dict()
    return pl.DataFrame(columns)
