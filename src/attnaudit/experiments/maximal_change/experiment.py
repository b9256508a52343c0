"""Largest change of the output by any attention."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from attnaudit.core.papers import JAIN2019, SERRANO2019
from attnaudit.core.shapes import PerRow, RowInts
from attnaudit.experiments.confidence import at_same_confidence
from attnaudit.experiments.maximal_change.bounds import change_bound
from attnaudit.experiments.maximal_change.search import Singles, largest_change, single_tokens
from attnaudit.experiments.rows import (
    make_table,
    mixed_rows,
    no_single_decision,
    summarise_measures,
    words_of,
)
from attnaudit.experiments.through_tail import Outputs
from attnaudit.results import Measure
from attnaudit.trace import Trace

# Above the rounding of any tail, and far below a change that matters (0.15).
PROVEN_GAP = 1e-3


@dataclass(frozen=True)
class MaximalChange:
    """Largest change of the output (TVD) that any attention causes.

    ``max_delta_y`` is the largest change found, and ``max_delta_y_upper`` bounds the change by any
    attention. ``max_delta_y_proven`` tells whether the two agree to 1e-3.
    ``matched_max_delta_y_upper`` is the bound if the logits of each row are scaled until the
    predicted class has probability 0.9. It is null unless the attended sums are the logits.
    ``token``, at ``position``, is the single token that changes the output most if it has all
    attention. ``flips`` tells whether another class is likelier under some attention: exactly with
    an identity tail, and otherwise if the search finds such attention. For texts with special
    tokens (``special``), ``max_delta_y_words`` is the largest change found with all attention on
    the other tokens.

    Attributes:
        seed: Seed of the resampling of intervals.
    """

    name = "maximal_change"
    needs = ()
    papers = (JAIN2019, SERRANO2019)
    measures = (
        Measure(
            "max_delta_y",
            "largest change of output by any attention found, Δŷ",
            "Largest total variation distance found between the output and the output under "
            "another attention, 0 to 1.",
            "higher",
        ),
        Measure(
            "max_delta_y_upper",
            "largest change of output by any attention, upper bound",
            "Change of the output, in total variation distance, that no attention exceeds, 0 to 1.",
        ),
        Measure(
            "matched_max_delta_y_upper",
            "largest change of output by any attention at 90 % confidence, upper bound",
            "The same with the logits of each text scaled until the predicted class has "
            "probability 0.9.",
        ),
        Measure(
            "max_delta_y_proven",
            "share where the largest change found meets its bound",
            "Share of texts whose largest change of the output is proven to 1e-3.",
        ),
        Measure(
            "flips",
            "share that some attention flips",
            "Share of texts where another class is likelier under some attention: exact with "
            "an identity tail, else found.",
            "higher",
        ),
        Measure(
            "max_delta_y_words",
            "largest change of output by attention to words only, Δŷ",
            "Largest change found with no attention on special tokens, such as [CLS] and [SEP], 0 "
            "to 1.",
            "higher",
        ),
    )
    summarise = summarise_measures
    seed: int = 0
    refuses = staticmethod(no_single_decision)

    def passes(self, tokens: RowInts, heads: int) -> PerRow:
        """Estimate how many outputs of a network each row asks for, by its tokens."""
        return tokens + 36.0  # mixtures, of all tokens and of words

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Search and bound the largest change for each row."""
        outputs = Outputs.of(trace.readout, trace.alpha)
        singles = single_tokens(outputs)
        change = largest_change(outputs, singles)
        # Rounding must not put the bound below a change that was found.
        upper = np.maximum(change_bound(outputs), change.largest)
        tokens = trace.table["tokens"].list.get(pl.Series(change.position))
        columns = {
            "max_delta_y": change.largest,
            "max_delta_y_upper": upper,
            "max_delta_y_proven": upper - change.largest <= PROVEN_GAP,
            "flips": change.flips,
            "position": change.position.astype(np.int32),
            "token": tokens.cast(pl.String),
        }
        matched = at_same_confidence(trace)
        if matched is not None:
            bound = change_bound(Outputs.of(matched.readout, trace.alpha))
            columns["matched_max_delta_y_upper"] = matched.of_decided(bound)
        if trace.has("special"):
            words = words_of(trace)
            rows = mixed_rows(words)
            # Changes by single tokens do not depend on which tokens are allowed.
            allowed = singles._replace(change=np.where(words.values, singles.change, -1.0))
            part = Singles(*(values[trace.alpha.positions(rows)] for values in allowed))
            of_words = np.full(len(trace), np.nan)
            of_words[rows] = largest_change(outputs.take(rows), part).largest
            columns["max_delta_y_words"] = of_words
        return make_table(trace, columns)
