"""Does the output change when the attention weights are shuffled? (Jain & Wallace 2019, Algorithm 2)"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum

import numpy as np
import polars as pl
from jaxtyping import UInt64

from attnaudit.core.errors import InputError
from attnaudit.core.papers import JAIN2019
from attnaudit.core.settings import setting
from attnaudit.experiments.rows import keys, require, row_streams, words_of
from attnaudit.experiments.shuffles import median_delta_y
from attnaudit.results import summarise_means, summarise_ratios
from attnaudit.results.groups import Together, by_group, numbers_of
from attnaudit.results.measures import Measure
from attnaudit.trace import Trace

MOST_PERMUTATIONS = (
    1_000_000  # every thread keeps as many numbers; a median is exact enough long before
)
_BINS = 1 << 14
_MEANS = ("median_delta_y", "median_delta_y_words", "max_alpha", "median_error", "shuffles")
_RELIABILITY = {"seed_correlation": ("beyond noise", "nothing", "all")}


@dataclass(frozen=True)
class Permutation:
    """Median over random orders of the attention weights of the TVD to the output under the model's own attention.

    ``permutations`` is how many orders are drawn of every row, 100 in the paper. None draws as many as the Monte Carlo error needs: 200,
    doubled until the standard error of the row's median is at most ``error``, or to 12,800; of rows of up to 6 tokens all orders are
    taken; behind a tail, where a shuffle costs a pass through it, 100.

    The table has ``median_delta_y``, ``max_alpha``, the largest weight, ``median_error``, the standard error of the median over draws, and
    ``shuffles``, their number. In a text that has special tokens (``special``), ``median_delta_y_words`` is the median where these
    keep their weights and those of the other tokens are shuffled.
    """

    name = "permutation"
    needs = ()
    papers = (JAIN2019,)
    measures = (
        Measure(
            "median_delta_y",
            "median change of output over shuffles, Δŷ",
            "Median total variation distance between the output and the output under shuffled attention weights, 0 to 1; 0 for a text "
            "of one token.",
            "higher",
        ),
        Measure(
            "median_delta_y_words",
            "median change of output over shuffles among words, Δŷ",
            "The same where special tokens, such as [CLS] and [SEP], keep their weights, 0 to 1.",
            "higher",
        ),
        Measure(
            "max_alpha",
            "largest attention weight",
            "Largest attention weight of an instance, 0 to 1.",
        ),
        Measure(
            "median_error",
            "Monte Carlo error of the median Δŷ",
            "Standard error of an instance's median over draws of the shuffles.",
        ),
        Measure("shuffles", "shuffles drawn", "Number of shuffles of an instance."),
        Measure(
            "seed_correlation",
            "expected correlation of the median Δŷ between two seeds of the shuffles",
            "1 minus the share of Monte Carlo error in the variance of the median over instances.",
        ),
    )
    seed: int = 0
    permutations: int | None = setting(
        "Number of shuffles per row; none: as many as permutation.error needs.", None
    )
    error: float = setting(
        "Target Monte Carlo standard error of the median of each row, where permutations is none.",
        0.01,
    )

    def __post_init__(self) -> None:
        if self.permutations is not None and not 1 <= self.permutations <= MOST_PERMUTATIONS:
            expected = f"a whole number from 1 to {MOST_PERMUTATIONS}, or none for as many as permutation.error needs"
            raise InputError(
                "audit", "setting permutation.permutations", str(self.permutations), expected
            )
        require(self, "error", 0 < self.error <= 1, "a standard error above 0, up to 1")

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        streams = row_streams(trace, self.seed, self.name)
        found = median_delta_y(trace.readout, trace.alpha, streams, self.permutations, self.error)
        return keys(trace).with_columns(
            pl.Series("median_delta_y", found.median),
            pl.Series("max_alpha", trace.alpha.max()),
            pl.Series("median_error", found.error, nan_to_null=True),
            pl.Series("shuffles", found.draws.astype("int32")),
            *self._among_words(trace, streams),
        )

    def _among_words(self, trace: Trace, streams: UInt64[np.ndarray, " n"]) -> list[pl.Series]:
        """The median where special tokens keep their weights; null where all tokens are special, and where none is."""
        if not trace.has("special"):
            return []
        words, some = words_of(trace)
        median, rows = np.full(len(trace), np.nan), np.flatnonzero(some)
        if len(rows):
            readout, alpha = trace.readout.take(rows).of_part(
                trace.alpha.take(rows), words.take(rows).values
            )
            median[rows] = median_delta_y(
                readout, alpha, streams[rows], self.permutations, self.error
            ).median
        return [pl.Series("median_delta_y_words", median, nan_to_null=True)]

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        """Summarise the table with intervals."""
        means = summarise_means(self.name, by_group(table, self.of_rows), self.seed)
        if "median_error" not in table.lazy().collect_schema().names():
            return means
        return pl.concat(
            [
                means,
                summarise_ratios(
                    self.name,
                    by_group(table, _noise, together=(_SQUARED,)),
                    _RELIABILITY,
                    self.seed,
                ),
            ]
        )

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """What the table has; that of an earlier version has no error."""
        return table.select(name for name in _MEANS if name in table.collect_schema().names())


_SQUARED = Together(  # the same of a large table, whose medians are counted in bins
    "squared",
    lambda rows: numbers_of(rows.select("median_delta_y")),
    lambda median: np.rint(median * _BINS),
    _BINS + 1,
    lambda median, rows: (median - np.average(median, weights=rows)) ** 2,
)


def _noise(table: pl.LazyFrame) -> pl.LazyFrame:
    """Of every row the squared distance of its median from their mean, and that less its Monte Carlo variance."""
    squared = pl.col("squared")
    if "squared" not in table.collect_schema().names():
        squared = pl.col("median_delta_y").map_batches(
            lambda median: (median - fsum(median) / len(median)) ** 2
        )  # in any order of rows
    return table.select(
        (squared - pl.col("median_error") ** 2).alias("beyond noise"),
        pl.lit(0.0).alias("nothing"),
        squared.alias("all"),
    )
