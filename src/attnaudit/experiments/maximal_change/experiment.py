"""How much can attention change the output at all?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core.papers import JAIN2019, SERRANO2019
from attnaudit.experiments.maximal_change.bounds import change_bound
from attnaudit.experiments.maximal_change.found import Alone, is_mixed, largest_change, one_head
from attnaudit.experiments.rows import keys, no_single_decision, of_kept_words, words_of
from attnaudit.experiments.through_tail import Outputs
from attnaudit.results import summarise_means
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import FigureSpec, Histogram, Marker, Scale
from attnaudit.results.groups import by_group
from attnaudit.results.heads import named
from attnaudit.results.measures import Measure
from attnaudit.results.words import figure, interval, percent
from attnaudit.trace import Trace

PROVEN_GAP = 1e-3
MATTERS = (
    0.15  # a change of probability from which on the output is said to depend on the attention
)


def _markers(rows: pl.DataFrame) -> Sequence[Marker]:
    upper = (
        rows["max_delta_y_upper"].fill_nan(None).mean()
        if "max_delta_y_upper" in rows.columns
        else None
    )
    return (
        (Marker(upper, "mean upper bound", after=upper < 0.5),) if isinstance(upper, float) else ()
    )


_CAPTION = (
    "Largest total variation distance between the output and the output under another attention, found by a search: all attention on one "
    "token, or a mixture of few. Where it is small, the weights cannot matter much to the output."
)


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
    question = "How much can attention change the output at all?"
    papers = (JAIN2019, SERRANO2019)
    measures = (
        Measure(
            "max_delta_y",
            "largest change of output by any attention found, Δŷ",
            "Largest total variation distance found between the output and the output under another attention, 0 to 1; 0 for a text "
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
            "Share of instances where another class is likelier under some attention: exact with an identity tail, else found.",
            "higher",
        ),
        Measure(
            "max_delta_y_words",
            "largest change of output by attention to words alone, Δŷ",
            "Largest change found with no attention on special tokens, such as [CLS] and [SEP], 0 to 1.",
            "higher",
        ),
    )
    figures = (
        FigureSpec(
            "maximal-change",
            question,
            (Histogram("max_delta_y", Scale("largest Δŷ found"), markers=_markers),),
            _CAPTION,
            reads=("max_delta_y_upper",),
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

    @staticmethod
    def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
        row, upper = (
            rows.get("maximal_change", "max_delta_y"),
            rows.value("maximal_change", "max_delta_y_upper"),
        )
        if row is None:
            return
        shuffled = rows.get("permutation", "median_delta_y")
        compared = (
            ""
            if shuffled is None
            else f"shuffled weights {figure(shuffled['value'], 3)} {interval(shuffled, 3)}; "
        )
        yield card_row(
            MaximalChange.question,
            "mean largest Δŷ found",
            row,
            f"{compared}1: from one certain prediction to another",
            _sentence(row["value"], upper, rows),
            mark=None if shuffled is None else float(shuffled["value"]),
            places=3,
            claim=_claim(upper, rows.of_head),
        )


def _claim(upper: float | None, of_head: str) -> Claim | None:
    """Only the bound shows that no weights can matter."""
    return (
        Claim(False, f"no attention weights{of_head} can change its output much")
        if upper is not None and upper < MATTERS
        else None
    )


def _in_heads(rows: SummaryRows) -> str:
    """How many heads can flip a decision, and which the most: found, so that those that cannot may be more able than it seems."""
    heads = rows.of_heads("maximal_change", "flips")
    able = {head: row for head, row in heads.items() if row["value"] > 0}
    if not able or rows.audited is None:
        return f"None of {rows.heads} was found to flip the decision of any text. " if heads else ""
    head, row = max(able.items(), key=lambda one: one[1]["value"])
    ends = "" if row["low"] is None else f" [{percent(row['low'])}, {percent(row['high'])}]"
    return (
        f"{len(able)} of {rows.heads} can flip the decision of some text; the strongest, {named(head)}, of {percent(row['value'])}{ends} "
        "of the texts. "
    )


def _sentence(value: float, upper: float | None, rows: SummaryRows) -> str:
    flips, words = (rows.value("maximal_change", name) for name in ("flips", "max_delta_y_words"))
    proven = upper is not None and upper - value <= PROVEN_GAP
    bound = "" if upper is None or proven else f" (mean upper bound {figure(upper, 3)})"
    found = "" if proven else " found"
    flipped = (
        ""
        if flips is None
        else f"; some attention{found} flips {percent(flips)} of the predictions"
    )
    without = (
        "" if words is None else f" With no attention on special tokens it is {figure(words, 3)}."
    )
    small = (
        " So the weights matter little here, whatever they are."
        if upper is not None and upper < MATTERS
        else ""
    )
    return (
        f"{_in_heads(rows)}The attention{found} that changes the output most{rows.of_head and f',{rows.of_head} alone,'} changes it by "
        f"{figure(value, 3)} on average{bound}{flipped}.{without}{small} "
        "A large change does not show that the model's own weights are right."
        f"{rows.apart('maximal_change', 'max_delta_y', 'Mean largest change', 3)}{of_kept_words(rows)}"
    )
