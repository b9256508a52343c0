"""Does the prediction depend on the largest weights? (Serrano & Smith 2019)"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core.papers import SERRANO2019
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import setting
from attnaudit.experiments.erasure.curves import (
    LISTS,
    MINIMUM,
    area,
    exhausted,
    is_recorded,
    never,
)
from attnaudit.experiments.erasure.removal import RANKINGS
from attnaudit.experiments.erasure.table import Choices, Erased, erase
from attnaudit.experiments.rows import (
    differences,
    keys,
    list_column,
    no_single_decision,
    require,
    row_streams,
    vector_column,
)
from attnaudit.results import summarise_means, summarise_ratios
from attnaudit.results.groups import by_group
from attnaudit.results.measures import Measure
from attnaudit.trace import Trace

OTHERS = ("any", "code")
ROUNDING = 1e-15  # of a divergence: a difference below it has no sign
MOST_ORDERS = 10_000
_EVERY = (*RANKINGS, MINIMUM)


@dataclass(frozen=True)
class Erasure:
    """Attention weights set to 0, the rest rescaled, the output read out again: what does it take to flip the prediction?

    One weight: ``delta_js`` is how much more the output moves (JSD) without the largest weight than without that of an ``other`` position,
    drawn at random, ``delta_alpha`` the difference of the two weights, ``flip_max`` and ``flip_random`` whether the prediction flips.
    ``other`` "any" draws from all but the largest; "code", as the released code, from all but the first, the largest itself included.

    Many weights: ``removed_<ranking>`` is the share of T that is removed when the prediction first flips, in the order of the ranking:
    ``random`` (the mean of those of ``orders`` orders that flip), ``attention``, ``gradient`` (∂p_max/∂alpha), ``gradient_attention`` (the
    product); ``mass_<ranking>`` the share of the attention; null where it never flips. ``observed_<ranking>`` is the share at the first
    flip, or where it never flips that at which no weight is left, 1 unless some weights are 0; ``observed_by_order`` and
    ``flipped_by_order`` say both of every random order, so that nothing is excluded from the curve of flips and its area.

    ``removed_minimum`` is the smallest set of all that flips, its positions in ``minimum``, with an identity tail exactly;
    ``minimum_proven`` says whether none is smaller, or none there is. ``times_minimum_<ranking>`` is how many times as many a ranking
    removes. ``kept_<ranking>`` is the share of T in the shortest beginning of the ranking that, kept alone, leaves the output within TVD
    ``epsilon``.

    A row of one position, and what a removal leaves without any weight, is null.
    """

    name = "erasure"
    needs = ()
    papers = (SERRANO2019,)
    measures = (
        Measure(
            "delta_js",
            "ΔJS: change of the output without the largest weight minus that without another",
            "JSD of the output without the largest weight, minus that without a random other weight, in nats.",
            "higher",
        ),
        Measure(
            "delta_alpha",
            "Δα: largest weight minus the other",
            "Difference of the two weights, 0 to 1.",
        ),
        Measure(
            "negative_delta_js",
            "share where the other weight changes the output more",
            "Share of instances with ΔJS below 0.",
            "lower",
        ),
        Measure(
            "flip_max",
            "share whose prediction flips without the largest weight",
            "Share of instances whose predicted class changes when the largest weight is removed.",
            "higher",
        ),
        Measure(
            "flip_random",
            "share whose prediction flips without the other weight",
            "Share of instances whose predicted class changes when a random other weight is removed.",
        ),
        Measure(
            "flip_both",
            "share where either removal flips it",
            "Share of instances that flip by either of the two removals.",
        ),
        Measure(
            "flip_only_max",
            "share where only the largest flips it",
            "Share of instances that only the removal of the largest weight flips.",
            "higher",
        ),
        Measure(
            "flip_only_random",
            "share where only the other flips it",
            "Share of instances that only the removal of the other weight flips.",
            "lower",
        ),
        Measure(
            "flip_neither",
            "share where neither flips it",
            "Share of instances that neither removal flips.",
        ),
        Measure(
            "minimum_proven",
            "share whose smallest set is proven smallest",
            "Share of instances where no smaller set flips the prediction, or none does at all.",
        ),
        Measure(
            "flip_max_minus_flip_random",
            "share flipped without the largest weight minus without the other",
            "How many more predictions the removal of the largest weight flips than that of a random other one.",
            "higher",
        ),
        Measure(
            "area_minimum_minus_area_attention",
            "area under the flip curve, smallest set minus attention",
            "How much sooner the smallest set flips predictions than the ranking by attention, over all instances.",
            "lower",
        ),
        Measure(
            "area_attention_minus_area_random",
            "area under the flip curve, attention minus random order",
            "How much sooner the ranking by attention flips predictions than a random order, over all instances.",
            "higher",
        ),
        Measure(
            "area_attention_minus_area_{score}",
            "area under the flip curve, attention minus {score}",
            "How much sooner the ranking by attention flips predictions than another ranking, over all instances.",
            "higher",
        ),
        Measure(
            "area_{score}",
            "area under the flip curve, {score}",
            "Mean over instances of 1 minus the share of tokens removed at the first flip (0 where none flips it), 0 to 1.",
            "higher",
        ),
        Measure(
            "gain_{score}",
            "area under the flip curve between random order (0) and smallest set (1), {score}",
            "Area minus that of a random order, as a share of that difference for the smallest set; below 0: worse than random.",
            "higher",
        ),
        Measure(
            "exhausted_{score}",
            "share with no weight left before a flip, {score}",
            "Share of instances where no weight is left, without a flip, before all tokens are removed: censored there in the area.",
        ),
        Measure(
            "removed_{score}",
            "share of tokens removed at the first flip, {score}",
            "Share of the tokens removed along a ranking when the prediction first flips; undefined where it never does.",
            "lower",
        ),
        Measure(
            "mass_{score}",
            "share of attention removed at the first flip, {score}",
            "Sum of the attention weights removed when the prediction first flips.",
        ),
        Measure(
            "times_minimum_{score}",
            "tokens removed at the first flip, over the smallest set, {score}",
            "How many times as many tokens the ranking removes as the smallest set that flips the prediction, 1 or more.",
            "lower",
        ),
        Measure(
            "kept_{score}",
            "share of tokens enough to keep the output, {score}",
            "Share of the tokens in the shortest head of the ranking that, kept alone, leaves the output within TVD ε.",
            "lower",
        ),
        Measure(
            "never_{score}",
            "share that never flips, {score}",
            "Share of instances that no removal along the ranking flips; of random orders the share of orders.",
        ),
        Measure(
            "all_flip",
            "share that every ranking flips",
            "Share of instances whose prediction every ranking flips.",
        ),
        Measure(
            "common_removed_{score}",
            "share of tokens removed at the first flip where every ranking flips, {score}",
            "The share removed, over the instances that every ranking flips, so that rankings can be compared.",
            "lower",
        ),
        Measure(
            "common_times_minimum_{score}",
            "tokens removed over the smallest set where every ranking flips, {score}",
            "How many times as many tokens as the smallest set, over the instances that every ranking flips.",
            "lower",
        ),
    )
    seed: int = 0
    orders: int = setting("Number of random removal orders.", 5)
    other: str = setting(
        "Position that the largest weight is compared with; any: any other position; code: as in the released code.",
        "any",
    )
    epsilon: float = setting(
        "Largest change of the output, in TVD, at which the kept tokens are enough.", 0.01
    )
    refuses = staticmethod(no_single_decision)

    def __post_init__(self) -> None:
        require(
            self, "orders", 1 <= self.orders <= MOST_ORDERS, f"1 to {MOST_ORDERS:,} random orders"
        )
        require(self, "other", self.other in OTHERS, f"one of {', '.join(OTHERS)}", OTHERS)
        require(self, "epsilon", 0 <= self.epsilon <= 1, "a distance from 0 to 1")

    def __call__(self, trace: Trace) -> pl.DataFrame:
        alpha, choices = trace.alpha, Choices(self.other == "code", self.orders, self.epsilon)
        gradient = trace.ragged("alpha_gradient") if trace.has("alpha_gradient") else None
        streams = row_streams(trace, self.seed, self.name)
        erased = erase(trace.readout, alpha, streams, choices, gradient)
        columns, walks = _columns(erased, alpha.lengths), erased.observed / alpha.lengths[:, None]
        return (
            keys(trace)
            .with_columns(
                *(pl.Series(name, values, nan_to_null=True) for name, values in columns.items()),
                pl.when(pl.Series(alpha.lengths > 1))
                .then(pl.Series(erased.proven))
                .alias("minimum_proven"),
                list_column(MINIMUM, _positions(alpha.with_values(erased.smallest))),
                vector_column(LISTS[0], walks[:, : self.orders]),
                vector_column(LISTS[1], erased.flips[:, : self.orders]),
            )
            .with_columns(cs.starts_with("flip_").cast(pl.Boolean))
        )

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        means = summarise_means(self.name, by_group(table, self.of_rows, LISTS), self.seed)
        if not is_recorded(table.lazy().collect_schema().names()):
            return means
        ratios = {
            f"gain_{name}": (f"area_{name}", "area_random", "area_minimum") for name in RANKINGS[1:]
        }
        groups = by_group(table, _areas, LISTS)
        return pl.concat([means, summarise_ratios(self.name, groups, ratios, self.seed)])

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """What the table has, the shares of the flip table, of negative differences, of rows that a ranking never flips, and areas.

        The conditional means of rankings are also over the rows that all of them flip (``common_…``). A ranking that is not known keeps
        nothing, and is not counted as one that never flips. A table of an earlier version has no areas.
        """
        recorded = is_recorded(table.collect_schema().names())
        largest, other, erased = (
            pl.col("flip_max"),
            pl.col("flip_random"),
            pl.col("kept_random").is_not_null(),
        )
        known = {name: pl.col(f"kept_{name}").is_not_null() for name in RANKINGS} | {
            MINIMUM: erased
        }
        flips = pl.all_horizontal(
            pl.col(f"removed_{name}").is_not_null() | ~known[name] for name in _EVERY
        )
        absent = [
            pl.when(known[name]).then(pl.col(f"removed_{name}").is_null()).alias(f"never_{name}")
            for name in _EVERY
        ]
        found = table.select(
            *([area(table, name) for name in _EVERY] if recorded else []),
            "delta_js",
            "delta_alpha",
            (pl.col("delta_js") < 0).alias("negative_delta_js"),
            "flip_max",
            "flip_random",
            (largest & other).alias("flip_both"),
            (largest & ~other).alias("flip_only_max"),
            (~largest & other).alias("flip_only_random"),
            (~largest & ~other).alias("flip_neither"),
            cs.starts_with("removed_", "mass_", "times_minimum_", "kept_"),
            "minimum_proven",
            *([never(name) for name in _EVERY] if recorded else absent),
            *([exhausted(name) for name in RANKINGS] if recorded else []),
            pl.when(erased).then(flips).alias("all_flip"),
            *(
                pl.when(flips).then(pl.col(f"removed_{name}")).alias(f"common_removed_{name}")
                for name in _EVERY
            ),
            *(
                pl.when(flips)
                .then(pl.col(f"times_minimum_{name}"))
                .alias(f"common_times_minimum_{name}")
                for name in RANKINGS
            ),
        )
        gaps = [
            ("area_minimum", "area_attention"),
            *(("area_attention", f"area_{name}") for name in RANKINGS if name != "attention"),
        ]
        return found.with_columns(
            differences(("flip_max", "flip_random"), *(gaps if recorded else []))
        )


def _areas(table: pl.LazyFrame) -> pl.LazyFrame:
    return table.select(area(table, name) for name in _EVERY)


def _columns(erased: Erased, lengths: np.ndarray) -> dict[str, np.ndarray]:
    names, single = (*RANKINGS, MINIMUM), erased.single
    delta_js = single[:, 0] - single[:, 1]
    delta_js[np.abs(delta_js) < ROUNDING] = 0.0
    single = np.where(np.isnan(delta_js)[:, None], np.nan, single)
    columns = {
        "delta_js": delta_js,
        "delta_alpha": single[:, 2],
        "flip_max": single[:, 3],
        "flip_random": single[:, 4],
    }
    columns |= {f"removed_{name}": erased.removed[:, k] / lengths for k, name in enumerate(names)}
    known = RANKINGS[1:]
    columns |= {
        f"observed_{name}": erased.observed[:, k - len(known)] / lengths
        for k, name in enumerate(known)
    }
    columns |= {f"mass_{name}": erased.mass[:, k] for k, name in enumerate(names)}
    columns |= {
        f"times_minimum_{name}": erased.removed[:, k] / erased.removed[:, -1]
        for k, name in enumerate(RANKINGS)
    }
    return columns | {
        f"kept_{name}": erased.kept[:, k] / lengths for k, name in enumerate(RANKINGS)
    }


def _positions(chosen: Ragged) -> Ragged:
    """The marked positions of every row, counted from 0."""
    within = np.arange(len(chosen.values)) - chosen.spread(chosen.offsets[:-1])
    counts = chosen.with_values(chosen.values.astype(np.int64)).sum()
    return Ragged.from_lengths(within[chosen.values].astype(np.int32), counts)
