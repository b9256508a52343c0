"""Attention weights with exactly the same attended sum (Brunner et al. 2020)."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from attnaudit.core.papers import BRUNNER2020
from attnaudit.core.settings import Settings
from attnaudit.experiments.identifiability.null_space import movements
from attnaudit.experiments.rows import (
    make_table,
    summarise_measures,
)
from attnaudit.results import Measure
from attnaudit.trace import Trace


@dataclass(frozen=True)
class Identifiability(Settings):
    """Freedom of attention while the attended sum, and so the output, stays exactly the same.

    ``null_dimension`` is the dimension of the changes of attention that leave the attended sum
    unchanged, ``null_share`` its share of the T − 1 dimensions of all changes, and ``identifiable``
    tells whether it is 0. ``max_tvd_alpha`` is the largest total variation distance found to an
    attention with the same sum, and ``max_tvd_alpha_upper`` bounds the distance to any of them.
    ``weight_range`` is the mean width of a weight's range over the four most attended
    positions. ``largest_weight_range`` is the width for the largest weight, from
    ``largest_weight_least`` to ``largest_weight_most``.

    Ranges and distances are null in rows whose linear programs would take seconds.

    Attributes:
        seed: Seed of the resampling of intervals.
    """

    name = "identifiability"
    needs = ()
    papers = (BRUNNER2020,)
    measures = (
        Measure(
            "identifiable",
            "share whose attended sum determines the weights",
            "Share of texts where no other attention has the same attended sum.",
            "higher",
        ),
        Measure(
            "null_dimension",
            "dimensions of attention that change no output",
            "Dimension of the changes of attention that leave the attended sum as it is.",
            "lower",
            range=None,
        ),
        Measure(
            "null_share",
            "share of the dimensions of attention that change no output",
            "Dimension of the changes that leave the attended sum as it is, over the T − 1 of all "
            "changes.",
            "lower",
        ),
        Measure(
            "max_tvd_alpha",
            "largest distance of an attention with the same attended sum, found",
            "Largest total variation distance found from the attention to one with the same "
            "attended sum, 0 to 1.",
            "lower",
        ),
        Measure(
            "max_tvd_alpha_upper",
            "largest distance of an attention with the same attended sum, upper bound",
            "Total variation distance that no attention with the same attended sum exceeds, 0 to "
            "1.",
        ),
        Measure(
            "weight_range",
            "mean width of the range of a weight",
            "Width of the range of each weight among attentions with the same attended sum, mean "
            "over the most attended tokens.",
            "lower",
        ),
        Measure(
            "largest_weight_range",
            "width of the range of the largest weight",
            "Width of the range of the largest weight among attentions with the same attended "
            "sum, 0 to 1.",
            "lower",
        ),
    )
    summarise = summarise_measures
    seed: int = 0

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the freedom of attention for each row."""
        alpha = trace.alpha
        moved = movements(trace.readout.contribution, alpha)
        width = moved.least.with_values(moved.most.values - moved.least.values)
        # The positions of a row come in the order of attention, the largest weight first.
        first = width.offsets[:-1]
        columns = {
            "identifiable": moved.dimension == 0,
            "null_dimension": moved.dimension.astype(np.int32),
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
        return make_table(trace, columns)
