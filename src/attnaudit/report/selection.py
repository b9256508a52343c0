"""Which instances a report shows."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np
import polars as pl
from jaxtyping import Int64

from attnaudit.trace import Trace

CONFIDENT = 0.9
SHORTEST = 5
STRIKING, RANDOM, LISTED = 6, 6, 500
STRIKING_RULE = (
    f"Of the instances that the model predicts with a probability of {CONFIDENT:g} or more and that have at least {SHORTEST} tokens, "
    "those with the highest ε-max JSD: a confident output that leaves its attention weights most free."
)


@dataclass(frozen=True)
class Selection:
    """Row numbers of a trace: the striking ones (most striking first), random ones, and all that the list shows."""

    striking: Int64[np.ndarray, " s"]
    random: Int64[np.ndarray, " r"]
    listed: Int64[np.ndarray, " m"]


def select(rows: pl.DataFrame, trace: Trace, seed: int) -> Selection:
    """Choose by `STRIKING_RULE` and by a draw that depends on ``seed`` and the number of rows alone."""
    n = len(trace)
    draw = np.random.default_rng([seed, crc32(b"report")]).permutation(n)
    random = np.sort(draw[:RANDOM])
    striking = _striking(rows, trace)
    first = np.concatenate([striking, draw])
    kept = first[np.sort(np.unique(first, return_index=True)[1])][:LISTED]
    return Selection(striking, random, np.sort(kept))


def _striking(rows: pl.DataFrame, trace: Trace) -> np.ndarray:
    if "emax_jsd" not in rows.columns:
        return np.zeros(0, np.int64)
    divergence = rows["emax_jsd"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    prediction = trace.prediction
    confidence = np.maximum(prediction.max(axis=1), 1.0 - prediction[:, 0] if prediction.shape[1] == 1 else 0.0)
    lengths = trace.ragged("alpha").lengths
    fit = np.flatnonzero((confidence >= CONFIDENT) & (lengths >= SHORTEST) & ~np.isnan(divergence))
    return fit[np.argsort(-divergence[fit], kind="stable")][:STRIKING]
