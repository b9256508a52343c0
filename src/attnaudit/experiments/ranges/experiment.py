"""Largest and least weight that each token can have with nearly the same output."""

from dataclasses import dataclass

import polars as pl

from attnaudit.core.papers import JAIN2019, WIEGREFFE2019
from attnaudit.core.settings import Settings, setting
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.adversary.exact import one_logit_decides, slab_within
from attnaudit.experiments.ranges.line import ranges_in_slab
from attnaudit.experiments.rows import make_table, summarise_measures
from attnaudit.results import Measure
from attnaudit.trace import Trace


@dataclass(frozen=True)
class Ranges(Settings):
    """Largest and least weight of each token with the output within TVD ``epsilon``.

    The table has lists of one weight per token: ``possible`` and ``necessary`` are the largest and
    the least weight in any attention within ``epsilon``, exact where one logit decides. With
    several outputs, or behind further layers, the experiment does not apply.

    ``mean_possible`` is the mean over tokens. ``any_necessary`` tells whether some token must have
    weight. ``top_necessary`` is the necessary weight of the most attended token; if several tie,
    the largest of theirs. All are null in rows of one token.

    Attributes:
        seed: Seed of the intervals.
        epsilon: Largest change of the output.
    """

    name = "ranges"
    needs = ()
    papers = (JAIN2019, WIEGREFFE2019)
    measures = (
        Measure(
            "mean_possible",
            "mean possible weight",
            "Largest weight of a token in any attention whose output stays within ε, mean over "
            "tokens, 0 to 1.",
            "lower",
        ),
        Measure(
            "any_necessary",
            "share with a token that must be attended",
            "Share of texts where some token has a weight above 0 in every attention whose "
            "output stays within ε.",
            "higher",
        ),
        Measure(
            "top_necessary",
            "necessary weight of the most attended token",
            "Least weight of the most attended token in any attention whose output stays within ε, "
            "0 to 1.",
            "higher",
        ),
    )
    summarise = summarise_measures
    seed: int = 0
    epsilon: float = setting(
        "Largest change of the output, in TVD, that counts as nearly the same; default: as for "
        "the adversary.",
        0.01,
        least=0,
        most=1,
    )

    def refuses(self, trace: Trace) -> str | None:
        """Explain why the experiment does not apply to a trace; None if it does."""
        # A trace that was read without its tail holds the identity in its place, so the metadata
        # decide too.
        if trace.metadata["tail"] == "identity" and one_logit_decides(trace.readout):
            return None
        return "more than two classes, or further layers between the attended sum and the logit"

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the weights and their measures for each row."""
        alpha = trace.alpha
        exact = ranges_in_slab(alpha, slab_within(trace.readout, alpha, self.epsilon))
        possible, necessary = map(alpha.with_values, (exact.possible, exact.necessary))
        is_top = alpha.values == alpha.spread(alpha.max())
        measures = {
            "mean_possible": possible.sum() / alpha.lengths,
            "any_necessary": necessary.max() > TOLERANCE.solver,
            "top_necessary": alpha.with_values(necessary.values * is_top).max(),
        }
        table = make_table(trace, {"possible": possible, "necessary": necessary, **measures})
        several = pl.col("possible").list.len() > 1
        return table.with_columns(pl.when(several).then(pl.col(*measures)))
