"""Does the prediction depend on the largest weights? (Serrano & Smith 2019)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core.papers import SERRANO2019
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import setting
from attnaudit.experiments.erasure.removal import RANKINGS
from attnaudit.experiments.erasure.rows import ANY_OTHER, AS_RELEASED, Erased, erase
from attnaudit.experiments.erasure.through_tail import Choices, erase_through_tail
from attnaudit.experiments.rows import by_group, keys, list_column, no_single_decision, of_kept_words, require, row_streams
from attnaudit.experiments.through_tail import has_compiled_tail
from attnaudit.results import summarise_means
from attnaudit.results.about import About
from attnaudit.results.card import FEWEST_OF_CLASS, CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import Boxes, Crosstab, FigureSpec, Scale, Scatter
from attnaudit.results.measures import Measure
from attnaudit.results.words import count, figure, interval, percent, thousands
from attnaudit.trace import Trace
from attnaudit.trace.readout import TanhTail

OTHERS = {"any": ANY_OTHER, "code": AS_RELEASED}
MINIMUM = "minimum"
NEAR_SMALLEST = 1.5  # times the smallest set: below it a ranking supports attention
ROUNDING = 1e-15  # of a divergence: a difference below it has no sign
MOST_ORDERS = 10_000
REMOVED = {
    "removed_random": "random", "removed_attention": "attention", "removed_gradient": "gradient",
    "removed_gradient_attention": "gradient × attention", "removed_minimum": "smallest set",
}  # fmt: skip


_COMPUTED = {f"removed_{name}": f"kept_{name}" for name in ("gradient", "gradient_attention")}  # through any tail: given in the trace
_REMOVAL = Boxes(
    REMOVED, Scale("share of the tokens removed"), missing="never flips", marked=("smallest set",), computed=_COMPUTED,
)  # fmt: skip


def _removal_caption(rows: pl.DataFrame) -> str:
    common, proven = _REMOVAL.known(rows).common(rows), rows["minimum_proven"].mean()
    times = common["times_minimum_attention"].median()
    compared = f" By attention that is a median of {times:.1f} times the smallest set." if isinstance(times, float) else ""
    shown = f" (proven for {percent(proven)})" if isinstance(proven, float) else ""
    return (
        "Left, the share of predictions that removing tokens in the order of a ranking never flips. Boxes: the share of tokens removed at "
        "the first flip, as quartiles (bar), 5 to 95 % (line) and median, over the "
        f"{thousands(common.height)} of {count(rows.height, 'instance')} of more than one token that every ranking flips.{compared} "
        f"No ranking flips a prediction with fewer tokens than the smallest set{shown}: where that is large, the prediction depends on "
        "many tokens."
    )


def _one_caption(rows: pl.DataFrame) -> str:
    known = rows.filter(pl.col("delta_js").is_not_null())
    excluded = rows.height - known.height
    note = f" Excluded: {count(excluded, 'instance')} with one token, or with all weight on one." if excluded else ""
    if known.height == 0:
        return f"Undefined for every instance.{note}"
    negative, only = known.select(
        (pl.col("delta_js") < 0).mean().alias("negative"), (pl.col("flip_max") & ~pl.col("flip_random")).mean().alias("only")
    ).row(0)
    mean = known["delta_js"].mean()
    return (
        "How much more the output moves (JSD) without the largest weight than without one drawn at random from the others, by how much "
        f"larger it is. Mean {figure(mean if isinstance(mean, float) else None, 3)}; below 0 for {percent(negative)}: there the other "
        f"weight mattered more. Right: whether each removal flips the prediction; for {percent(only)} only that of the largest weight "
        f"does. Points near 0 far to the right would mean that a much larger weight matters no more.{note}"
    )


@dataclass(frozen=True)
class Erasure:
    """Attention weights set to 0, the rest rescaled, the output read out again: what does it take to flip the prediction?

    One weight: ``delta_js`` is how much more the output moves (JSD) without the largest weight than without that of an ``other`` position,
    drawn at random, ``delta_alpha`` the difference of the two weights, ``flip_max`` and ``flip_random`` whether the prediction flips.
    ``other`` "any" draws from all but the largest; "code", as the released code, from all but the first, the largest itself included.

    Many weights: ``removed_<ranking>`` is the share of T that is removed when the prediction first flips, in the order of the ranking:
    ``random`` (the mean of those of ``orders`` orders that flip), ``attention``, ``gradient`` (∂p_max/∂alpha), ``gradient_attention`` (the
    product); ``mass_<ranking>`` the share of the attention; null where it never flips. ``removed_minimum`` is the smallest set of all that
    flips, its positions in ``minimum``, with an identity tail exactly; ``minimum_proven`` says whether none is smaller, or none there is.
    ``times_minimum_<ranking>`` is how many times as many a ranking removes. ``kept_<ranking>`` is the share of T in the shortest beginning
    of the ranking that, kept alone, leaves the output within TVD ``epsilon``.

    A row of one position, and what a removal leaves without any weight, is null.
    """

    name = "erasure"
    needs = ()
    question = "How many tokens must be removed before the prediction flips?"
    papers = (SERRANO2019,)
    measures = (
        Measure("delta_js", "ΔJS: change of the output without the largest weight less that without another",
                "JSD of the output without the largest weight, less that without a random other weight, in nats.", "higher"),
        Measure("delta_alpha", "Δα: largest weight less the other", "Difference of the two weights, 0 to 1."),
        Measure("negative_delta_js", "share where the other weight changes the output more",
                "Share of instances with ΔJS below 0.", "lower"),
        Measure("flip_max", "share whose prediction flips without the largest weight",
                "Share of instances whose predicted class changes when the largest weight is removed.", "higher"),
        Measure("flip_random", "share whose prediction flips without the other weight",
                "Share of instances whose predicted class changes when a random other weight is removed."),
        Measure("flip_both", "share where either removal flips it", "Share of instances that flip by either of the two removals."),
        Measure("flip_only_max", "share where only the largest flips it", "Share that flips without the largest weight only.", "higher"),
        Measure("flip_only_random", "share where only the other flips it", "Share that flips without the other weight only.", "lower"),
        Measure("flip_neither", "share where neither flips it", "Share of instances that neither removal flips."),
        Measure("minimum_proven", "share whose smallest set is proven smallest",
                "Share of instances where no smaller set flips the prediction, or none does at all."),
        Measure("removed_{score}", "share of tokens removed at the first flip, {score}",
                "Share of the tokens removed along a ranking when the prediction first flips; undefined where it never does.", "lower"),
        Measure("mass_{score}", "share of attention removed at the first flip, {score}",
                "Sum of the attention weights removed when the prediction first flips."),
        Measure("times_minimum_{score}", "tokens removed at the first flip, over the smallest set, {score}",
                "How many times as many tokens the ranking removes as the smallest set that flips the prediction, 1 or more.", "lower"),
        Measure("kept_{score}", "share of tokens that keep the output, {score}",
                "Share of the tokens in the shortest beginning of the ranking that, kept alone, leaves the output within TVD ε.", "lower"),
        Measure("never_{score}", "share that never flips, {score}", "Share of instances that no removal along the ranking flips."),
        Measure("all_flip", "share that every ranking flips", "Share of instances whose prediction every ranking flips."),
        Measure("common_removed_{score}", "share of tokens removed at the first flip where every ranking flips, {score}",
                "The share removed, over the instances that every ranking flips, so that rankings can be compared.", "lower"),
        Measure("common_times_minimum_{score}", "tokens removed over the smallest set where every ranking flips, {score}",
                "How many times as many tokens as the smallest set, over the instances that every ranking flips.", "lower"),
    )  # fmt: skip
    figures = (
        FigureSpec(
            "removal", "How much must be removed before the prediction flips?",
            (_REMOVAL,), _removal_caption, reads=("times_minimum_attention", "minimum_proven", *_COMPUTED.values()),
            of=lambda rows: rows.filter(pl.col("minimum_proven").is_not_null()),
        ),
        FigureSpec(
            "erasure", "Is the largest weight the one that matters?", (
                Scatter("delta_alpha", "delta_js", "Δα: largest weight less the other", "ΔJS", "One weight against another"),
                Crosstab("flip_max", "flip_random", "without the largest", "without the other", ("flips", "does not"),
                         "Whose removal flips the prediction"),
            ), _one_caption,
        ),
    )  # fmt: skip
    seed: int = 0
    orders: int = setting("Random orders of removal.", 5)
    other: str = setting("Position that the largest weight is compared with: any but the largest, or code: as in the released code.", "any")
    epsilon: float = setting("Change of the output, in TVD, within which the kept tokens are enough.", 0.01)
    refuses = staticmethod(no_single_decision)

    def __post_init__(self) -> None:
        require(self, "orders", 1 <= self.orders <= MOST_ORDERS, f"1 to {MOST_ORDERS:,} random orders")
        require(self, "other", self.other in OTHERS, f"one of {', '.join(OTHERS)}", OTHERS)
        require(self, "epsilon", 0 <= self.epsilon <= 1, "a distance from 0 to 1")

    def __call__(self, trace: Trace) -> pl.DataFrame:
        alpha, (erased, proven) = trace.alpha, self._erased(trace)
        columns = _columns(erased, alpha.lengths)
        return (
            keys(trace)
            .with_columns(
                *(pl.Series(name, values, nan_to_null=True) for name, values in columns.items()),
                pl.when(pl.Series(alpha.lengths > 1)).then(pl.Series(proven)).alias("minimum_proven"),
                list_column(MINIMUM, _positions(erased.smallest)),
            )
            .with_columns(cs.starts_with("flip_").cast(pl.Boolean))
        )

    def _erased(self, trace: Trace) -> tuple[Erased, np.ndarray]:
        """What was erased, and of which rows the smallest set is proven smallest."""
        streams, choices = row_streams(trace, self.seed, self.name), (OTHERS[self.other], self.orders, self.epsilon)
        if has_compiled_tail(trace.readout):
            erased = erase(trace.readout, trace.alpha, streams, *choices)
            return erased, (erased.removed[:, -1] == 1) | (not isinstance(trace.readout.tail, TanhTail))
        gradient = trace.ragged("alpha_gradient") if trace.has("alpha_gradient") else None
        return erase_through_tail(trace.readout, trace.alpha, streams, Choices(*choices), gradient)

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        return summarise_means(self.name, by_group(table, self.of_rows), self.seed)

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """What the table has, the shares of the flip table, of negative differences, and of rows that a ranking never flips.

        Rankings are compared over the rows that all of them flip (``common_…``). A ranking that is not known keeps nothing, and is not
        counted as one that never flips.
        """
        largest, other, erased = pl.col("flip_max"), pl.col("flip_random"), pl.col("kept_random").is_not_null()
        known = {name: pl.col(f"kept_{name}").is_not_null() for name in RANKINGS} | {MINIMUM: erased}
        flips = pl.all_horizontal(pl.col(f"removed_{name}").is_not_null() | ~known[name] for name in (*RANKINGS, MINIMUM))
        return table.select(
            "delta_js", "delta_alpha", (pl.col("delta_js") < 0).alias("negative_delta_js"), "flip_max", "flip_random",
            (largest & other).alias("flip_both"), (largest & ~other).alias("flip_only_max"), (~largest & other).alias("flip_only_random"),
            (~largest & ~other).alias("flip_neither"), cs.starts_with("removed_", "mass_", "times_minimum_", "kept_"), "minimum_proven",
            *(pl.when(known[name]).then(pl.col(f"removed_{name}").is_null()).alias(f"never_{name}") for name in (*RANKINGS, MINIMUM)),
            pl.when(erased).then(flips).alias("all_flip"),
            *(pl.when(flips).then(pl.col(f"removed_{name}")).alias(f"common_removed_{name}") for name in (*RANKINGS, MINIMUM)),
            *(pl.when(flips).then(pl.col(f"times_minimum_{name}")).alias(f"common_times_minimum_{name}") for name in RANKINGS),
        )  # fmt: skip

    @staticmethod
    def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
        row = rows.get("erasure", "never_attention")
        if row is None:
            return
        least, chance = (rows.get("erasure", f"never_{name}") for name in (MINIMUM, "random"))
        known = {"any tokens": least, "random order": chance}
        compared = ", ".join(f"{name} {figure(one['value'])} {interval(one)}" for name, one in known.items() if one)
        yield card_row(
            Erasure.question, "share that never flips, by attention", row, compared or "–", _never(row, least, rows) + _compared(rows),
            mark=None if least is None else float(least["value"]), claim=_claim(rows),
        )  # fmt: skip


def _never(row: Mapping[str, Any], least: Mapping[str, Any] | None, rows: SummaryRows) -> str:
    whatever = "" if least is None else f"; for {percent(least['value'])} no set of tokens was found that does"
    return (
        f"Removing tokens{rows.of_head.replace(' of', ' from')} by attention never flips {percent(row['value'])} of predictions{whatever}."
    )


def _compared(rows: SummaryRows) -> str:
    """Rankings over the instances that all of them flip; nothing of a summary written before there were such."""
    flips = rows.get("erasure", "all_flip")
    row, least, chance, times, proven = (rows.get("erasure", name) for name in (
        "common_removed_attention", "common_removed_minimum", "common_removed_random", "common_times_minimum_attention", "minimum_proven",
    ))  # fmt: skip
    if flips is None:
        return of_kept_words(rows)
    if row is None or least is None or chance is None or times is None:
        return f" There is no {rows.unit} that every ranking flips." + of_kept_words(rows)
    shown = "" if proven is None else f" (proven smallest for {percent(proven['value'])})"
    return (
        f" Over the {thousands(row['n'])} of {count(row['n'] + row['undefined'], rows.unit)} that every ranking flips, "
        f"{percent(row['value'])} of tokens must go by attention, {percent(least['value'])} in the smallest set{shown} and "
        f"{percent(chance['value'])} in a random order: by attention {figure(times['value'], 1)} times as many as in the smallest set."
        f"{of_kept_words(rows)}"
    )


def _claim(rows: SummaryRows) -> Claim | None:
    names = ("common_removed_attention", "common_removed_random", "common_times_minimum_attention")
    removed, chance, times = (rows.get("erasure", name) for name in names)
    if removed is None or chance is None or times is None or removed["n"] < FEWEST_OF_CLASS:
        return None
    if removed["value"] >= chance["value"]:
        return Claim(False, "removing tokens by attention flips predictions no sooner than in a random order")
    if times["value"] < NEAR_SMALLEST:
        return Claim(True, "removing tokens by attention flips predictions almost as soon as is possible")
    return Claim(False, f"removing tokens by attention takes {figure(times['value'], 1)} times as many as are needed to flip predictions")


def _columns(erased: Erased, lengths: np.ndarray) -> dict[str, np.ndarray]:
    names, single = (*RANKINGS, MINIMUM), erased.single
    delta_js = single[:, 0] - single[:, 1]
    delta_js[np.abs(delta_js) < ROUNDING] = 0.0
    single = np.where(np.isnan(delta_js)[:, None], np.nan, single)
    columns = {"delta_js": delta_js, "delta_alpha": single[:, 2], "flip_max": single[:, 3], "flip_random": single[:, 4]}
    columns |= {f"removed_{name}": erased.removed[:, k] / lengths for k, name in enumerate(names)}
    columns |= {f"mass_{name}": erased.mass[:, k] for k, name in enumerate(names)}
    columns |= {f"times_minimum_{name}": erased.removed[:, k] / erased.removed[:, -1] for k, name in enumerate(RANKINGS)}
    return columns | {f"kept_{name}": erased.kept[:, k] / lengths for k, name in enumerate(RANKINGS)}


def _positions(chosen: Ragged) -> Ragged:
    """The marked positions of every row, counted from 0."""
    within = np.arange(len(chosen.values)) - chosen.spread(chosen.offsets[:-1])
    counts = chosen.with_values(chosen.values.astype(np.int64)).sum()
    return Ragged.from_lengths(within[chosen.values].astype(np.int32), counts)
