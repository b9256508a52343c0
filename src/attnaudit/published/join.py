"""Published numbers as the reference of our own, for the corpora and models that the papers have."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import polars as pl

from attnaudit.core.errors import InputError
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.about import About
from attnaudit.results.record import RunRecord


def with_references(summary: pl.DataFrame, about: About) -> pl.DataFrame:
    """The summary of a run with ``reference`` and ``source`` in every row that Jain & Wallace 2019 published.

    The number is that of the authors' re-run where there is one, which was selected on dev, as ours is; the paper's tables of April 2019
    were selected on test.
    """
    from attnaudit.published.compare import compare

    try:
        compared = compare([RunRecord("", summary, about)])
    except InputError:
        return summary  # no number was published for this corpus or model
    is_mean = pl.col("statistic").is_in(["mean", "share"]) & pl.col("max_alpha").is_null()
    published = {(row["measure"], row["group"]): _reference(row) for row in compared.filter(is_mean).iter_rows(named=True)}
    rows = [row | published.get((row["measure"], row["group"]), {}) for row in summary.iter_rows(named=True)]
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def _reference(row: dict[str, Any]) -> dict[str, Any]:
    revision = "rerun" if row["rerun"] is not None else "paper"
    return {"reference": row[revision], "source": f"jain2019 {revision}"}


def with_study_references(summary: pl.DataFrame, study: str, corpus: str) -> pl.DataFrame:
    """The summary of a study with ``reference`` and ``source`` where its paper has the number for this corpus.

    Not checked against the papers' pages; models and word vectors there were others.
    """
    theirs = published_studies().filter(study=study, corpus=corpus).select("measure", theirs="value", paper="source")
    overall = pl.col("group") == "all"
    return summary.join(theirs, on="measure", how="left", maintain_order="left").with_columns(
        pl.when(overall).then("theirs").alias("reference"), pl.when(overall).then("paper").alias("source")
    ).select(summary.columns)  # fmt: skip


@cache
def published_studies() -> pl.DataFrame:
    """{study, corpus, measure, value, source} of every number."""
    return pl.read_csv(files("attnaudit.published").joinpath("data/studies_published.csv").read_bytes())
