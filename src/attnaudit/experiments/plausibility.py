"""Do the scores point at the tokens that are known to matter? (ERASER: DeYoung et al. 2020; planted corpora: the truth itself)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core.papers import DEYOUNG2020, Paper
from attnaudit.experiments.rationale_agreement import agreement_by_chance, rationale_agreement
from attnaudit.experiments.rows import by_group, keys
from attnaudit.results import summarise_means
from attnaudit.trace import Trace


@dataclass(frozen=True)
class Plausibility:
    """Agreement of attention, gradient, leave-one-out and every ``importance_<name>`` with the rationale.

    ``precision_<score>`` is the share of rationale tokens among as many top-ranked tokens as the rationale has, ties in expectation;
    ``auprc_<score>`` the average precision of the whole ranking; ``precision_chance`` and
    ``auprc_chance`` are what a random order reaches on average. All are null where the rationale is null, empty or the whole text.
    """

    name: ClassVar[str] = "plausibility"
    needs: ClassVar[tuple[str, ...]] = ("rationale",)
    paper: ClassVar[Paper] = DEYOUNG2020
    seed: int = 0

    def refuses(self, trace: Trace) -> str | None:
        taken = [f"importance_{name}" for name in ("attention", "gradient", "loo", "chance") if trace.has(f"importance_{name}")]
        return f"the name of column {', '.join(taken)} is taken by a score of every trace" if taken else None

    def __call__(self, trace: Trace) -> pl.DataFrame:
        further = [name for name in trace.table.column_names if name.startswith("importance_")]
        scores = {"attention": trace.alpha}
        scores |= {name.removeprefix("importance_"): trace.ragged(name) for name in ("gradient", "loo", *further) if trace.has(name)}
        rationale = trace.ragged("rationale")
        columns: dict[str, np.ndarray] = {}
        for name, score in scores.items():
            columns[f"precision_{name}"], columns[f"auprc_{name}"] = rationale_agreement(score, rationale)
        columns["precision_chance"], columns["auprc_chance"] = agreement_by_chance(rationale, trace.alpha.lengths)
        return keys(trace).with_columns(pl.Series(name, values, nan_to_null=True) for name, values in columns.items())

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        return summarise_means(self.name, by_group(table, lambda rows: rows.select(cs.starts_with("precision_", "auprc_"))), self.seed)
