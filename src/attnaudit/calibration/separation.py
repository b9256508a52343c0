"""The shipped AUC of each measure: how well it tells faithful from unfaithful constructions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import polars as pl

SCORES = "calibration/data/scores.csv"


class Separation(NamedTuple):
    """AUC of a measure on models whose truth is known.

    Attributes:
        auc: Share of pairs in which the measure ranks the faithful model higher; None if the
            measure is undefined on them.
        low: Lower end of its interval over constructions.
        high: Upper end of the interval.
        faithful: Number of faithful constructions.
        unfaithful: Number of unfaithful constructions.
    """

    auc: float | None
    low: float | None
    high: float | None
    faithful: int
    unfaithful: int


@cache
def separations() -> Mapping[tuple[str, str], Separation]:
    """Return the AUC by experiment and measure; empty if no calibration is shipped."""
    path = files("attnaudit").joinpath(SCORES)
    if not path.is_file():
        return {}
    scores = pl.read_csv(path.read_bytes())
    return {
        (row["experiment"], row["measure"]): Separation(*(row[name] for name in Separation._fields))
        for row in scores.iter_rows(named=True)
    }
