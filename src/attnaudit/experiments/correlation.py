"""Does attention rank the tokens as measures of their importance do? (Jain & Wallace 2019, §4.1)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from attnaudit.core.errors import InputError
from attnaudit.core.papers import JAIN2019, Paper
from attnaudit.experiments.rows import by_group, keys
from attnaudit.results import summarise_means
from attnaudit.stats.kendall import kendall_tau
from attnaudit.stats.multiplicity import benjamini_hochberg
from attnaudit.trace import Trace

YARDSTICK = "gradient_loo"


@dataclass(frozen=True)
class Correlation:
    """Kendall's tau-b of attention with gradient, with leave-one-out and with every ``importance_<name>`` of the trace.

    ``tau_gradient_loo``, between the two importance measures themselves, is the yardstick for the others. The table has ``tau_<name>``
    and ``p_<name>``, null where an argument is constant or T < 2. A row counts as significant when p ≤ ``significance``.
    """

    name: ClassVar[str] = "correlation"
    needs: ClassVar[tuple[str, ...]] = ("gradient", "loo")
    paper: ClassVar[Paper] = JAIN2019
    seed: int = 0
    significance: float = 0.05

    def __post_init__(self) -> None:
        if not 0 <= self.significance <= 1:
            raise InputError("audit", "setting correlation.significance", str(self.significance), "a probability from 0 to 1")

    def refuses(self, trace: Trace) -> str | None:
        taken = [f"importance_{name}" for name in ("gradient", "loo", YARDSTICK) if trace.has(f"importance_{name}")]
        return f"the name of column {', '.join(taken)} is taken by the correlations of every trace" if taken else None

    def __call__(self, trace: Trace) -> pl.DataFrame:
        further = [name for name in trace.table.column_names if name.startswith("importance_")]
        scores = {"alpha": trace.alpha, **{name: trace.ragged(name) for name in ("gradient", "loo", *further)}}
        pairs = {name: ("alpha", name) for name in ("gradient", "loo")}
        pairs[YARDSTICK] = ("gradient", "loo")
        pairs |= {name.removeprefix("importance_"): ("alpha", name) for name in further}
        columns: dict[str, np.ndarray] = {}
        for name, (one, other) in pairs.items():
            columns[f"tau_{name}"], columns[f"p_{name}"] = kendall_tau(scores[one], scores[other])
        return keys(trace).with_columns(pl.Series(name, values, nan_to_null=True) for name, values in columns.items())

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        return summarise_means(self.name, by_group(table, self._measures), self.seed)

    def _measures(self, table: pl.LazyFrame) -> pl.LazyFrame:
        names = [column.removeprefix("tau_") for column in table.collect_schema().names() if column.startswith("tau_")]
        others = [name for name in names if name != YARDSTICK]
        measures = {f"tau_{name}": pl.col(f"tau_{name}") for name in names}
        measures |= {f"significant_{name}": pl.col(f"p_{name}") <= self.significance for name in names}
        measures |= {
            f"significant_{name}_bh": pl.col(f"p_{name}").map_batches(self._significant_together, return_dtype=pl.Boolean) for name in names
        }
        measures |= {f"tau_{YARDSTICK}_minus_tau_{name}": pl.col(f"tau_{YARDSTICK}") - pl.col(f"tau_{name}") for name in others}
        return table.select(**measures)

    def _significant_together(self, p_values: pl.Series) -> pl.Series:
        """Which rows stay significant when all rows of the group are tested at once."""
        adjusted = benjamini_hochberg(p_values.fill_null(float("nan")).to_numpy())
        return pl.Series(adjusted, nan_to_null=True) <= self.significance
