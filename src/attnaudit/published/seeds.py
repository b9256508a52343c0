"""Runs that differ only in their seed, combined and compared with the published numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import stdtrit

from attnaudit.published.compare import SEARCHED, compare, judge, possible
from attnaudit.results.record import RunRecord

FEWEST_SEEDS = 3  # of an interval over seeds that may agree with a published value
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
    columns are those of `compare`, with agreement judged on the mean. An interval never goes beyond what the number can be; one over two
    seeds says too little to agree with anything. The runs of a cell are to differ in their seed alone. Raises InputError as `compare`
    does.
    """
    compared = compare(runs, to)
    groups = compared.group_by(*NUMBER, maintain_order=True)
    return pl.DataFrame([_together(dict(zip(NUMBER, key, strict=True)), rows) for key, rows in groups], schema=SEEDS_SCHEMA)


def _together(key: dict[str, Any], rows: pl.DataFrame) -> dict[str, Any]:
    first = rows.row(0, named=True)
    known = rows.filter(pl.col("ours").is_not_null())
    values = known["ours"].to_numpy()
    bounds = possible(key["measure"], key["statistic"])
    ours = {"ours": float(values.mean()) if len(values) else None, "n": known["n"].mean()} | interval_over_seeds(values, known, bounds)
    published = {revision: first[revision] for revision in ("paper", "rerun") if first[revision] is not None}
    telling = ours | ({"low": None, "high": None} if 1 < len(values) < FEWEST_SEEDS else {})
    judged = judge(published, telling, first["corpus_spread"], SEARCHED in first["note"], bounds)
    return {**key, **ours, "seeds": len(values), **judged, "note": first["note"]}


def interval_over_seeds(values: np.ndarray, known: pl.DataFrame, bounds: tuple[float, float]) -> dict[str, Any]:
    """``sd``, ``low`` and ``high`` of one value per seed: the t interval of the mean, or of a single seed its own interval in ``known``.

    The t interval knows nothing of what a measure can be: it is cut to ``bounds``.
    """
    if len(values) < 2:
        own = known.row(0, named=True) if len(values) else {"low": None, "high": None}
        return {"sd": None, "low": own["low"], "high": own["high"]}
    sd = float(values.std(ddof=1))
    half = float(stdtrit(len(values) - 1, 0.975)) * sd / math.sqrt(len(values))
    mean = float(values.mean())
    return {"sd": sd, "low": max(mean - half, bounds[0]), "high": min(mean + half, bounds[1])}
