"""Remove attention weights until the prediction flips (Serrano & Smith 2019)."""

from dataclasses import dataclass

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core.papers import SERRANO2019
from attnaudit.core.settings import Settings, setting
from attnaudit.core.shapes import Indices, PerRow, RowInts
from attnaudit.experiments.erasure.curves import MINIMUM, ORDERS, area
from attnaudit.experiments.erasure.removal import RANKINGS, Results, Rows, in_blocks
from attnaudit.experiments.erasure.table import erase
from attnaudit.experiments.rows import (
    differences,
    make_table,
    no_single_decision,
    row_streams,
    summarise_measures,
)
from attnaudit.results import SIGNED, Measure
from attnaudit.trace import Trace

MOST_ORDERS = 10_000


@dataclass(frozen=True)
class Erasure(Settings):
    """Removal of attention weights until the prediction flips; the others are rescaled.

    One weight: ``delta_js`` is the change of the output (JSD) without the largest weight, minus the
    change without another weight drawn at random. ``delta_alpha`` is the difference of the two
    weights. ``flip_max`` and ``flip_random`` tell whether each removal flips the prediction.

    Many weights: weights are removed in the order of a ranking until the prediction first flips.
    ``removed_<ranking>`` is the share of T removed by then and ``mass_<ranking>`` the share of
    attention; both are null if it never flips. Rankings are ``random`` (the mean over the orders
    that flip), ``attention``, ``gradient`` (∂p_max/∂alpha) and ``gradient_attention`` (the
    product). ``never_<ranking>`` tells whether it never flips, for ``random`` in which share of the
    orders. ``by_order`` has the share removed in each random order.

    ``removed_minimum`` is the size of the smallest set that flips the prediction, as a share of T,
    and ``minimum`` lists its positions; both are exact with an identity tail. ``minimum_proven``
    tells whether no smaller set flips, or none at all. ``times_minimum_<ranking>`` is the number of
    positions that a ranking removes, divided by the size of that set.

    Rows of one position, and removals that leave no weight, are null.

    Attributes:
        seed: Seed of the random orders and positions, and of the resampling of intervals.
        orders: Number of random orders.
    """

    name = "erasure"
    needs = ()
    papers = (SERRANO2019,)
    measures = (
        Measure(
            "delta_js",
            "ΔJS: change of the output without the largest weight minus that without another",
            "JSD of the output without the largest weight, minus that without a random other "
            "weight, in nats.",
            "higher",
            range=SIGNED,
        ),
        Measure(
            "delta_alpha",
            "Δα: largest weight minus the other",
            "Difference of the two weights, 0 to 1.",
        ),
        Measure(
            "negative_delta_js",
            "share where the other weight changes the output more",
            "Share of texts with ΔJS below 0.",
            "lower",
        ),
        Measure(
            "flip_max",
            "share whose prediction flips without the largest weight",
            "Share of texts whose predicted class changes when the largest weight is removed.",
            "higher",
        ),
        Measure(
            "flip_random",
            "share whose prediction flips without the other weight",
            "Share of texts whose predicted class changes when a random other weight is removed.",
        ),
        Measure(
            "flip_both",
            "share where either removal flips it",
            "Share of texts that flip by either of the two removals.",
        ),
        Measure(
            "flip_only_max",
            "share where only the largest flips it",
            "Share of texts that only the removal of the largest weight flips.",
            "higher",
        ),
        Measure(
            "flip_only_random",
            "share where only the other flips it",
            "Share of texts that only the removal of the other weight flips.",
            "lower",
        ),
        Measure(
            "flip_neither",
            "share where neither flips it",
            "Share of texts that neither removal flips.",
        ),
        Measure(
            "minimum_proven",
            "share whose smallest set is proven smallest",
            "Share of texts where no smaller set flips the prediction, or none does at all.",
        ),
        Measure(
            "flip_max_minus_flip_random",
            "share flipped without the largest weight minus without the other",
            "How many more predictions the removal of the largest weight flips than that of a "
            "random other one.",
            "higher",
        ),
        Measure(
            "area_minimum_minus_area_attention",
            "area under the flip curve, smallest set minus attention",
            "How much sooner the smallest set flips predictions than the ranking by attention, "
            "over all texts.",
            "lower",
        ),
        Measure(
            "area_attention_minus_area_random",
            "area under the flip curve, attention minus random order",
            "How much sooner the ranking by attention flips predictions than a random order, over "
            "all texts.",
            "higher",
        ),
        Measure(
            "area_attention_minus_area_{score}",
            "area under the flip curve, attention minus {score}",
            "How much sooner the ranking by attention flips predictions than another ranking, "
            "over all texts.",
            "higher",
        ),
        Measure(
            "area_{score}",
            "area under the flip curve, {score}",
            "Mean over texts of 1 minus the share of tokens removed at the first flip (0 "
            "where none flips it), 0 to 1.",
            "higher",
        ),
        Measure(
            "removed_{score}",
            "share of tokens removed at the first flip, {score}",
            "Share of the tokens removed along a ranking when the prediction first flips; "
            "undefined where it never does.",
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
            "How many times as many tokens the ranking removes as the smallest set that flips the "
            "prediction, 1 or more.",
            "lower",
            range=None,
        ),
        Measure(
            "never_{score}",
            "share that never flips, {score}",
            "Share of texts that no removal along the ranking flips; of random orders the "
            "share of orders.",
        ),
    )
    summarise = summarise_measures
    seed: int = 0
    orders: int = setting("Number of random removal orders.", 5, least=1, most=MOST_ORDERS)
    refuses = staticmethod(no_single_decision)

    def passes(self, tokens: RowInts, heads: int) -> PerRow:
        """Estimate how many outputs of a network each row asks for, by its tokens."""
        return (self.orders + 4.0) * tokens + 32.0

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Remove weights from each row of a trace."""
        alpha, streams = trace.alpha, row_streams(trace, self.seed, self.name)
        given = trace.ragged("alpha_gradient") if trace.has("alpha_gradient") else None
        smallest = np.zeros(len(alpha.values), bool)

        def compute(rows: Rows, numbers: Indices) -> Results:
            # Behind a formula the gradient of the log-odds is exact; the trace's may underflow.
            slope = rows.gradient()
            if slope is None and given is not None:
                slope = given.take(numbers).values
            removed = erase(rows, streams[numbers], slope, self.orders)
            smallest[alpha.positions(numbers)] = removed.pop(MINIMUM)
            return removed

        columns = in_blocks(compute, trace.readout, alpha)
        minimum = alpha.with_values(alpha.places.astype(np.int32)).where(smallest)
        table = make_table(trace, columns | {MINIMUM: minimum})
        shares = cs.starts_with("flip_", "never_") | cs.by_name("minimum_proven")
        return table.with_columns((shares - cs.by_name("never_random")).cast(pl.Boolean))

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """Select the measures of each row: columns, the flip table, areas and their differences."""
        largest, other = pl.col("flip_max"), pl.col("flip_random")
        measures = table.select(
            *map(area, ORDERS),
            "delta_js",
            "delta_alpha",
            (pl.col("delta_js") < 0).alias("negative_delta_js"),
            "flip_max",
            "flip_random",
            (largest & other).alias("flip_both"),
            (largest & ~other).alias("flip_only_max"),
            (~largest & other).alias("flip_only_random"),
            (~largest & ~other).alias("flip_neither"),
            cs.starts_with("removed_", "mass_", "times_minimum_"),
            "minimum_proven",
            *(f"never_{name}" for name in ORDERS),
        )
        rivals = (name for name in RANKINGS if name != "attention")
        return measures.with_columns(
            differences(
                ("flip_max", "flip_random"),
                ("area_minimum", "area_attention"),
                *(("area_attention", f"area_{name}") for name in rivals),
            )
        )
