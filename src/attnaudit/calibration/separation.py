"""How well every measure tells faithful from unfaithful constructions: the scores of the calibration that is shipped with the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import polars as pl

from attnaudit.results.words import figure

SCORES = "calibration/data/scores.csv"
NOTE = (
    "AUC: the share of pairs in which a measure ranks a model whose attention is faithful by construction above one whose attention is "
    "not, 0.5 by chance. It was measured on classifiers of two classes with one attention, of as many faithful × unfaithful constructions "
    "as have the measure; brackets: 95 % interval over constructions."
)
UNKNOWN_HERE = "This model is of another kind, or not known to be of this one: how well the measures separate there is unknown."


@dataclass(frozen=True)
class Separation:
    """``auc`` with its interval over constructions, ``faithful`` and ``unfaithful`` ones; None where a measure is undefined on them."""

    auc: float | None
    low: float | None
    high: float | None
    faithful: int
    unfaithful: int

    def __str__(self) -> str:
        """``tells faithful from unfaithful models with AUC 0.90 [0.74, 0.99] (9 × 11)``; empty where there is none."""
        if self.auc is None or self.low is None or self.high is None:
            return ""
        auc = f"AUC {figure(self.auc)} [{figure(self.low)}, {figure(self.high)}]"
        return f"tells faithful from unfaithful models with {auc} ({self.faithful} × {self.unfaithful})"


@cache
def separations() -> Mapping[tuple[str, str], Separation]:
    """By experiment and measure; empty where no calibration is shipped. The truth is `attnaudit calibrate`'s."""
    path = files("attnaudit").joinpath(SCORES)
    if not path.is_file():
        return {}
    scores = pl.read_csv(path.read_bytes())
    return {
        (row["experiment"], row["measure"]): Separation(
            *(row[name] for name in ("auc", "low", "high", "faithful", "unfaithful"))
        )
        for row in scores.iter_rows(named=True)
    }
