"""How much can attention change the output at all?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core.papers import JAIN2019, SERRANO2019
from attnaudit.experiments.maximal_change.bounds import change_bound
from attnaudit.experiments.maximal_change.found import Alone, is_mixed, largest_change, one_head
from attnaudit.experiments.rows import keys, no_single_decision, words_of
from attnaudit.experiments.through_tail import Outputs
from attnaudit.results import summarise_means
from attnaudit.results.groups import by_group
from attnaudit.results.measures import Measure
from attnaudit.trace import Trace

PROVEN_GAP = 1e-3


@dataclass(frozen=True)
class MaximalChange:
    """The largest change of the output (TVD) that any attention causes, and whether some attention flips the decision.

    ``max_delta_y`` is the largest change found, ``max_delta_y_upper`` what no attention exceeds, ``max_delta_y_proven`` whether the
    two meet to 1e-3. ``token`` and its ``position`` are the single token that changes the output most when it has all attention.
    ``flips`` is whether another class is likelier under some attention: with an identity tail exactly, else as far as it is found. In a
    text that has special tokens (``special``), ``max_delta_y_words`` is the largest change found with all attention on the others.
    """

    name = "maximal_change"
    needs = ()
    papers = (JAIN2019, SERRANO2019)
    measures = (
        Measure(
            "max_delta_y",
            "largest change of output by any attention found, Δŷ",
            "Largest total variation distance found between the output and the output under "
            "another attention, 0 to 1; 0 for a text "
            "of one token.",
            "higher",
        ),
        Measure(
            "max_delta_y_upper",
            "largest change of output by any attention, upper bound",
            "Change of the output, in total variation distance, that no attention exceeds, 0 to 1.",
        ),
        Measure(
            "max_delta_y_proven",
            "share where the largest change found meets its bound",
            "Share of instances whose largest change of the output is proven to 1e-3.",
        ),
        Measure(
            "flips",
            "share that some attention flips",
            "Share of instances where another class is likelier under some attention: exact with "
            "an identity tail, else found.",
            "higher",
        ),
        Measure(
            "max_delta_y_words",
            "largest change of output by attention to words alone, Δŷ",
            "Largest change found with no attention on special tokens, such as [CLS] and [SEP], 0 "
            "to 1.",
            "higher",
        ),
    )
    seed: int = 0
    refuses = staticmethod(no_single_decision)

    def __call__(self, trace: Trace) -> pl.DataFrame:
        outputs, alone, change = one_head(trace)
        upper = np.maximum(
            change_bound(outputs, np.ones(len(trace.alpha.values), bool)), change.largest
        )
        tokens = pl.Series(trace.table.column("tokens")).list.get(pl.Series(change.position))
        return keys(trace).with_columns(
            pl.Series("max_delta_y", change.largest),
            pl.Series("max_delta_y_upper", upper),
            pl.Series("max_delta_y_proven", upper - change.largest <= PROVEN_GAP),
            pl.Series("flips", change.flips),
            pl.Series("position", change.position.astype(np.int32)),
            tokens.cast(pl.String).alias("token"),
            *self._of_words(trace, outputs, alone, change.largest),
        )

    @staticmethod
    def _of_words(
        trace: Trace, outputs: Outputs, alone: Alone, largest: Float[np.ndarray, " n"]
    ) -> list[pl.Series]:
        """The largest change by attention to the tokens that are not special; null where all are, and where none
        is.

        It is the ``largest`` of all where that is made of none of these.
        """
        if not trace.has("special"):
            return []
        words, some = words_of(trace)
        found = np.where(some, largest, np.nan)
        again = np.flatnonzero(
            some & words.with_values(is_mixed(outputs, alone) & ~words.values).reduce(np.logical_or)
        )
        of_rows, part = trace.alpha.positions(again), outputs.take(again)
        found[again] = largest_change(
            part, Alone(*(values[of_rows] for values in alone)), words.values[of_rows]
        ).largest
        return [pl.Series("max_delta_y_words", found, nan_to_null=True)]

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        known = [
            measure.name
            for measure in self.measures
            if measure.name in table.lazy().collect_schema().names()
        ]
        return summarise_means(
            self.name, by_group(table, lambda rows: rows.select(known)), self.seed
        )
