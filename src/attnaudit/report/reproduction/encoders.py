"""Does attention over the average of embeddings agree better with importance than attention over a BiLSTM, as in the paper?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from attnaudit.report.reproduction.numbers import ATTENTIONS, TAUS, corpora

PLAIN, CONTEXTUAL = "average", "bilstm"
_PAIRS = {"tau_gradient": "attention – gradient", "tau_loo": "attention – leave-one-out"}


@dataclass(frozen=True)
class Contrast:
    """Mean τ of the average encoder less that of the BiLSTM, each the mean over the groups that both have."""

    corpus: str
    attention: str
    measure: str
    paper: float
    rerun: float
    ours: float

    WORDS: ClassVar = {
        "cell": "as theirs", "corpus": "same sign, less than half of theirs", "farther": "the other way round",
        "unknown": "their two runs disagree",
    }  # fmt: skip

    @property
    def pair(self) -> str:
        return _PAIRS[self.measure]

    @property
    def degree(self) -> str:
        """``cell`` where ours has the sign of both of theirs and half of the smaller at least, ``corpus`` where it has less.

        ``farther`` where its sign is the other; ``unknown`` where theirs differ in sign.
        """
        if (self.paper > 0) != (self.rerun > 0):
            return "unknown"
        if (self.ours > 0) != (self.paper > 0):
            return "farther"
        return "cell" if abs(self.ours) >= min(abs(self.paper), abs(self.rerun)) / 2 else "corpus"

    @property
    def words(self) -> str:
        return self.WORDS[self.degree]


def contrasts(table: pl.DataFrame) -> list[Contrast]:
    """A contrast for each corpus, attention and τ of which both encoders were run and published twice."""
    means = table.filter(pl.col("spread").is_not_null(), pl.col("ours").is_not_null(), statistic="mean")
    found = [_contrast(means, corpus, attention, measure) for corpus in corpora(table) for attention in ATTENTIONS for measure in TAUS]
    return [one for one in found if one is not None]


def contrast_sentence(found: Sequence[Contrast]) -> str:
    """In how many cases the average encoder is higher, in theirs and in ours; empty where nothing can be compared."""
    above = [one for one in found if one.paper > 0 and one.rerun > 0]
    if not found:
        return ""
    ours, half = (sum(one.degree in degrees for one in above) for degrees in (("cell", "corpus"), ("cell",)))
    return (
        f"Of {len(found)} comparisons (corpus, attention, τ), the average encoder's mean τ lies above the BiLSTM's in both runs of the "
        f"authors in {len(above)}; in {ours} of these it does so in ours, in {half} by at least half of what it did in theirs."
    )


def _contrast(means: pl.DataFrame, corpus: str, attention: str, measure: str) -> Contrast | None:
    same = means.filter(corpus=corpus, attention=attention, measure=measure)
    both = same.filter(encoder=PLAIN).join(same.filter(encoder=CONTEXTUAL), on="group", suffix="_contextual")
    if not both.height:
        return None
    differences = {name: (both[name] - both[f"{name}_contextual"]).to_numpy().mean() for name in ("paper", "rerun", "ours")}
    return Contrast(corpus, attention, measure, **{name: float(value) for name, value in differences.items()})
