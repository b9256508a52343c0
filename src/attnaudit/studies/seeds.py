"""How far does attention move when only the seed does? The noise that every other comparison is read against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from attnaudit.core.errors import InputError
from attnaudit.core.papers import WIEGREFFE2019, Paper
from attnaudit.core.settings import setting
from attnaudit.experiments.adversary.experiment import divergence
from attnaudit.experiments.rows import keys
from attnaudit.plans.training import (
    Layout,
    Training,
    TrainingId,
    check_least,
    learned_attention,
    one_attention,
    same_instances,
    usual,
)
from attnaudit.results import summarise_means
from attnaudit.results.groups import Group, by_group
from attnaudit.results.measures import Measure
from attnaudit.stats.kendall import kendall_tau
from attnaudit.stats.measures import tvd
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.plans.spec import RunSpec

BINS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the largest weight, as the paper groups its instances


@dataclass(frozen=True)
class Seeds:
    """The same training with ``seeds`` more seeds; the base is that of the study's own.

    The table has a row per instance with medians over the other seeds: ``jsd`` and ``tvd`` are how far their attention and output are
    from the base's; ``tau_alpha``, ``tau_gradient`` and ``tau_loo`` how a score ranks the tokens in both (τ between the base's and
    theirs): what the agreement of two different scores is read against. ``tau_alpha_gradient`` and ``tau_alpha_loo`` are between
    attention and importance of the same seed. ``max_alpha`` is the base's largest weight, and groups the summary as the predicted class
    does (Wiegreffe & Pinter 2019, §4).
    """

    name: ClassVar[str] = "seeds"
    question: ClassVar[str] = "Is attention stable?"
    paper: ClassVar[Paper] = WIEGREFFE2019
    measures: ClassVar[tuple[Measure, ...]] = (
        Measure("jsd", "JSD to the base's attention", "Jensen-Shannon divergence of attention between seeds, at most ln 2."),
        Measure("tvd", "TVD to the base's output", "Total variation distance of the outputs of two seeds, 0 to 1."),
        Measure("tau_alpha", "τ, attention with itself", "Kendall's τ between the attention of two seeds."),
        Measure("tau_gradient", "τ, gradient with itself", "Kendall's τ between the gradients of two seeds."),
        Measure("tau_loo", "τ, leave-one-out with itself", "Kendall's τ between leave-one-out of two seeds."),
        Measure("tau_alpha_gradient", "τ, attention – gradient of the same seed", "Kendall's τ between attention and gradients."),
        Measure("tau_alpha_loo", "τ, attention – leave-one-out of the same seed", "Kendall's τ between attention and leave-one-out."),
    )  # fmt: skip
    layout: ClassVar[Layout] = "groups"
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 3}
    seeds: int = setting("Number of seeds in addition to that of the base model.", 8)
    seed: int = setting("Seed of the intervals; default: --seed.", 0)

    def __post_init__(self) -> None:
        check_least(self, seeds=1)

    def plan(self, base: RunSpec, corpus: Corpus) -> Sequence[Training]:
        learned_attention(self.name, base)
        one_attention(self.name, base)
        missing = sorted({"gradient", "loo"} - set(base.collect.scores))
        if missing:
            got = f"{list(base.collect.scores)}, without {' and '.join(missing)}"
            raise InputError(
                "study",
                "setting collect.scores",
                got,
                "gradient and loo, which seeds are compared by",
            )
        return [usual(base, base.seed + k) for k in range(self.seeds + 1)]

    def __call__(self, traces: Mapping[TrainingId, Trace]) -> pl.DataFrame:
        by_seed = {
            training: traces[training]
            for training in sorted(traces, key=lambda training: training.seed)
        }
        same_instances(by_seed)
        base, *others = by_seed.values()
        measured = [_compared(base, other) for other in others]
        medians = {name: np.median([one[name] for one in measured], axis=0) for name in measured[0]}
        columns = [pl.Series(name, values, nan_to_null=True) for name, values in medians.items()]
        return keys(base).with_columns(pl.Series("max_alpha", base.alpha.max()), *columns)

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        return summarise_means(self.name, _groups(table.lazy()), self.seed)


def _compared(base: Trace, other: Trace) -> dict[str, np.ndarray]:
    """One more training against the base, a number per instance."""
    again = {
        f"tau_{name}": kendall_tau(base.ragged(name), other.ragged(name))[0]
        for name in ("alpha", "gradient", "loo")
    }
    own = {
        f"tau_alpha_{name}": kendall_tau(other.alpha, other.ragged(name))[0]
        for name in ("gradient", "loo")
    }
    return {
        "jsd": divergence(base.alpha, other.alpha),
        "tvd": tvd(base.prediction, other.prediction),
        **again,
        **own,
    }


def _groups(table: pl.LazyFrame) -> Iterator[Group]:
    """All, each predicted class, and each bin of the largest weight."""

    def measures(rows: pl.LazyFrame) -> pl.LazyFrame:
        return rows.select("jsd", "tvd", "^tau_.*$")

    further = {f"max_alpha:{low:g}-{high:g}": inside for low, high, inside in bins()}
    return by_group(table, measures, further=further)


def bins() -> Iterator[tuple[float, float, pl.Expr]]:
    for low, high in pairwise(BINS):
        yield (
            low,
            high,
            pl.col("max_alpha").is_between(
                low, high if high < 1 else 1.0 + 1e-6, "left" if high < 1 else "both"
            ),
        )
