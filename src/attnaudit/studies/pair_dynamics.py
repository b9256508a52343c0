"""The same of translation: what does attention learn from while a translator trains? (Snell et al. 2020, §4)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import polars.selectors as cs
from jaxtyping import Int64

from attnaudit.core.errors import InputError
from attnaudit.plans.training import Training
from attnaudit.studies.dynamics import Dynamics, Proxy
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.corpora.parallel import ParallelCorpus
    from attnaudit.plans.translation import TranslationSpec

_PLACE = ("model", "seed", "step", "instance")


@dataclass(frozen=True)
class PairDynamics(Dynamics):
    """`Dynamics` of a translator: the output is a gold token, and there is a row for each (``query``).

    Relevance is its log-probability with all attention on a source position. What knows co-occurrence alone is a softmax over target tokens
    from the mean source embedding, which has no order and nothing of what is written. Means and intervals are over pairs, each of which
    counts by the mean of its gold tokens. The ``tokens`` of one pair are kept.
    """

    seeds: int = 2
    probe: int = 100

    def plan(self, base: TranslationSpec, corpus: ParallelCorpus) -> Sequence[Training]:
        """Raises InputError for a model of several heads, or without an attention of its own."""
        if base.model.attention in ("uniform", "none") or not base.model.recurrent:
            raise InputError("study", "dynamics of a model", f"{base.model.attention} attention", "an attention that is learned")
        return self._plan(base, {"recurrent": False}, teaches=False)

    def _proxies(self, traces: Mapping[str, Trace], test: Trace, embedding: str) -> dict[str, Proxy]:
        return {"embedding": Proxy.of(traces[embedding])}

    def _shown(self, trace: Trace) -> Int64[np.ndarray, " k"]:
        pairs = np.unique(trace.instance)
        return np.flatnonzero(trace.instance == pairs[replace(self.watched, size=1).rows(pairs)[0]])

    def _by_instance(self, flat: pl.DataFrame) -> pl.DataFrame:
        return flat.group_by(_PLACE, maintain_order=True).agg((cs.numeric() | cs.boolean()).exclude("query").cast(pl.Float64).mean())
