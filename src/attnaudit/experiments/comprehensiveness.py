"""Are the tokens that a score ranks first needed for the output, and enough for it?

Source: ERASER, DeYoung et al. 2020.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core.papers import DEYOUNG2020
from attnaudit.core.settings import Settings, setting
from attnaudit.core.shapes import PerRow, RowInts
from attnaudit.experiments.confidence import at_same_confidence
from attnaudit.experiments.erasure.experiment import MOST_ORDERS
from attnaudit.experiments.erasure.falls import falls
from attnaudit.experiments.rows import (
    against_heatmap,
    differences,
    judged_scores,
    make_table,
    no_single_decision,
    row_streams,
    summarise_measures,
)
from attnaudit.results import SIGNED, Measure
from attnaudit.stats.measures import ERASURE_WAYS as WAYS
from attnaudit.trace import Trace

_KINDS: tuple[tuple[str, str, Literal["higher", "lower"]], ...] = (
    ("matched_comprehensiveness", "comprehensiveness at 90 % confidence", "higher"),
    ("input_comprehensiveness", "comprehensiveness by deletion from the input", "higher"),
    ("input_sufficiency", "sufficiency by deletion from the input", "lower"),
    ("input_replacement", "comprehensiveness by replacement in the input", "higher"),
    ("comprehensiveness", "comprehensiveness", "higher"),
    ("sufficiency", "sufficiency", "lower"),
)


@dataclass(frozen=True)
class Comprehensiveness(Settings):
    """Fall of the predicted probability without the tokens of highest score, or with only them.

    The tokens are removed from the attention, and the other weights are rescaled to sum to 1. The
    encoder does not run again. Scores are ``attention``, ``gradient``, ``loo``, each
    ``importance_<name>``, and ``random``, the mean over random orders, also if there is a column of
    this name.

    ``comprehensiveness_<score>`` is high if the tokens are needed, and ``sufficiency_<score>`` is
    low if they are enough. Both are means over the top 1, 5, 10, 20 and 50 % of the tokens, at
    least one; ``<measure>_at_<score>`` has the five numbers.

    ``matched_comprehensiveness_<score>``, for attention and random order, is the same if the logits
    of each row are scaled until the predicted class has probability 0.9, so that it does not depend
    on how confident the model is. It is null unless the attended sums are the logits.

    ``input_<measure>_<score>`` are the same falls if the tokens are deleted from the text and the
    model runs again. They need a trace collected with ``collect.erase_input``.
    ``input_replacement_<score>`` is the fall with words of other texts in place of the top ones; it
    is all that a trace without attention has.

    Rows of one position, and removals that leave no weight, are null.

    Attributes:
        seed: Seed of the random orders, and of the resampling of intervals.
        orders: Number of random orders.
    """

    name = "comprehensiveness"
    of_scores = True
    needs = ()
    reserved = ("attention", "gradient", "loo")
    papers = (DEYOUNG2020,)
    measures = (
        *(
            Measure(
                f"{kind}_{{score}}_minus_{kind}_{{score}}",
                f"{label}, {{score}} minus {{score}}, paired",
                f"{label.capitalize()} of one score minus that of another, over the same texts.",
                direction,
            )
            for kind, label, direction in _KINDS
        ),
        Measure(
            "matched_comprehensiveness_{score}",
            "fall from 90 % without the top tokens, {score}",
            "Comprehensiveness with the logits of each text scaled until the predicted class has "
            "probability 0.9.",
            "higher",
            range=SIGNED,
        ),
        Measure(
            "input_comprehensiveness_{score}",
            "fall of the predicted probability, top tokens deleted from the input, {score}",
            "Comprehensiveness with the tokens deleted from the input and the model run again.",
            "higher",
            range=SIGNED,
        ),
        Measure(
            "input_replacement_{score}",
            "fall of the predicted probability, top words replaced in the input, {score}",
            "Comprehensiveness with words of other texts in place of the top ones.",
            "higher",
            range=SIGNED,
        ),
        Measure(
            "input_sufficiency_{score}",
            "fall of the predicted probability, input of only the top tokens, {score}",
            "Sufficiency with the other tokens deleted from the input and the model run again.",
            "lower",
            range=SIGNED,
        ),
        Measure(
            "comprehensiveness_{score}",
            "fall of the predicted probability without the top tokens (AOPC), {score}",
            "Fall of the predicted class's probability without the top 1, 5, 10, 20 and 50 % of "
            "tokens, mean of the five.",
            "higher",
            range=SIGNED,
        ),
        Measure(
            "sufficiency_{score}",
            "fall of the predicted probability with only the top tokens (AOPC), {score}",
            "Fall of the predicted class's probability with only the top 1, 5, 10, 20 and 50 % "
            "of tokens, mean of the five.",
            "lower",
            range=SIGNED,
        ),
    )
    summarise = summarise_measures
    seed: int = 0
    orders: int = setting(
        "Number of random orders; their mean is the reference.", 5, least=1, most=MOST_ORDERS
    )

    def refuses(self, trace: Trace) -> str | None:
        """Explain why the experiment does not apply to a trace; None if it does."""
        # Column ``<measure>_at_x`` holds five numbers of score x, so no score may be called "at_x".
        if clashing := [name for name in trace.table.columns if name.startswith("importance_at_")]:
            return f"the name of column {', '.join(clashing)} begins like the numbers of a score"
        of_input = _of_input(trace)
        if not (of_input or trace.has("alpha")):
            return "the trace has neither attention nor changes of the text"
        for name in of_input:
            kind = trace.table.schema[name]
            if not (isinstance(kind, pl.List | pl.Array) and kind.inner.is_numeric()):
                return f"column {name} holds {kind}; it needs a list of numbers for every row"
        return no_single_decision(trace)

    def passes(self, tokens: RowInts, heads: int) -> PerRow:
        """Estimate how many outputs of a network each row asks for, by its tokens."""
        return 0.0 * tokens + 10.0 * (self.orders + 6.0)

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Remove the top tokens of each score from each row of a trace."""
        columns = self._of_attention(trace) if trace.has("alpha") else {}
        for name in _of_input(trace):
            columns[name] = trace.table[name].cast(pl.List(pl.Float64)).list.mean().fill_nan(None)
        return make_table(trace, columns)

    def _of_attention(self, trace: Trace) -> dict[str, np.ndarray | pl.Series]:
        """Measure the falls when tokens are removed from the attention."""
        readout, alpha, scores = trace.readout, trace.alpha, judged_scores(trace)
        streams = row_streams(trace, self.seed, self.name)
        by_score = falls(readout, alpha, scores, streams, self.orders)
        columns: dict[str, np.ndarray | pl.Series] = {}
        for k, way in enumerate(WAYS):
            columns |= {f"{way}_{name}": fall[:, k].mean(axis=1) for name, fall in by_score.items()}
            columns |= {f"{way}_at_{name}": fall[:, k] for name, fall in by_score.items()}
        matched = at_same_confidence(trace)
        if matched is not None:
            by_score = falls(matched.readout, alpha, {"attention": alpha}, streams, self.orders)
            columns |= {
                f"matched_comprehensiveness_{name}": matched.of_decided(fall[:, 0].mean(axis=1))
                for name, fall in by_score.items()
            }
        return columns

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """Select the measures of each row, with the heatmap's lead over every other score."""
        families = [kind for kind, _, _ in _KINDS]
        measures = table.select(cs.starts_with(*families) & ~cs.nested())
        names = measures.collect_schema().names()
        return measures.with_columns(differences(*against_heatmap(names, families)))


def _of_input(trace: Trace) -> list[str]:
    """List the columns about tokens deleted from the input, or replaced in it."""
    return [
        name
        for name in trace.table.columns
        if name.startswith(tuple(f"input_{way}_" for way in (*WAYS, "replacement")))
    ]
