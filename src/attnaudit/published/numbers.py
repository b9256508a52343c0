"""Numbers that a paper published once, and how ours compare with them.

They are quoted from this project's notes on the papers, table numbers included, and were not checked against the papers' pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import polars as pl

from attnaudit.published.compare import is_telling, possible

ONCE = ("serrano2019", "wiegreffe2019", "pruthi2020", "snell2021")
Agreement = Literal["inside", "near", "farther", "unknown"]
AGREEMENTS: dict[Agreement, tuple[str, str]] = {
    "inside": ("●", "the published value lies in our 95 % interval"),
    "near": ("◐", "outside our interval, off by at most a twentieth of the measure's range"),
    "farther": ("○", "farther off"),
    "unknown": ("–", "not measured"),
}
NEAR = 0.05  # of the range of the measure
RULE = (
    f"{'; '.join(f'{mark} {words}' for mark, words in AGREEMENTS.values())}. An interval wider than half of the measure's range "
    "agrees with nothing. In brackets the published value: ° quoted from our notes, not checked against the paper; ≈ read off a plot or "
    "slide. A reason names what differs; it was not tested by an experiment unless it says so."
)


@dataclass(frozen=True)
class Number:
    """A published ``value``, ``where`` in the paper it stands, and whether it is ``read_off`` a plot."""

    value: float
    where: str
    read_off: bool


@cache
def numbers(paper: str) -> pl.DataFrame:
    """{corpus, study, model, measure, value, where, read_off} of every number of a paper of `ONCE`, of others none."""
    schema = {
        **dict.fromkeys(("corpus", "study", "model", "measure"), pl.String),
        "value": pl.Float64,
        "where": pl.String,
        "read_off": pl.Boolean,
    }
    if paper not in ONCE:
        return pl.DataFrame(schema=schema)
    read = pl.read_csv(
        files("attnaudit.published").joinpath(f"data/{paper}.csv").read_bytes(), schema=schema
    )
    return read.with_columns(pl.col("study", "model").fill_null(""))


def sources(paper: str) -> dict[str, int]:
    """The tables and plots of a paper that its numbers come from, and how many come from each."""
    names = [where.partition(" (")[0].partition(":")[0] for where in numbers(paper)["where"]]
    return dict(sorted(Counter(names).items()))


def numbers_of(paper: str, corpus: str, study: str, model: str) -> dict[str, Number]:
    """The published numbers of a cell by measure; ``model`` as of `papers.Cell`."""
    found = (
        numbers(paper)
        .filter(corpus=corpus, study=study, model=model)
        .select("measure", "value", "where", "read_off")
    )
    return {measure: Number(*rest) for measure, *rest in found.iter_rows()}


def judged(ours: Mapping[str, Any] | None, published: Number) -> Agreement:
    """How a summary row stands to a published number, by `RULE`."""
    if ours is None or ours["value"] is None:
        return "unknown"
    low, high, bounds = ours["low"], ours["high"], possible(ours["measure"])
    if is_telling(low, high, bounds) and low <= published.value <= high:
        return "inside"
    gap, most = abs(ours["value"] - published.value), NEAR * (bounds[1] - bounds[0])
    return "near" if gap <= most * (1 + 1e-9) else "farther"


def with_study_references(summary: pl.DataFrame, study: str, corpus: str) -> pl.DataFrame:
    """The summary of a study with ``reference`` and ``source`` where its paper has the number for this corpus.

    Not checked against the papers' pages; models and word vectors there were others.
    """
    every = pl.concat([numbers(paper).with_columns(paper=pl.lit(paper)) for paper in ONCE])
    theirs = every.filter(study=study, corpus=corpus, model="").select(
        "measure", "paper", theirs="value"
    )
    overall = pl.col("group") == "all"
    return summary.join(theirs, on="measure", how="left", maintain_order="left").with_columns(
        pl.when(overall).then("theirs").alias("reference"), pl.when(overall).then("paper").alias("source")
    ).select(summary.columns)  # fmt: skip
