"""Does the output change when the attention weights are shuffled? (Jain & Wallace 2019, Algorithm 2)"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float, Int64, UInt64

from attnaudit.core.errors import InputError
from attnaudit.core.kernels import kernel, over_rows
from attnaudit.core.papers import JAIN2019
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import shuffle
from attnaudit.experiments.compiled_readout import kernel_rows, pool, pooled_prediction, predict_into, row_parts, tvd_row
from attnaudit.experiments.rows import by_group, keys, of_kept_words, row_streams
from attnaudit.experiments.through_tail import Outputs, has_compiled_tail
from attnaudit.results import summarise_means
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import FigureSpec, Scale, Violins, of_peaked
from attnaudit.results.measures import Measure
from attnaudit.results.words import degree, figure, interval, percent
from attnaudit.stats.measures import tvd
from attnaudit.stats.ordering import ascending
from attnaudit.trace import Trace
from attnaudit.trace.readout import IdentityTail, Readout

MOST_PERMUTATIONS = 1_000_000  # every thread keeps as many numbers; a median is exact enough long before
BLOCK = 1 << 21  # contributions, or shuffled weights, that the general way holds at a time
MATTERS = 0.15  # a change of probability from which on the output is said to depend on which token has which weight
FLAT = 0.25  # a mean largest weight, the paper's lowest bin, below which shuffled attention is much like the model's own
_CHANGES = ((0.01, "hardly moves"), (0.05, "moves a little"), (0.15, "moves somewhat"), (0.3, "moves clearly"))


def _caption(rows: pl.DataFrame) -> str:
    still = rows.select((pl.col("median_delta_y") < 0.05).mean()).item()
    return (
        "Median change of the output over random shuffles of the weights, by the largest weight of the instance. Dots are medians, bars "
        f"quartiles. {percent(still or 0.0)} of all instances move by less than 0.05. {of_peaked(rows, 'median_delta_y')} Peaked attention "
        "(lower rows) that can be shuffled without effect (left) would not point at what the output depends on."
    )


@dataclass(frozen=True)
class Permutation:
    """Median over ``permutations`` random orders of the attention weights of the TVD to the output under the model's own attention.

    The table has ``median_delta_y`` and ``max_alpha``, the largest weight.
    """

    name = "permutation"
    needs = ()
    question = "How much does shuffling attention change the output?"
    papers = (JAIN2019,)
    measures = (
        Measure(
            "median_delta_y", "median change of output over shuffles, Δŷ",
            "Median total variation distance between the output and the output under shuffled attention weights, 0 to 1.", "higher",
        ),
        Measure("max_alpha", "largest attention weight", "Largest attention weight of an instance, 0 to 1."),
    )  # fmt: skip
    figures = (
        FigureSpec(
            "permutation", "Does the output change when attention is shuffled?",
            (Violins("median_delta_y", Scale("median Δŷ under shuffling"), fit=True),), _caption,
        ),
    )  # fmt: skip
    seed: int = 0
    permutations: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.permutations <= MOST_PERMUTATIONS:
            expected = f"a whole number from 1 to {MOST_PERMUTATIONS}"
            raise InputError("audit", "setting permutation.permutations", str(self.permutations), expected)

    def __call__(self, trace: Trace) -> pl.DataFrame:
        streams = row_streams(trace, self.seed, self.name)
        change = median_delta_y(trace.readout, trace.alpha, streams, self.permutations)
        return keys(trace).with_columns(pl.Series("median_delta_y", change), pl.Series("max_alpha", trace.alpha.max()))

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        return summarise_means(self.name, by_group(table, lambda rows: rows.select("median_delta_y", "max_alpha")), self.seed)

    @staticmethod
    def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
        row, peak = rows.get("permutation", "median_delta_y"), rows.value("permutation", "max_alpha")
        if row is None:
            return
        sentence = (
            f"When the attention weights{rows.of_head} are shuffled among the tokens, the output "
            f"{degree(_CHANGES, row['value'], 'moves strongly')} (mean change of probability {figure(row['value'], 3)}); "
            f"{_meaning(row['value'], peak)}."
            f"{rows.apart('permutation', 'median_delta_y', 3)}{_retrained(rows)}{of_kept_words(rows)}"
        )
        peaked = "" if peak is None else f"mean largest weight {figure(peak)}; "
        yield card_row(
            Permutation.question, "mean of the median Δŷ", row,
            f"{peaked}0: no change, 1: from one certain prediction to another", sentence, places=3,
            claim=_claim(row["value"], peak, rows.of_head),
        )  # fmt: skip


def _claim(change: float, peak: float | None, of_head: str) -> Claim | None:
    if change < MATTERS and peak is not None and peak < FLAT:
        return None
    return Claim(change >= MATTERS, f"shuffling the weights{of_head} changes its output {'clearly' if change >= MATTERS else 'little'}")


def _meaning(change: float, peak: float | None) -> str:
    """What such a change of probability under shuffling means, where the largest weight is ``peak`` on average."""
    if change < MATTERS and peak is not None and peak < FLAT:
        return f"with weights this close to uniform (largest {peak:.2f} on average) any shuffle changes little, so this says little"
    if change < MATTERS:
        return "a small change means that the output depends little on which token has which weight"
    return "the output depends on which token has which weight"


def _retrained(rows: SummaryRows) -> str:
    """What a model retrained with uniform attention loses, where a study of that is there."""
    row = rows.get("uniform", "difference_f1_uniform")
    return "" if row is None else f" Retrained with uniform attention, F1 changes by {figure(row['value'])} {interval(row)}."


def median_delta_y(readout: Readout, alpha: Ragged, streams: UInt64[np.ndarray, " n"], permutations: int) -> Float[np.ndarray, " n"]:
    """Median TVD under shuffled attention; the same shuffles whichever way they are read out."""
    if isinstance(readout.tail, IdentityTail):
        median = np.empty(len(alpha))
        over_rows(_median_rows, len(alpha), kernel_rows(readout, alpha), streams, permutations, median)
        return median
    if not has_compiled_tail(readout):
        blocks = alpha.blocks(max(BLOCK // permutations, 1))
        return np.concatenate([_median_of_many(readout.take(b), alpha.take(b), streams[b], permutations) for b in blocks])
    blocks = alpha.blocks(max(BLOCK // _numbers(readout, alpha), 1))
    return np.concatenate([_median_through_tail(readout.take(b), alpha.take(b), streams[b], permutations) for b in blocks])


def _numbers(readout: Readout, alpha: Ragged) -> int:
    """How many numbers a position takes in the general way: what it contributes, and its share of the outputs of its row."""
    first = np.zeros(1, np.int64)
    outputs = readout.take(first)(alpha.take(first)).shape[1]
    return readout.contribution.values.shape[1] + outputs * len(alpha) // len(alpha.values)


def _median_through_tail(readout: Readout, alpha: Ragged, streams: UInt64[np.ndarray, " n"], permutations: int) -> Float[np.ndarray, " n"]:
    baseline = readout(alpha)
    shuffled = alpha.with_values(alpha.values.copy())
    change = np.empty((permutations, len(alpha)))
    for k in range(permutations):
        over_rows(shuffle_rows, len(streams), shuffled.values, shuffled.offsets, streams, k)
        change[k] = tvd(readout(shuffled), baseline)
    return np.median(change, axis=0)


def _median_of_many(readout: Readout, alpha: Ragged, streams: UInt64[np.ndarray, " n"], permutations: int) -> Float[np.ndarray, " n"]:
    """All shuffles of some rows, row after row: a model that is run again takes those of one text together."""
    outputs, shuffled = Outputs.of(readout, alpha), alpha.with_values(alpha.values.copy())
    drawn = np.empty((permutations, len(alpha.values)))
    for k in range(permutations):
        over_rows(shuffle_rows, len(streams), shuffled.values, shuffled.offsets, streams, k)
        drawn[k] = shuffled.values
    rows = np.repeat(np.arange(len(alpha)), permutations)

    def attention(chosen: Int64[np.ndarray, " b"]) -> Ragged:
        lengths = alpha.lengths[rows[chosen]]
        return Ragged.from_lengths(drawn[np.repeat(chosen % permutations, lengths), alpha.positions(rows[chosen])], lengths)

    return np.median(outputs.under(rows, attention, outputs.distance).reshape(len(alpha), permutations), axis=1)


@kernel
def _median_rows(first, last, rows, streams, permutations, median):
    """After the encoder the logits are ``offset + Σ_t alpha_t · contribution_t``: a shuffle costs T·C additions, not a model run."""
    for i in range(first, last):
        alpha, contribution, offset, head = row_parts(rows, i)
        weights, change = alpha.copy(), np.empty(permutations)
        baseline, prediction = pooled_prediction(pool(weights, contribution, offset), head), np.empty(len(offset))
        for k in range(permutations):
            shuffle(weights, streams[i], k)
            for c in range(len(prediction)):
                prediction[c] = offset[c]
            for t in range(len(weights)):
                for c in range(len(prediction)):
                    prediction[c] += weights[t] * contribution[t, c]
            predict_into(prediction, prediction, head)
            change[k] = tvd_row(prediction, baseline)
        ordered, half = change[ascending(change)], permutations // 2
        median[i] = ordered[half] if permutations % 2 else 0.5 * (ordered[half - 1] + ordered[half])


@kernel
def shuffle_rows(first, last, values, offsets, streams, k):
    """Shuffle ``k`` of every row's stream, of the row's values in place."""
    for row in range(first, last):
        shuffle(values[offsets[row] : offsets[row + 1]], streams[row], k)
