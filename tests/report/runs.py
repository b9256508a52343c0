"""Run folders for the report's tests: a random trace, its audit, and a specification."""

from typing import Any

import polars as pl

from attnaudit.core import write_json
from attnaudit.experiments import audit
from attnaudit.results import SUMMARY_SCHEMA


def write_run(folder, trace, corpus="sst", experiments=None, with_trace=True):
    """What a run leaves behind, as far as a report reads it."""
    audit(trace, experiments).save(folder)
    if with_trace:
        trace.write(folder / "trace")
    write_json(folder / "spec.json", {
        "schema": 1, "kind": "run", "corpus": {"name": corpus, "source": corpus, "notes": ["2 rows skipped: empty text"]},
        "model": {"encoder": "bilstm", "attention": "additive"}, "seed": 0,
        "experiments": {"adversary": {"epsilon": 0.01}}, "versions": {"attnaudit": "0.1.0"},
    })  # fmt: skip
    return folder


def named(experiment, figures):
    """Figures by the keys of `summary_of`."""
    return {f"{experiment}__{name}": figure for name, figure in figures.items()}


def summary_of(**figures):
    """Summary rows of group ``all``; a key is ``experiment__measure``.

    A value is the row's figures, or (value, low, high), or a value that is both ends too.
    """
    rows = []
    for name, given in figures.items():
        row: dict[str, Any] = given if isinstance(given, dict) else {"value": given}
        if isinstance(given, tuple):
            row = dict(zip(("value", "low", "high"), given, strict=True))
        experiment, measure = name.split("__")
        plain = {"experiment": experiment, "measure": measure, "group": "all", "n": 100}
        ends = dict.fromkeys(("low", "high"), row.get("value"))
        rows.append({**plain, "undefined": 0, **ends, **row})
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)
