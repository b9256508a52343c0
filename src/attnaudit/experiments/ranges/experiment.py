"""Largest and least weight that each token can have with nearly the same output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Bool, Int64

from attnaudit.core.papers import JAIN2019, WIEGREFFE2019
from attnaudit.core.settings import Settings, setting
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.adversary.exact import one_logit_decides, slab_within
from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.experiments.ranges.half_spaces import RowLogits, most_half_spaces
from attnaudit.experiments.ranges.line import ranges_in_slab
from attnaudit.experiments.ranges.search import Bounds, weight_bounds
from attnaudit.experiments.rows import (
    list_column,
    make_table,
    no_single_decision,
    row_streams,
    summarise_measures,
)
from attnaudit.experiments.through_tail import through_network
from attnaudit.results.measures import Measure
from attnaudit.trace import Trace

# Largest T² · half-spaces of a row whose programs are solved. They take about half a second.
LARGEST = 500_000


@dataclass(frozen=True)
class Ranges(Settings):
    """Largest and least weight of each token with the output within TVD ``epsilon``.

    The table has lists of one weight per token. ``possible`` and ``necessary`` are the largest and
    the least weight found in any attention within ``epsilon``; ``possible_upper`` and
    ``necessary_lower`` are bounds that no such attention passes. If one logit decides, weights and
    bounds are the same and exact. With several outputs, or behind a tanh tail, a search finds the
    weights and linear programs bound them, for a ``share`` of the rows.

    ``mean_possible`` is the mean over tokens. ``any_necessary`` tells whether some token must have
    weight. ``top_necessary`` is the necessary weight of the most attended token; if several tie,
    the largest of theirs. The bounds are ``mean_possible_upper``, ``any_necessary_upper`` (no
    attention without the token was found) and ``top_necessary_lower``. All are null in rows of one
    token, in rows that were not drawn, and in rows whose programs would take too long.

    Attributes:
        seed: Seed of the draw of rows.
        epsilon: Largest change of the output.
        share: Share of the rows that are solved by search and programs.
    """

    name = "ranges"
    needs = ()
    papers = (JAIN2019, WIEGREFFE2019)
    measures = (
        Measure(
            "mean_possible",
            "mean possible weight",
            "Largest weight of a token in any attention found whose output stays within ε, mean "
            "over tokens, 0 to 1.",
            "lower",
        ),
        Measure(
            "mean_possible_upper",
            "mean possible weight, upper bound",
            "Weight that a token exceeds in no attention whose output stays within ε, mean over "
            "tokens, 0 to 1.",
        ),
        Measure(
            "any_necessary",
            "share with a token that must be attended",
            "Share of texts where some token has a weight above 0 in every attention whose "
            "output stays within ε.",
            "higher",
        ),
        Measure(
            "any_necessary_upper",
            "share with a token that must be attended, upper bound",
            "Share of texts where some token has a weight above 0 in every attention found "
            "whose output stays within ε.",
        ),
        Measure(
            "top_necessary",
            "necessary weight of the most attended token",
            "Least weight of the most attended token in any attention found whose output stays "
            "within ε, 0 to 1.",
            "higher",
        ),
        Measure(
            "top_necessary_lower",
            "necessary weight of the most attended token, lower bound",
            "Weight that the most attended token has at least in every attention whose output "
            "stays within ε, 0 to 1.",
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
    share: float = setting(
        "With several outputs, or behind a tanh tail: share of the rows to solve, drawn with the "
        "seed.",
        0.1,
        above=0,
        most=1,
    )

    def refuses(self, trace: Trace) -> str | None:
        """Explain why the experiment does not apply to a trace; None if it does."""
        return through_network(trace) or no_single_decision(trace)

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the weights and their measures for each row."""
        alpha, readout = trace.alpha, trace.readout
        solved = np.ones(len(trace), bool)
        if one_logit_decides(readout):
            exact = ranges_in_slab(alpha, slab_within(readout, alpha, self.epsilon))
            # In closed form the weights found are their own bounds.
            bounds = Bounds(exact.possible, exact.necessary, exact.possible, exact.necessary)
        else:
            solved = self._solved(trace)
            bounds = self._search(trace, np.flatnonzero(solved))
        table = make_table(trace, {}).with_columns(
            pl.when(pl.Series(solved))
            .then(list_column(name, alpha.with_values(weights)))
            .alias(name)
            for name, weights in bounds._asdict().items()
        )
        is_top = alpha.with_values((alpha.values == alpha.spread(alpha.max())).astype(float))
        top = list_column("top", is_top)
        measures = {
            "mean_possible": pl.col("possible").list.mean(),
            "mean_possible_upper": pl.col("possible_upper").list.mean(),
            "any_necessary": pl.col("necessary_lower").list.max() > TOLERANCE.solver,
            "any_necessary_upper": pl.col("necessary").list.max() > TOLERANCE.solver,
            "top_necessary": (pl.col("necessary") * top).list.max(),
            "top_necessary_lower": (pl.col("necessary_lower") * top).list.max(),
        }
        several = pl.col("possible").list.len() > 1
        return table.with_columns(
            pl.when(several).then(measure).alias(name) for name, measure in measures.items()
        )

    def _solved(self, trace: Trace) -> Bool[np.ndarray, " n"]:
        """Mark the rows that are drawn and whose programs are small enough."""
        # The upper 53 bits of a stream's key make a float64 in [0, 1). Each row is drawn by itself,
        # so the choice does not depend on shards.
        uniform = (row_streams(trace, self.seed, self.name) >> np.uint64(11)) * 2.0**-53
        if trace.candidates is None:
            classes = np.full(len(trace), max(trace.prediction.shape[1], 2))
        else:
            classes = trace.candidates.sum(axis=1)
        numbers = trace.alpha.lengths**2 * [most_half_spaces(count) for count in classes.tolist()]
        return (uniform < self.share) & (numbers <= LARGEST)

    def _search(self, trace: Trace, rows: Int64[np.ndarray, " m"]) -> Bounds:
        """Search and bound the weights of ``rows``; those of the other rows are NaN."""
        alpha, some = trace.alpha, trace.take(rows)
        bounds = np.full((len(Bounds._fields), len(alpha.values)), np.nan)
        # The adversary's attention counts too, so that it shows no weight beyond the range.
        furthest = Adversary(epsilon=self.epsilon).bounded(some, self.epsilon).attention
        for number, row in enumerate(rows.tolist()):
            logits = RowLogits.from_readout(some.readout, some.alpha[number], number)
            weights = weight_bounds(logits, self.epsilon, furthest[number])
            bounds[:, alpha.offsets[row] : alpha.offsets[row + 1]] = weights
        return Bounds(*bounds)
