"""Published numbers beside our own in ``summary.json``, for the corpora and models that the paper has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core.errors import InputError
from attnaudit.core.files import read_json, write_json


def add_published(folder: Path, trace: Path) -> None:
    """Fill ``reference`` and ``source`` of every row that was published, with the authors' re-run where it has the number.

    The re-run was selected on dev, as ours is; the paper's tables of April 2019 were selected on test.
    """
    from attnaudit.published.compare import compare
    from attnaudit.results.record import read_record

    try:
        compared = compare([read_record(folder, trace)])
    except InputError:
        return  # no number was published for this corpus or model
    published = {(row["measure"], row["group"]): _reference(row) for row in compared.filter(_is_mean()).iter_rows(named=True)}
    rows = [row | published.get((row["measure"], row["group"]), {}) for row in read_json(folder / "summary.json")]
    write_json(folder / "summary.json", rows)


def _is_mean() -> pl.Expr:
    return pl.col("statistic").is_in(["mean", "share"]) & pl.col("max_alpha").is_null()


def _reference(row: dict[str, Any]) -> dict[str, Any]:
    revision = "rerun" if row["rerun"] is not None else "paper"
    return {"reference": row[revision], "source": f"jain2019 {revision}"}
