"""What the papers report of the same studies. Not checked against the papers' pages; models and word vectors there were others."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import polars as pl


@cache
def published() -> pl.DataFrame:
    """{study, corpus, measure, value, source} of every number."""
    return pl.read_csv(files("attnaudit.published").joinpath("data/studies_published.csv").read_bytes())


def with_published(summary: pl.DataFrame, study: str, corpus: str) -> pl.DataFrame:
    """A study's summary with ``reference`` and ``source`` where the paper has the number for this corpus."""
    theirs = published().filter(study=study, corpus=corpus).select("measure", theirs="value", paper="source")
    overall = pl.col("group") == "all"
    return summary.join(theirs, on="measure", how="left", maintain_order="left").with_columns(
        pl.when(overall).then("theirs").alias("reference"), pl.when(overall).then("paper").alias("source")
    ).select(summary.columns)  # fmt: skip
