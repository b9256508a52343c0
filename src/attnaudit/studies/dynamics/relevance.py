"""Output relevance, and how scores of positions agree, for every row of a trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl
from jaxtyping import Float
from scipy.special import entr

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.rows import is_correct
from attnaudit.stats.agreement import agreement, chance_agreement
from attnaudit.stats.bootstrap import ratio
from attnaudit.stats.kendall import kendall_tau
from attnaudit.studies.dynamics.measures import (
    ABOVE_HABIT,
    ELSEWHERE,
    PAIRS,
    REFERENCE_ELSEWHERE,
    TO_REFERENCE,
    Pair,
)
from attnaudit.studies.study import row_numbers, trace_rows
from attnaudit.trace import Trace
from attnaudit.trace.readout import IdentityTail

OTHERS = 10  # rows that stand for all others of their kind
RELEVANCE = "importance_relevance"


def relevance(trace: Trace) -> Ragged:
    """Compute the output relevance r of every position: the larger, the more it favours gold.

    A column ``importance_relevance`` is taken as it is. A translator has one: the log-probability
    of the gold token with all attention on that position. Otherwise r is the readout ``W h_t`` of a
    linear head in the column of the gold class, or of a single sigmoid output times 2y − 1. The
    offset, the same for all positions, is omitted.

    Args:
        trace: Trace with labels and a linear head, or with the column.

    Returns:
        float64 values for the rows of ``alpha``.

    Raises:
        InputError: The trace has neither, or a row has no label.
    """
    if trace.has(RELEVANCE):
        column = trace.ragged(RELEVANCE)
        return column.with_values(column.values.astype(np.float64))
    label = trace.array("label").astype(np.int64) if trace.has("label") else np.array([-1])
    several = trace.metadata["activation"] == "sigmoid" and trace.prediction.shape[1] > 1
    if not isinstance(trace.tail, IdentityTail) or several or (label < 0).any():
        got = "a tail, several sigmoid outputs, or rows without a label"
        expected = f"a linear head and gold labels, or a column {RELEVANCE}"
        raise InputError("relevance", "trace", got, expected)
    contribution = trace.readout.contribution
    gold, values = contribution.spread(label), contribution.values
    if values.shape[1] == 1:
        return contribution.with_values(values[:, 0] * (2 * gold - 1))
    return contribution.with_values(values[np.arange(len(gold)), gold])


def of_rows(trace: Trace, test: Trace, scores: Mapping[str, Ragged]) -> dict[str, Ragged]:
    """Look up scores of the rows of a trace.

    Args:
        trace: The rows.
        test: All rows of the test split.
        scores: Scores of these.
    """
    numbers = row_numbers(test)
    rows = pl.Series(row_numbers(trace)).replace_strict(numbers, np.arange(len(numbers)))
    return {name: score.take(rows.to_numpy()) for name, score in scores.items()}


def model_rows(trace: Trace, finished: Mapping[str, Ragged]) -> pl.DataFrame:
    """Compare all pairs of scores in each row of a trace.

    Args:
        trace: Trace with leave-one-out.
        finished: Scores of finished models for its rows.
    """
    scores = {"alpha": trace.alpha, "relevance": relevance(trace), "loo": trace.ragged("loo")}
    scores |= finished
    elsewhere = elsewhere_agreement(trace, scores["alpha"], scores["uniform"])
    compared = _compared(scores, (*PAIRS, *TO_REFERENCE))
    columns = {
        "correct": is_correct(trace),
        "chance": chance_agreement(trace.alpha.lengths),
        "entropy": entropy_share(trace.alpha),
        ELSEWHERE: elsewhere,
        ABOVE_HABIT: compared["agreement_alpha_uniform"] - elsewhere,
    }
    return trace_rows(trace, **columns, **compared)


def uniform_rows(trace: Trace, finished: Mapping[str, Ragged]) -> pl.DataFrame:
    """Compare relevance under uniform attention with the reference's attention."""
    scores = {"relevance": relevance(trace), **finished}
    elsewhere = elsewhere_agreement(trace, scores["reference"], scores["relevance"])
    columns = {"correct": is_correct(trace), REFERENCE_ELSEWHERE: elsewhere}
    return trace_rows(trace, **columns, **_compared(scores, TO_REFERENCE[1:2]))


def elsewhere_agreement(trace: Trace, first: Ragged, score: Ragged) -> Float[np.ndarray, " n"]:
    """Compute A(``first``, ``score`` of another instance): agreement by positional habit.

    Args:
        trace: The rows.
        first: Scores of these rows.
        score: Other scores of these rows.

    Returns:
        The mean over up to `OTHERS` rows with as many positions, and in a translation with the same
        target position: those that follow in the order of instances, the first after the last. NaN
        if there are none.
    """
    lengths = trace.alpha.lengths
    query = trace.array("query") if trace.has("query") else np.zeros_like(lengths)
    order = np.lexsort((trace.instance, query, lengths))
    kinds = np.stack([lengths, query])[:, order]
    _, start, size = np.unique(kinds, axis=1, return_index=True, return_counts=True)
    start, size = np.repeat(start, size), np.repeat(size, size)
    total = np.zeros((2, len(trace)))
    for shift in range(1, OTHERS + 1):
        at = np.flatnonzero(size > shift)
        row, other = order[at], order[start[at] + (at - start[at] + shift) % size[at]]
        total[:, row] += agreement(first.take(row), score.take(other)), np.ones(len(row))
    return ratio(*total)


def entropy_share(alpha: Ragged) -> Float[np.ndarray, " n"]:
    """Compute ``−Σ α ln α / ln T``: 1 for uniform weights, 0 for one position; NaN at T = 1."""
    return ratio(alpha.with_values(entr(alpha.values)).sum(), np.log(alpha.lengths))


def _compared(scores: Mapping[str, Ragged], pairs: Iterable[Pair]) -> dict[str, np.ndarray]:
    """Compute A(u, v) and τ of every pair of known scores."""
    columns = {}
    for u, v in pairs:
        if u in scores and v in scores:
            columns[f"agreement_{u}_{v}"] = agreement(scores[u], scores[v])
            columns[f"tau_{u}_{v}"] = kendall_tau(scores[u], scores[v])[0]
    return columns
