"""Which instances a report shows."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np
import polars as pl
from jaxtyping import Bool, Int64

CONFIDENT = 0.75  # quantile of the probability of the predicted class
SHORTEST = 5
STRIKING, RANDOM, LISTED = 6, 6, 500
SHOWN_BY = "emax_jsd"  # the column whose highest values are striking


@dataclass(frozen=True)
class Selection:
    """Row numbers of a trace: the striking ones (most striking first), random ones, and all that the list shows.

    ``rule`` says how the striking ones were found.
    """

    striking: Int64[np.ndarray, " s"]
    random: Int64[np.ndarray, " r"]
    listed: Int64[np.ndarray, " m"]
    rule: str


def select(rows: pl.DataFrame, seen: pl.DataFrame, seed: int) -> Selection:
    """Choose the striking by a rule, and the random by a draw that depends on ``seed`` and the number of rows alone.

    ``rows`` are the experiments' tables side by side, ``seen`` is the trace's overview, both with a row per trace row.
    """
    draw = np.random.default_rng([seed, crc32(b"report")]).permutation(seen.height)
    confidence = seen["confidence"].to_numpy()
    threshold = float(np.quantile(confidence, CONFIDENT))
    striking = _striking(rows, (confidence >= threshold) & (seen["positions"].to_numpy() >= SHORTEST))
    first = np.concatenate([striking, draw])
    kept = first[np.sort(np.unique(first, return_index=True)[1])][:LISTED]
    least = f"{threshold:.2f} or more" if threshold < 0.995 else "more than 0.99"
    rule = (
        f"Of the quarter of instances whose predicted class is the most probable (here {least}) and that have at least {SHORTEST} tokens, "
        "those with the highest ε-max JSD: the outputs that leave their attention weights most free. A very sure output leaves room by "
        "itself: look at the random ones as well."
    )
    return Selection(striking, np.sort(draw[:RANDOM]), np.sort(kept), rule)


def _striking(rows: pl.DataFrame, fit: Bool[np.ndarray, " n"]) -> Int64[np.ndarray, " s"]:
    if SHOWN_BY not in rows.columns:
        return np.zeros(0, np.int64)
    divergence = rows[SHOWN_BY].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    candidates = np.flatnonzero(fit & ~np.isnan(divergence))
    return candidates[np.argsort(-divergence[candidates], kind="stable")][:STRIKING]
