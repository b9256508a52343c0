"""How far does attention move if only the seed does? (Wiegreffe & Pinter 2019, §4)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import polars as pl

from attnaudit.core import InputError
from attnaudit.core.papers import WIEGREFFE2019
from attnaudit.core.settings import setting
from attnaudit.corpora.corpus import Corpus
from attnaudit.experiments.adversary.experiment import divergence
from attnaudit.experiments.rows import keys
from attnaudit.plans.spec import RunSpec
from attnaudit.plans.training import Training, usual
from attnaudit.results import SIGNED, Measure, by_group, summarise_means
from attnaudit.stats.kendall import kendall_tau
from attnaudit.stats.measures import tvd
from attnaudit.studies.study import Study, Traces, same_instances
from attnaudit.trace import Trace

BINS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the largest weight, as the paper groups its instances


@dataclass(frozen=True)
class Seeds(Study):
    """Repeat the same training with other seeds: the noise that other comparisons have too.

    The table has a row per instance, with medians over the other seeds: ``jsd`` and ``tvd`` to the
    base's attention and output, ``tau_<score>`` between the base's scores and theirs, and
    ``tau_alpha_<score>`` between attention and importance of the same seed. ``max_alpha`` is the
    base's largest weight, whose bins are groups of the summary.
    """

    name = "seeds"
    question = "Is attention stable?"
    paper = WIEGREFFE2019
    measures = (
        Measure(
            "jsd",
            "JSD to the base's attention",
            "Jensen-Shannon divergence of attention between seeds, at most ln 2.",
        ),
        Measure(
            "tvd",
            "TVD to the base's output",
            "Total variation distance of the outputs of two seeds, 0 to 1.",
        ),
        Measure(
            "tau_alpha",
            "τ, attention with itself",
            "Kendall's τ between the attention of two seeds.",
            range=SIGNED,
        ),
        Measure(
            "tau_gradient",
            "τ, gradient with itself",
            "Kendall's τ between the gradients of two seeds.",
            range=SIGNED,
        ),
        Measure(
            "tau_loo",
            "τ, leave-one-out with itself",
            "Kendall's τ between leave-one-out of two seeds.",
            range=SIGNED,
        ),
        Measure(
            "tau_alpha_gradient",
            "τ, attention – gradient of the same seed",
            "Kendall's τ between attention and gradients.",
            range=SIGNED,
        ),
        Measure(
            "tau_alpha_loo",
            "τ, attention – leave-one-out of the same seed",
            "Kendall's τ between attention and leave-one-out.",
            range=SIGNED,
        ),
    )
    layout = "groups"
    quick: ClassVar = {"seeds": 3}
    seeds: int = setting("Number of seeds in addition to that of the base model.", 8, least=1)

    def trainings(self, base: RunSpec, corpus: Corpus) -> list[Training]:
        """Train the model with every seed."""
        self.check_model(base.model)
        missing = sorted({"gradient", "loo"} - set(base.collect.scores))
        if missing:
            got = f"{list(base.collect.scores)}, without {' and '.join(missing)}"
            expected = "gradient and loo, which seeds are compared by"
            raise InputError("study", "setting collect.scores", got, expected)
        return [usual(base, base.seed + k) for k in range(self.seeds + 1)]

    def __call__(self, traces: Traces) -> pl.DataFrame:
        """Compare every model with the base, row by row."""
        ordered = {one: traces[one] for one in self.ordered(traces)}
        same_instances(ordered)
        base, *others = ordered.values()
        compared = [_compared(base, other) for other in others]
        medians = [
            pl.Series(name, np.median([one[name] for one in compared], axis=0), nan_to_null=True)
            for name in compared[0]
        ]
        return keys(base).with_columns(pl.Series("max_alpha", base.alpha.max()), *medians)

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        """Average over instances, for every predicted class and bin of the largest weight."""
        bins_of_alpha = {f"max_alpha:{low:g}-{high:g}": inside for low, high, inside in bins()}
        groups = by_group(
            table.lazy(), lambda rows: rows.select("jsd", "tvd", "^tau_.*$"), further=bins_of_alpha
        )
        return summarise_means(self.name, groups, self.seed, self.measures)


@dataclass(frozen=True)
class TunedSeeds(Seeds):
    """Fine-tune a pretrained transformer with other seeds.

    All trainings begin with the same weights, so a head is compared with itself.
    """

    def check_model(self, model: Any, **options: bool) -> None:
        """Accept several heads."""


def _compared(base: Trace, other: Trace) -> dict[str, np.ndarray]:
    """Compare one more training with the base, per instance."""
    pairs = {f"tau_{name}": (base, name, name) for name in ("alpha", "gradient", "loo")}
    pairs |= {f"tau_alpha_{name}": (other, "alpha", name) for name in ("gradient", "loo")}
    return {
        "jsd": divergence(base.alpha, other.alpha),
        "tvd": tvd(base.prediction, other.prediction),
        **{
            measure: kendall_tau(first.ragged(one), other.ragged(two))[0]
            for measure, (first, one, two) in pairs.items()
        },
    }


def bins() -> Iterator[tuple[float, float, pl.Expr]]:
    """Yield the ends of every bin of the largest weight, and which rows it has."""
    for low, high in pairwise(BINS):
        # The last bin is closed. A weight of 1 may have been rounded up.
        end, closed = (high, "left") if high < 1.0 else (1.0 + 1e-6, "both")
        yield low, high, pl.col("max_alpha").is_between(low, end, closed)
