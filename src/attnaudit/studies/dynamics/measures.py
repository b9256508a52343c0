"""What dynamics measures: how scores of positions agree at every step, what word counts know, and when attention is learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int64
from scipy.special import entr

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.rows import is_correct, list_column
from attnaudit.plans.training import row_numbers
from attnaudit.stats.agreement import agreement, chance_agreement
from attnaudit.stats.bootstrap import resampled_over_seeds, weighted_sums
from attnaudit.stats.kendall import kendall_tau
from attnaudit.studies.over_seeds import PLACE, placed, seeds_row
from attnaudit.trace import Trace
from attnaudit.trace.tails import IdentityTail

Pair = tuple[str, str]
PAIRS: tuple[Pair, ...] = (
    ("alpha", "relevance"), ("alpha", "uniform"), ("alpha", "loo"), ("alpha", "embedding"), ("alpha", "logistic"),
    ("relevance", "uniform"), ("loo", "uniform"),
)  # fmt: skip
FOLLOWED = ("alpha", "relevance", "relevance_uniform")  # scores that are kept with the tokens
ELSEWHERE, REFERENCE_ELSEWHERE = (
    "agreement_alpha_uniform_elsewhere",
    "agreement_reference_relevance_elsewhere",
)
ABOVE_HABIT = "agreement_alpha_uniform_minus_elsewhere"
OTHERS = 10  # rows that stand for all others of their kind
TO_REFERENCE: tuple[Pair, ...] = (
    ("reference", "alpha"),
    ("reference", "relevance"),
    ("reference", "uniform"),
)
STRENGTHS = (
    1.0,
    10.0,
    100.0,
    1000.0,
    10000.0,
)  # C of scikit-learn, the inverse of the penalty: the best on dev is taken
NEEDED = ("agreement_reference_alpha", "agreement_reference_uniform", "correct")
RELEVANCE = "importance_relevance"
MEASURES = (
    "xi",
    "xi_step",
    "xi_early",
    "best_accuracy",
    "best_accuracy_minus_xi",
    "xi_reached",
    "xi_threshold",
)


def relevance(trace: Trace) -> Ragged:
    """The output relevance r of every position, float64, same rows as ``alpha``: the larger, the more it speaks for the gold output.

    A column ``importance_relevance`` is taken as it is: for translation, the log-probability of the gold token with all attention on that
    position. Else it is read off the readout W h_t of a linear head: of one sigmoid output times 2y − 1, so that it is for the gold class
    y; of a softmax the column of the gold class. The offset, the same for all positions, is omitted. Raises InputError where neither
    is there, or a row has no label.
    """
    if trace.has(RELEVANCE):
        column = trace.ragged(RELEVANCE)
        return column.with_values(column.values.astype(np.float64))
    if not isinstance(trace.tail, IdentityTail):
        raise InputError(
            "relevance",
            "trace",
            "a tail between positions and output",
            f"a linear head, or a column {RELEVANCE}",
        )
    if not trace.has("label"):
        raise InputError(
            "relevance", "trace", "no column label", f"gold labels, or a column {RELEVANCE}"
        )
    label, contribution = trace.array("label").astype(np.int64), trace.readout.contribution
    if (label < 0).any():
        raise InputError(
            "relevance",
            f"instance {trace.instance[int((label < 0).argmax())]}",
            "no label",
            "a gold label in every row",
        )
    gold = contribution.spread(label)
    if contribution.values.shape[1] == 1:
        return contribution.with_values(contribution.values[:, 0] * (2 * gold - 1))
    if trace.metadata["activation"] == "sigmoid":
        raise InputError(
            "relevance", "trace", "several sigmoid outputs", "one sigmoid output, or a softmax"
        )
    return contribution.with_values(contribution.values[np.arange(len(gold)), gold])


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
            raise InputError(
                "study",
                "trace of a step",
                "instances that are not in test",
                "a probe of the test split",
            )
        return {name: score.take(rows) for name, score in self.scores.items()}


def model_rows(trace: Trace, finished: Finished) -> pl.DataFrame:
    """A row for each row of a trace with leave-one-out: all pairs, and what the texts themselves tell."""
    scores = {
        "alpha": trace.alpha,
        "relevance": relevance(trace),
        "loo": trace.ragged("loo"),
        **finished.of(trace),
    }
    entropy = pl.Series("entropy", entropy_share(trace.alpha), nan_to_null=True)
    chance = pl.Series("chance", chance_agreement(trace.alpha.lengths))
    elsewhere = pl.Series(
        ELSEWHERE, elsewhere_agreement(trace, scores["alpha"], scores["uniform"]), nan_to_null=True
    )
    rows = correct_rows(trace).with_columns(
        chance, entropy, elsewhere, *_compared(scores, (*PAIRS, *TO_REFERENCE))
    )
    return rows.with_columns(
        (pl.col("agreement_alpha_uniform") - pl.col(ELSEWHERE)).alias(ABOVE_HABIT)
    )


def elsewhere_agreement(trace: Trace, first: Ragged, score: Ragged) -> Float[np.ndarray, " n"]:
    """A(``first``, ``score`` of another instance), both of the rows of ``trace``: what of agreement is positional habit.

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


def uniform_rows(trace: Trace, finished: Finished) -> pl.DataFrame:
    """A row for each row of a trace with uniform attention: how its relevance, here or elsewhere, agrees with the reference's attention."""
    scores = {"relevance": relevance(trace), **finished.of(trace)}
    elsewhere = elsewhere_agreement(trace, scores["reference"], scores["relevance"])
    agreed = pl.Series(REFERENCE_ELSEWHERE, elsewhere, nan_to_null=True)
    return correct_rows(trace).with_columns(agreed, *_compared(scores, TO_REFERENCE[1:2]))


def correct_rows(trace: Trace) -> pl.DataFrame:
    return placed(trace).with_columns(pl.Series("correct", is_correct(trace)))


def token_rows(trace: Trace, uniform: Trace) -> pl.DataFrame:
    """Tokens with attention, relevance, that of the model with uniform attention on the same rows, the gold class and its probability."""
    label, said = trace.array("label"), trace.prediction
    probability = (
        np.where(label == 1, said[:, 0], 1.0 - said[:, 0])
        if said.shape[1] == 1
        else said[np.arange(len(label)), label]
    )
    if trace.has("gold"):
        gold, probability = (
            trace.table["gold"].to_list(),
            probability * trace.array("covered"),
        )  # of the whole vocabulary
    else:
        gold = [trace.class_names[k] for k in label]
    return placed(trace).with_columns(
        pl.Series("tokens", trace.table["tokens"].to_list()), list_column("alpha", trace.alpha),
        list_column("relevance", relevance(trace)), list_column("relevance_uniform", relevance(uniform)), pl.Series("gold", gold),
        pl.Series("probability", probability),
    )  # fmt: skip


def followed(
    table: pl.DataFrame,
) -> Iterator[tuple[tuple[Any, ...], pl.DataFrame, dict[str, Float[np.ndarray, "K T"]]]]:
    """The instances, or gold tokens, whose tokens a table keeps: their numbers, their rows by step and their scores at each step.

    Relevance of a gold token is a log-probability, never above 0: what counts is how it compares with the others', and so it is given
    minus its mean over the sentence, in nats: above 0 where a position speaks for the token more than most do.
    """
    if "tokens" not in table.columns:
        return
    kept = table.filter(pl.col("tokens").is_not_null()).sort(
        "step", "instance", maintain_order=True
    )
    for number, rows in kept.group_by(
        [name for name in PLACE if name in kept.columns], maintain_order=True
    ):
        scores = {kind: np.array(rows[kind].to_list()) for kind in FOLLOWED}
        if len(number) > 1:
            scores |= {
                kind: scores[kind] - scores[kind].mean(axis=1, keepdims=True)
                for kind in FOLLOWED[1:]
            }
        yield number, rows, scores


def entropy_share(alpha: Ragged) -> np.ndarray:
    """``−Σ α ln α / ln T`` of every row: 1 for uniform weights, 0 for one position; NaN at T = 1, where there is no choice."""
    longer = alpha.lengths > 1
    most = np.log(np.where(longer, alpha.lengths, 2))
    return np.where(longer, alpha.with_values(entr(alpha.values)).sum() / most, np.nan)


def _compared(scores: Mapping[str, Ragged], pairs: Iterable[Pair]) -> list[pl.Series]:
    """A(u, v) and τ of every pair both of which are known."""
    columns = []
    for u, v in pairs:
        if u in scores and v in scores:
            columns.append(pl.Series(f"agreement_{u}_{v}", agreement(scores[u], scores[v])))
            columns.append(
                pl.Series(f"tau_{u}_{v}", kendall_tau(scores[u], scores[v])[0], nan_to_null=True)
            )
    return columns


@dataclass(frozen=True)
class CountModel:
    """Logistic regression on ``count of the word / T``, which ignores word order: the second proxy of Snell et al. 2020.

    ``weight`` is ``(V, C)``, one column for two classes; ``number`` gives the row of each word of train.
    """

    number: dict[str, int]
    weight: Float[np.ndarray, "V C"]
    offset: Float[np.ndarray, " C"]

    @classmethod
    def fit(cls, texts: Trace) -> CountModel:
        """The model of the train split of a trace of all splits, its penalty chosen by accuracy on dev, of equal ones the strongest."""
        split, label = texts.array("split"), texts.array("label").astype(np.int64)
        tokens = texts.table["tokens"].to_list()
        parts = {name: np.flatnonzero(split == name) for name in ("train", "dev")}
        number = {
            word: k
            for k, word in enumerate(
                dict.fromkeys(word for row in parts["train"] for word in tokens[row])
            )
        }
        counts = {
            name: _shares([tokens[row] for row in rows], number) for name, rows in parts.items()
        }
        tried = [
            _fitted(counts["train"], label[parts["train"]], number, strength)
            for strength in STRENGTHS
        ]
        right = [
            float((model._decide(counts["dev"]) == label[parts["dev"]]).mean()) for model in tried
        ]
        return tried[int(np.argmax(right))]

    def relevance(self, trace: Trace) -> Ragged:
        """What the word of each position contributes to the gold class, 0 for words that train lacks; shaped as `relevance`."""
        rows = trace.alpha
        place = np.array(
            [self.number.get(word, -1) for row in trace.table["tokens"].to_list() for word in row],
            dtype=np.int64,
        )
        gold = rows.spread(trace.array("label").astype(np.int64))
        said = (
            self.weight[place, 0] * (2 * gold - 1)
            if self.weight.shape[1] == 1
            else self.weight[place, gold]
        )
        return rows.with_values(np.where(place >= 0, said, 0.0))

    def correct(self, trace: Trace) -> Bool[np.ndarray, " n"]:
        """Whether it decides for the gold class."""
        return self._decide(_shares(trace.table["tokens"].to_list(), self.number)) == trace.array(
            "label"
        )

    def _decide(self, counts: Any) -> Int64[np.ndarray, " n"]:
        logits = counts @ self.weight + self.offset
        return (
            (logits[:, 0] >= 0).astype(np.int64) if logits.shape[1] == 1 else logits.argmax(axis=1)
        )


def _fitted(
    counts: Any, label: Int64[np.ndarray, " n"], number: dict[str, int], strength: float
) -> CountModel:
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=strength, max_iter=5000).fit(counts, label)
    return CountModel(number, np.ascontiguousarray(fitted.coef_.T), fitted.intercept_)


def _shares(texts: Sequence[Sequence[str]], number: dict[str, int]) -> Any:
    """A sparse row for each text: the share of its positions that each known word has."""
    from scipy.sparse import csr_matrix

    known = [
        (row, number[word], 1.0 / len(words))
        for row, words in enumerate(texts)
        for word in words
        if word in number
    ]
    rows, columns, shares = zip(*known, strict=True) if known else ((), (), ())
    return csr_matrix((shares, (rows, columns)), shape=(len(texts), len(number)))


def timing_rows(experiment: str, fresh: pl.DataFrame, seed: int) -> list[Mapping[str, Any]]:
    """The `MEASURES` of rows {seed, step, instance, `NEEDED`} of fresh seeds, as rows of a summary.

    ξ is the accuracy of a seed's first checkpoint whose attention agrees better with the reference's than r^u does (by the mean agreement;
    r^u is the relevance trained under uniform attention), ``xi_step`` its step, ``xi_early`` 1 where no checkpoint lies between the start
    and it. ``best_accuracy`` is that of the seed's best checkpoint, chosen on these rows, which are from test: a maximum, too high for
    other texts. Means over the seeds that have such a checkpoint; ``undefined`` counts the others. Where none has, the figures are null,
    and ``xi_reached``, the highest agreement of any checkpoint, against ``xi_threshold``, that of r^u, shows how far it was. Intervals
    draw seeds and instances, and search the checkpoints again.
    """
    if fresh.is_empty():
        return []
    values, steps = _by_seed(fresh)
    _, seeds, _, instances = values.shape
    each = _figures(values.mean(axis=3), steps)

    def figures(weights: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b S M"]:
        drawn = weighted_sums(weights, values) / instances
        return np.stack([_figures(means, steps).T for means in drawn])

    resampled = resampled_over_seeds(figures, instances, seeds, seed)
    found = zip(MEASURES, each, resampled.T, strict=True)
    rows = []
    for (
        name,
        of_seed,
        again,
    ) in found:  # over the seeds that have the figure; where none has it, no interval says what others might have
        known = of_seed[~np.isnan(of_seed)]
        over = (known, again) if len(known) else (of_seed[:1], np.full_like(again, np.nan))
        rows.append(seeds_row(experiment, name, *over, instances, len(of_seed) - len(known)))
    return rows


def timing_of_seeds(fresh: pl.DataFrame) -> pl.DataFrame:
    """The `MEASURES` of `timing_rows` for every seed; null where no checkpoint agrees better."""
    values, steps = _by_seed(fresh)
    figures = dict(zip(MEASURES, _figures(values.mean(axis=3), steps), strict=True))
    return pl.DataFrame({"seed": fresh["seed"].unique().sort(), **figures}).with_columns(
        pl.col(MEASURES).fill_nan(None)
    )


def _by_seed(fresh: pl.DataFrame) -> tuple[Float[np.ndarray, "3 S K n"], Int64[np.ndarray, " K"]]:
    """What is `NEEDED` by seed, step and instance, and the steps."""
    steps = fresh["step"].unique().sort().to_numpy()
    seeds, instances = fresh["seed"].n_unique(), fresh["instance"].n_unique()
    ordered = (
        fresh.sort("seed", "step", "instance").select(pl.col(NEEDED).cast(pl.Float64)).to_numpy()
    )
    return np.moveaxis(ordered.reshape(seeds, len(steps), instances, len(NEEDED)), 3, 0), steps


def _figures(
    means: Float[np.ndarray, "3 S K"], steps: Int64[np.ndarray, " K"]
) -> Float[np.ndarray, "M S"]:
    """The measures of every seed from its means at every step, NaN where no checkpoint agrees better."""
    alpha, uniform, right = means
    nearer = alpha > uniform
    there, seeds = nearer.any(axis=1), np.arange(len(nearer))
    first = nearer.argmax(axis=1)
    xi = np.where(there, right[seeds, first], np.nan)
    best, early = right.max(axis=1), np.where(there, first <= (steps[0] == 0), np.nan)
    return np.array(
        [
            xi,
            np.where(there, steps[first], np.nan),
            early,
            best,
            best - xi,
            alpha.max(axis=1),
            uniform[:, 0],
        ]
    )
