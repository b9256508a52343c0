"""Verdicts on models of known truth: how often each answer is right, wrong or none.

A table of verdicts has one row per model: {cell, construction, truth, half, corpus, encoder, seed,
confirmed, code, score, first, second}; ``first`` and ``second`` are the codes on two
random halves of the texts.
"""

from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core import read_json
from attnaudit.corpora.corpus import keyed
from attnaudit.experiments.replacement import Replacement
from attnaudit.experiments.verdict import decide_verdict
from attnaudit.results import read_table

CODES = ("show", "mixed", "where", "none")
# The right answer for each truth. Of the others, "show" and "where" are wrong.
RIGHT = {"faithful": "show", "unfaithful": "where", "none": "none"}


def verdict_of(folder: Path) -> dict[str, Any]:
    """Return the verdict of an audit, and its codes on two random halves of the texts.

    Args:
        folder: Folder of the audit.
    """
    found = read_json(folder / "verdict.json")
    table = read_table(folder / "results" / "replacement.parquet").collect()
    texts = table["instance"].unique(maintain_order=True)  # each has a row for every head
    place = keyed(0, "halves of texts", "").permutation(len(texts))
    parts = (table.filter(pl.col("instance").is_in(texts[place[k::2]])) for k in range(2))
    halves = [decide_verdict(Replacement().summarise(part)).code for part in parts]
    return {"code": found["code"], "score": found["score"], "first": halves[0], "second": halves[1]}


def confusion(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Count the answers for models whose truth was confirmed.

    Args:
        verdicts: A table of verdicts.

    Returns:
        A row per half and truth: ``models``, a column per code, ``right``, ``wrong``, and
        ``agree``: of the models whose two halves of texts are decided, the share that agree.
    """
    decided = pl.col("first").ne("none") & pl.col("second").ne("none")
    known = verdicts.filter(pl.col("confirmed"), pl.col("truth").is_in(list(RIGHT)))
    right = pl.col("truth").replace_strict(RIGHT, default=None)
    return (
        known.group_by("half", "truth")
        .agg(
            pl.len().alias("models"),
            *(pl.col("code").eq(code).sum().alias(code) for code in CODES),
            right=pl.col("code").eq(right).mean(),
            wrong=pl.col("code").is_in(["show", "where"]).and_(pl.col("code").ne(right)).mean(),
            agree=pl.col("first").eq(pl.col("second")).filter(decided).mean(),
        )
        .sort("half", "truth")
    )
