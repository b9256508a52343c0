"""Does the attended sum determine the attention weights? (Brunner et al. 2020)"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from attnaudit.core.papers import BRUNNER2020
from attnaudit.core.settings import setting
from attnaudit.experiments.identifiability.null_space import RANGES, movements
from attnaudit.experiments.rows import keys, require
from attnaudit.results import summarise_means
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, SummaryRows, card_row
from attnaudit.results.charts import FigureSpec, Histogram, Scale, Violins
from attnaudit.results.groups import by_group
from attnaudit.results.heads import named
from attnaudit.results.measures import Measure
from attnaudit.results.words import amount, figure, percent
from attnaudit.trace import Trace

MEASURES = (
    "identifiable",
    "null_dimension",
    "null_share",
    "max_tvd_alpha",
    "max_tvd_alpha_upper",
    "weight_range",
    "largest_weight_range",
)
MOST_TOKENS = 10_000
_SHOWN = 0.005  # what is less would be shown as 0.00


_CAPTION = (
    "Largest total variation distance found from the model's own attention to one with exactly the same attended sum, and so with the same "
    "output. At 0 the sum determines the weights; the farther right, the less it does."
)


@dataclass(frozen=True)
class Identifiability:
    """How far attention can move while the attended sum, and so everything after it, stays exactly the same.

    ``null_dimension`` is the dimension of the changes of attention that leave the sum of the readouts as it is, ``null_share`` its share of
    the T − 1 dimensions of all changes, and ``identifiable`` whether it is 0. ``max_tvd_alpha`` is the largest total variation distance
    found to an attention with the same sum, ``max_tvd_alpha_upper`` what none exceeds. ``weight_range`` is the mean width of the range that
    the weights can have, over the ``tokens`` positions of most attention, and ``largest_weight_range`` that of the largest weight, from
    ``largest_weight_least`` to ``largest_weight_most``.

    Null for ranges and distances of rows of so many positions and readouts that their linear programs would take seconds.
    """

    name = "identifiability"
    needs = ()
    question = "How far can attention move with exactly the same attended sum?"
    papers = (BRUNNER2020,)
    measures = (
        Measure(
            "identifiable",
            "share whose attended sum determines the weights",
            "Share of instances where no other attention has the same attended sum.",
            "higher",
        ),
        Measure(
            "null_dimension",
            "dimensions of attention that change no output",
            "Dimension of the changes of attention that leave the attended sum as it is.",
            "lower",
        ),
        Measure(
            "null_share",
            "share of the dimensions of attention that change no output",
            "Dimension of the changes that leave the attended sum as it is, over the T − 1 of all changes.",
            "lower",
        ),
        Measure(
            "max_tvd_alpha",
            "largest distance of an attention with the same attended sum, found",
            "Largest total variation distance found from the attention to one with the same attended sum, 0 to 1.",
            "lower",
        ),
        Measure(
            "max_tvd_alpha_upper",
            "largest distance of an attention with the same attended sum, upper bound",
            "Total variation distance that no attention with the same attended sum exceeds, 0 to 1.",
        ),
        Measure(
            "weight_range",
            "mean width of the range of a weight",
            "Width of the range of each weight among attentions with the same attended sum, mean over the most attended tokens.",
            "lower",
        ),
        Measure(
            "largest_weight_range",
            "width of the range of the largest weight",
            "Width of the range of the largest weight among attentions with the same attended sum, 0 to 1.",
            "lower",
        ),
    )
    figures = (
        FigureSpec(
            "identifiability",
            question,
            (
                Histogram("max_tvd_alpha", Scale("largest TVD with the same sum")),
                Violins(
                    "max_tvd_alpha", Scale("largest TVD with the same sum"), "By the largest weight"
                ),
            ),
            _CAPTION,
        ),
    )
    seed: int = 0
    tokens: int = setting(
        "Number of most attended positions whose weight ranges are computed.", RANGES
    )

    def __post_init__(self) -> None:
        require(self, "tokens", 1 <= self.tokens <= MOST_TOKENS, f"1 to {MOST_TOKENS:,} positions")

    def __call__(self, trace: Trace) -> pl.DataFrame:
        alpha, contribution = trace.alpha, trace.readout.contribution
        moved = movements(contribution, alpha, self.tokens)
        width = moved.least.with_values(moved.most.values - moved.least.values)
        first = width.offsets[:-1]
        columns = {
            "null_share": np.where(
                alpha.lengths > 1, moved.dimension / np.maximum(alpha.lengths - 1, 1), np.nan
            ),
            "max_tvd_alpha": moved.reach,
            "max_tvd_alpha_upper": moved.upper,
            "weight_range": width.sum() / width.lengths,
            "largest_weight_range": width.values[first],
            "largest_weight_least": moved.least.values[first],
            "largest_weight_most": moved.most.values[first],
        }
        return keys(trace).with_columns(
            pl.Series("identifiable", moved.dimension == 0),
            pl.Series("null_dimension", moved.dimension.astype(np.int32)),
            *(pl.Series(name, values, nan_to_null=True) for name, values in columns.items()),
        )

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        return summarise_means(
            self.name, by_group(table, lambda rows: rows.select(MEASURES)), self.seed
        )

    @staticmethod
    def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
        row, known = (
            rows.get("identifiability", "max_tvd_alpha"),
            rows.value("identifiability", "identifiable"),
        )
        if row is None or known is None:
            return
        upper, largest = (
            rows.value("identifiability", name)
            for name in ("max_tvd_alpha_upper", "largest_weight_range")
        )
        bound = (
            ""
            if upper is None or upper - row["value"] < 5e-3
            else f"at most {figure(upper)} (upper bound); "
        )
        found = card_row(
            Identifiability.question,
            "mean largest TVD found",
            row,
            f"{bound}0: the attended sum determines the weights, 1: all weight on other tokens",
            _sentence(row["value"], known, largest, rows)
            + rows.apart("identifiability", "max_tvd_alpha", "Mean distance"),
            mark=upper,
            places=3 if row["value"] < _SHOWN else 2,
        )
        yield replace(found, figure="< 0.001") if 0 < row["value"] < 0.0005 else found


def _sentence(reach: float, known: float, largest: float | None, rows: SummaryRows) -> str:
    if known == 1.0:
        return f"The attended sum determines the attention weights in all {rows.unit}s: no other weights give the same sum."
    width = (
        ""
        if largest is None
        else f"; the largest weight can vary over a range of {amount(largest)} on average"
    )
    share = (
        f" The attended sum, of what the tokens contribute to the output, determines the weights for {percent(known)} of {rows.unit}s: it "
        "does in general where a text has at most one token more than the sum has numbers."
        if known > 0.0
        else ""
    )
    upper = rows.value("identifiability", "max_tvd_alpha_upper")
    other = f"Other weights, at a total variation distance of {amount(reach)} on average, have exactly the same output"
    if upper is not None and upper < _SHOWN:
        other = "Other weights have exactly the same output, but hardly differ: the total variation distance is less than 0.01 on average"
    return f"{other}{width}.{share}{_in_heads(rows)}"


def _in_heads(rows: SummaryRows) -> str:
    """In how many heads some text leaves the weights open, and in which the most."""
    heads = rows.of_heads("identifiability", "identifiable")
    free = {head: row for head, row in heads.items() if row["value"] < 1.0}
    if not free:
        return ""
    head, row = min(free.items(), key=lambda one: one[1]["value"])
    most = (
        f"; the most in {named(head)}, {percent(1.0 - row['value'])} of them"
        if len({one["value"] for one in free.values()}) > 1
        else ""
    )
    return f" In {len(free)} of {rows.heads} there are texts for which other weights, close or not, give exactly the same prediction{most}."
