"""Runs that differ in their seed alone, taken together and held against the published numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import stdtrit

from attnaudit.report.compare import SEARCHED, compare, judge
from attnaudit.report.record import RunRecord

CELL = ("corpus", "encoder", "attention")
NUMBER = (*CELL, "measure", "statistic", "group", "max_alpha")
SEEDS_SCHEMA = {
    **dict.fromkeys(NUMBER, pl.String), "paper": pl.Float64, "rerun": pl.Float64, "ours": pl.Float64, "sd": pl.Float64,
    "low": pl.Float64, "high": pl.Float64, "seeds": pl.Int64, "n": pl.Float64, "spread": pl.Float64, "within": pl.Boolean,
    "corpus_spread": pl.Float64, "agreement": pl.String, "note": pl.String,
}  # fmt: skip


def over_seeds(runs: Iterable[RunRecord | str | Path], to: str = "jain2019") -> pl.DataFrame:
    """A row for every published number of every corpus, encoder and attention among the runs.

    ``ours`` is the mean over seeds, ``sd`` their standard deviation, ``low`` and ``high`` the 95 % t interval of the mean; of a single
    seed ``low`` and ``high`` are its own interval over instances and ``sd`` is null. ``n`` is the mean number of instances. The other
    columns are those of `compare`, with agreement judged on the mean. Raises InputError as `compare` does.
    """
    compared = compare(runs, to)
    groups = compared.group_by(*NUMBER, maintain_order=True)
    return pl.DataFrame([_together(dict(zip(NUMBER, key, strict=True)), rows) for key, rows in groups], schema=SEEDS_SCHEMA)


def _together(key: dict[str, Any], rows: pl.DataFrame) -> dict[str, Any]:
    first = rows.row(0, named=True)
    known = rows.filter(pl.col("ours").is_not_null())
    values = known["ours"].to_numpy()
    ours = {"ours": float(values.mean()) if len(values) else None, "n": known["n"].mean()} | interval_over_seeds(values, known)
    published = {revision: first[revision] for revision in ("paper", "rerun") if first[revision] is not None}
    judged = judge(published, ours, first["corpus_spread"], searched=SEARCHED in first["note"])
    return {**key, **ours, "seeds": len(values), **judged, "note": first["note"]}


def interval_over_seeds(values: np.ndarray, known: pl.DataFrame) -> dict[str, Any]:
    """``sd``, ``low`` and ``high`` of one value per seed: the t interval of the mean, or of a single seed its own interval in ``known``."""
    if len(values) < 2:
        own = known.row(0, named=True) if len(values) else {"low": None, "high": None}
        return {"sd": None, "low": own["low"], "high": own["high"]}
    sd = float(values.std(ddof=1))
    half = float(stdtrit(len(values) - 1, 0.975)) * sd / math.sqrt(len(values))
    return {"sd": sd, "low": float(values.mean()) - half, "high": float(values.mean()) + half}
