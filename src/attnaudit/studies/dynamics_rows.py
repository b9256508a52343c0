"""What is measured of every traced text while a model trains: how scores of its positions agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float, Int64
from scipy.special import entr

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.relevance import relevance
from attnaudit.experiments.rows import is_correct, list_column
from attnaudit.plans.training import row_numbers
from attnaudit.stats.agreement import agreement, chance_agreement
from attnaudit.stats.kendall import kendall_tau
from attnaudit.trace import Trace

Pair = tuple[str, str]
PAIRS: tuple[Pair, ...] = (
    ("alpha", "relevance"), ("alpha", "uniform"), ("alpha", "loo"), ("alpha", "embedding"), ("alpha", "logistic"),
    ("relevance", "uniform"), ("loo", "uniform"),
)  # fmt: skip
PLACE = ("instance", "query")  # columns that say of what a row is
ELSEWHERE, REFERENCE_ELSEWHERE = "agreement_alpha_uniform_elsewhere", "agreement_reference_relevance_elsewhere"
OTHERS = 10  # rows that stand for all others of their kind
TO_REFERENCE: tuple[Pair, ...] = (("reference", "alpha"), ("reference", "relevance"), ("reference", "uniform"))


@dataclass(frozen=True)
class Finished:
    """Scores of models that are trained, by name, for every row of test (`row_numbers`)."""

    number: Int64[np.ndarray, " n"]
    scores: Mapping[str, Ragged]

    def of(self, trace: Trace) -> dict[str, Ragged]:
        """Those of the rows of a trace, in its order. Raises InputError for a row that is not known."""
        asked, order = row_numbers(trace), np.argsort(self.number, kind="stable")
        rows = order[np.minimum(np.searchsorted(self.number, asked, sorter=order), len(order) - 1)]
        if not np.array_equal(self.number[rows], asked):
            raise InputError("study", "trace of a step", "instances that are not in test", "a probe of the test split")
        return {name: score.take(rows) for name, score in self.scores.items()}


def model_rows(trace: Trace, finished: Finished) -> pl.DataFrame:
    """A row for each row of a trace with leave-one-out: all pairs, and what the texts themselves tell."""
    scores = {"alpha": trace.alpha, "relevance": relevance(trace), "loo": trace.ragged("loo"), **finished.of(trace)}
    entropy = pl.Series("entropy", entropy_share(trace.alpha), nan_to_null=True)
    chance = pl.Series("chance", chance_agreement(trace.alpha.lengths))
    elsewhere = pl.Series(ELSEWHERE, elsewhere_agreement(trace, scores["alpha"], scores["uniform"]), nan_to_null=True)
    return correct_rows(trace).with_columns(chance, entropy, elsewhere, *_compared(scores, (*PAIRS, *TO_REFERENCE)))


def elsewhere_agreement(trace: Trace, first: Ragged, score: Ragged) -> Float[np.ndarray, " n"]:
    """A(``first``, ``score`` of another instance), both of the rows of ``trace``: what of agreement is habit of place.

    The mean over up to `OTHERS` rows with as many positions, in a translation for the same target position: those that follow in the
    order of instances, the first after the last. NaN where there is none.
    """
    lengths, instance = trace.alpha.lengths, trace.instance
    query = trace.array("query") if trace.has("query") else np.zeros_like(lengths)
    order = np.lexsort((instance, query, lengths))
    new = np.r_[True, (np.diff(lengths[order]) != 0) | (np.diff(query[order]) != 0)]
    start = np.flatnonzero(new)[np.cumsum(new) - 1]
    size = np.bincount(start, minlength=len(order))[start]
    total, count = np.zeros(len(order)), np.zeros(len(order))
    for shift in range(1, OTHERS + 1):
        at = np.flatnonzero(size > shift)
        other = start[at] + (at - start[at] + shift) % size[at]
        total[order[at]] += agreement(first.take(order[at]), score.take(order[other]))
        count[order[at]] += 1
    return np.divide(total, count, out=np.full(len(order), np.nan), where=count > 0)


def even_rows(trace: Trace, finished: Finished) -> pl.DataFrame:
    """A row for each row of a trace of the model with even attention: how its relevance, here and elsewhere, agrees with the reference's
    attention.
    """
    scores = {"relevance": relevance(trace), **finished.of(trace)}
    elsewhere = elsewhere_agreement(trace, scores["reference"], scores["relevance"])
    told = pl.Series(REFERENCE_ELSEWHERE, elsewhere, nan_to_null=True)
    return correct_rows(trace).with_columns(told, *_compared(scores, TO_REFERENCE[1:2]))


def correct_rows(trace: Trace) -> pl.DataFrame:
    return _placed(trace).with_columns(pl.Series("correct", is_correct(trace)))


def _placed(trace: Trace) -> pl.DataFrame:
    """The instance of every row, and in a translation which of its gold tokens (``query``)."""
    return pl.DataFrame({name: trace.array(name).astype(np.int64) for name in PLACE if trace.has(name)})


def token_rows(trace: Trace, even: Trace) -> pl.DataFrame:
    """Tokens with attention, relevance, that of the model with even attention on the same rows, the gold class and its probability."""
    label, said = trace.array("label"), trace.prediction
    probability = np.where(label == 1, said[:, 0], 1.0 - said[:, 0]) if said.shape[1] == 1 else said[np.arange(len(label)), label]
    if trace.has("gold"):
        gold, probability = trace.table.column("gold").to_pylist(), probability * trace.array("covered")  # of the whole vocabulary
    else:
        gold = [trace.class_names[k] for k in label]
    return _placed(trace).with_columns(
        pl.Series("tokens", trace.table.column("tokens").to_pylist()), list_column("alpha", trace.alpha),
        list_column("relevance", relevance(trace)), list_column("relevance_uniform", relevance(even)), pl.Series("gold", gold),
        pl.Series("probability", probability),
    )  # fmt: skip


def entropy_share(alpha: Ragged) -> np.ndarray:
    """``−Σ α ln α / ln T`` of every row: 1 for even weights, 0 for one position; NaN at T = 1, where there is no choice."""
    longer = alpha.lengths > 1
    most = np.log(np.where(longer, alpha.lengths, 2))
    return np.where(longer, alpha.with_values(entr(alpha.values)).sum() / most, np.nan)


def _compared(scores: Mapping[str, Ragged], pairs: Iterable[Pair]) -> list[pl.Series]:
    """A(u, v) and τ of every pair both of which are known."""
    columns = []
    for u, v in pairs:
        if u not in scores or v not in scores:
            continue
        columns.append(pl.Series(f"agreement_{u}_{v}", agreement(scores[u], scores[v])))
        columns.append(pl.Series(f"tau_{u}_{v}", kendall_tau(scores[u], scores[v])[0], nan_to_null=True))
    return columns
