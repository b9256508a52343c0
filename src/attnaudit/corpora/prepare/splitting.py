"""Seeded, stratified splits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int, Int64

from attnaudit.corpora.keyed import keyed


def stratified_split(
    label: Int[np.ndarray, " n"], shares: Mapping[str, float], seed: int, rest: str = "train"
) -> dict[str, Int64[np.ndarray, " m"]]:
    """Row numbers of each split, in rising order: every class gives its share (within one row), what is left goes to ``rest``.

    A class with more rows than there are shares gives each split at least one; a smaller one goes to ``rest`` whole.
    """
    parts: dict[str, list[np.ndarray]] = {name: [] for name in (rest, *shares)}
    for number in np.unique(label):
        rows = keyed(seed, "split", str(number)).permutation(np.flatnonzero(label == number))
        enough, start = len(rows) > len(shares), 0
        for name, share in shares.items():
            count = max(1, round(share * len(rows))) if enough else 0
            parts[name].append(rows[start : start + count])
            start += count
        parts[rest].append(rows[start:])
    return {name: np.sort(np.concatenate(chosen)).astype(np.int64) for name, chosen in parts.items()}
