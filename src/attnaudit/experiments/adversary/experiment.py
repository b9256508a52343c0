"""How different can attention be while the output stays the same? (Jain & Wallace 2019, §4.2.2, Algorithm 3)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.papers import JAIN2019, Paper
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.adversary.branch import bounded_attention
from attnaudit.experiments.adversary.exact import furthest_attention, one_logit_decides, slab_within, unconstrained_bound
from attnaudit.experiments.adversary.relaxed import Search, search_attentions
from attnaudit.experiments.rows import by_group, keys, list_column, no_single_decision, row_streams, vector_column
from attnaudit.results import summarise_means
from attnaudit.stats.measures import jsd_terms, tvd
from attnaudit.trace import Trace

METHODS = ("exact", "relaxed")
CERTIFIED_GAP = 1e-3
ROUNDING = 1e-9


@dataclass(frozen=True)
class Adversary:
    """The largest JSD to the model's attention among attentions whose output is within TVD ``epsilon`` (ε-max JSD).

    ``method`` "exact" finds it for two classes by the vertices of the attentions allowed, and for more, or behind a tanh tail, draws an
    attention and a bound together by branch and bound; "relaxed" is the paper's gradient search for ``k`` diverse attentions in ``steps``
    steps of Adam. Of what that search ends with, attentions within ``accept`` count (None: within ``epsilon``, as the paper says; the
    released code used 0.05 for every epsilon).

    The table has ``emax_jsd`` (best found, at least 0), ``emax_jsd_upper`` (no attention allowed exceeds it), ``certified`` (the two
    meet to 1e-3), ``delta_y`` (TVD of the best), its ``alpha`` and its ``prediction``.
    """

    name: ClassVar[str] = "adversary"
    needs: ClassVar[tuple[str, ...]] = ()
    paper: ClassVar[Paper] = JAIN2019
    seed: int = 0
    method: str = "exact"
    epsilon: float = 0.01
    k: int = 5
    steps: int = 500
    learning_rate: float = 0.01
    penalty: float = 500.0
    accept: float | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            expected, hint = f"one of {', '.join(METHODS)}", did_you_mean(self.method, METHODS)
            raise InputError("audit", "setting adversary.method", repr(self.method), expected, hint)
        if not 0 <= self.epsilon <= 1:
            raise InputError("audit", "setting adversary.epsilon", str(self.epsilon), "a distance from 0 to 1")
        if self.accept is not None and not 0 <= self.accept <= 1:
            raise InputError("audit", "setting adversary.accept", str(self.accept), "a distance from 0 to 1, or none for epsilon")
        if not self.learning_rate > 0 or not self.penalty >= 0:
            got = f"{self.learning_rate:g} and {self.penalty:g}"
            raise InputError(
                "audit", "settings adversary.learning_rate and adversary.penalty", got, "a rate above 0, a penalty of 0 or more"
            )
        if self.k < 1 or self.steps < 0:
            raise InputError("audit", "settings adversary.k and adversary.steps", f"{self.k} and {self.steps}", "k ≥ 1 and steps ≥ 0")

    def refuses(self, trace: Trace) -> str | None:
        return no_single_decision(trace)

    def __call__(self, trace: Trace) -> pl.DataFrame:
        readout, alpha = trace.readout, trace.alpha
        baseline = readout(alpha)
        if self.method == "exact":
            found, upper = self.bounded(trace, self.epsilon)
        else:
            found, (_, upper) = self._search(trace, baseline), self.bounded(trace, self._limit)
        prediction = readout(found)
        reached = divergence(found, alpha)
        upper = np.maximum(upper, reached)
        return keys(trace).with_columns(
            pl.Series("emax_jsd", reached),
            pl.Series("emax_jsd_upper", upper),
            pl.Series("certified", upper - reached <= CERTIFIED_GAP),
            pl.Series("delta_y", tvd(prediction, baseline)),
            list_column("alpha", found),
            vector_column("prediction", prediction),
        )

    @property
    def _limit(self) -> float:
        """The TVD within which the search's attentions count."""
        return self.epsilon if self.accept is None else self.accept

    @property
    def _settings(self) -> Search:
        return Search(self.epsilon, self.k, self.steps, self.learning_rate, self.penalty)

    def bounded(self, trace: Trace, epsilon: float) -> tuple[Ragged, Float[np.ndarray, " n"]]:
        """For every row the furthest attention found with an output within ``epsilon``, and what the JSD of none of them exceeds."""
        readout, alpha = trace.readout, trace.alpha
        if one_logit_decides(readout):
            found = furthest_attention(alpha, slab_within(readout, alpha, epsilon))
            return found, divergence(found, alpha)
        found, upper = bounded_attention(readout, alpha, epsilon, row_streams(trace, self.seed, self.name), self._settings)
        within = tvd(readout(found), readout(alpha)) <= epsilon + ROUNDING
        return alpha.with_values(np.where(alpha.spread(within), found.values, alpha.values)), np.minimum(upper, unconstrained_bound(alpha))

    def _search(self, trace: Trace, baseline: Float[np.ndarray, "n C"]) -> Ragged:
        """Of the attentions that the search ends with, the best one accepted; the model's own where none is."""
        readout, alpha = trace.readout, trace.alpha
        ends = search_attentions(readout, alpha, row_streams(trace, self.seed, self.name), self._settings)
        best, reached = alpha.values.copy(), np.zeros(len(alpha))
        for end in ends.T:
            candidate = alpha.with_values(end)
            value = divergence(candidate, alpha)
            better = (tvd(readout(candidate), baseline) <= self._limit) & (value > reached)
            best, reached = np.where(alpha.spread(better), end, best), np.where(better, value, reached)
        return alpha.with_values(best)

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        measures = ("emax_jsd", "emax_jsd_upper", "certified", "delta_y")
        return summarise_means(self.name, by_group(table, lambda rows: rows.select(measures)), self.seed)


def divergence(one: Ragged, other: Ragged) -> Float[np.ndarray, " n"]:
    """JSD of every row of ``one`` to the same row of ``other``, in nats."""
    return np.maximum(one.with_values(jsd_terms(one.values, other.values)).sum(), 0.0)
