"""Does the output change when the attention weights are shuffled?

Source: Jain & Wallace 2019, Algorithm 2.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from attnaudit.core.papers import JAIN2019
from attnaudit.core.settings import Settings, setting
from attnaudit.core.shapes import PerRow, RowInts
from attnaudit.experiments.confidence import at_same_confidence
from attnaudit.experiments.rows import (
    make_table,
    mixed_rows,
    row_streams,
    summarise_measures,
    words_of,
)
from attnaudit.experiments.shuffles import BEHIND_A_TAIL, OF_MODEL, median_delta_y
from attnaudit.results import Measure
from attnaudit.trace import Trace


@dataclass(frozen=True)
class Permutation(Settings):
    """Median TVD between the output and the output under shuffled attention weights.

    The table has ``median_delta_y``, its standard error over draws ``median_error``, the number of
    ``shuffles``, and the largest weight ``max_alpha``. For traces with special tokens,
    ``median_delta_y_words`` is the median if these keep their weights and only the weights of the
    other tokens are shuffled.

    ``matched_delta_y`` is the median if the logits of each row are scaled until the predicted class
    has probability 0.9, so that it does not depend on how confident the model is. It is null unless
    the attended sums are the logits. ``alpha_from_uniform`` is the TVD of attention from uniform
    weights, which unlike the largest weight does not depend on the length of the text.

    Attributes:
        permutations: Shuffles per row, 100 in the paper. None draws 200 and doubles them until the
            standard error of the row's median is at most ``error``, up to 12,800. Rows of up to 6
            tokens then get all orders. Traces with a tail get 100 shuffles, because each is a pass
            through the tail; where the model is run again 25, doubled to 100 at most.
        error: Standard error to reach.
    """

    name = "permutation"
    needs = ()
    papers = (JAIN2019,)
    measures = (
        Measure(
            "median_delta_y",
            "median change of output over shuffles, Δŷ",
            "Median total variation distance between the output and the output under shuffled "
            "attention weights, 0 to 1.",
            "higher",
        ),
        Measure(
            "matched_delta_y",
            "median change of output over shuffles at 90 % confidence, Δŷ",
            "The same with the logits of each text scaled until the predicted class has "
            "probability 0.9.",
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
            "Largest attention weight of a text, 0 to 1.",
        ),
        Measure(
            "alpha_from_uniform",
            "distance of attention from uniform weights",
            "Total variation distance of the attention of a text from uniform weights, 0 to 1.",
        ),
        Measure(
            "median_error",
            "Monte Carlo error of the median Δŷ",
            "Standard error of a text's median over draws of the shuffles.",
        ),
        Measure("shuffles", "shuffles drawn", "Number of shuffles of a text.", range=None),
    )
    summarise = summarise_measures
    seed: int = 0
    permutations: int | None = setting(
        "Number of shuffles per row; none: as many as permutation.error needs.",
        None,
        least=1,
        most=1_000_000,
    )
    error: float = setting(
        "Target Monte Carlo standard error of the median of each row, where permutations is none.",
        0.01,
        above=0,
        most=1,
    )

    def passes(self, tokens: RowInts, heads: int) -> PerRow:
        """Estimate how many outputs of a network each row asks for, by its tokens."""
        return 0.0 * tokens + 2.0 * (self.permutations or OF_MODEL[0])

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        streams, draws = row_streams(trace, self.seed, self.name), (self.permutations, self.error)
        shuffled = median_delta_y(trace.readout, trace.alpha, streams, *draws)
        above = np.maximum(trace.alpha.values - 1.0 / trace.alpha.spread(trace.alpha.lengths), 0.0)
        columns = {
            "median_delta_y": shuffled.median,
            "max_alpha": trace.alpha.max(),
            "alpha_from_uniform": trace.alpha.with_values(above).sum(),
            "median_error": shuffled.error,
            "shuffles": shuffled.draws.astype("int32"),
        }
        matched = at_same_confidence(trace)
        if matched is not None:
            # As many as in the paper: its error averages out, and no row is concluded from alone.
            count = self.permutations or BEHIND_A_TAIL
            change = median_delta_y(matched.readout, trace.alpha, streams, count)
            columns["matched_delta_y"] = matched.of_decided(change.median)
        if not trace.has("special"):
            return make_table(trace, columns)
        words, median = words_of(trace), np.full(len(trace), np.nan)
        rows = mixed_rows(words)
        if len(rows):
            # Special tokens keep their weights, so their contributions join the offset.
            part = words.take(rows).values
            readout, alpha = trace.readout.take(rows).of_part(trace.alpha.take(rows), part)
            median[rows] = median_delta_y(readout, alpha, streams[rows], *draws).median
        return make_table(trace, columns | {"median_delta_y_words": median})
