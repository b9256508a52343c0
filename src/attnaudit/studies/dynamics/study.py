"""What is attention learned from? (Snell et al. 2021)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
from scipy.special import entr

from attnaudit.core import InputError
from attnaudit.core.papers import SNELL2020
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import setting
from attnaudit.core.shapes import PerRow
from attnaudit.experiments.rows import is_correct
from attnaudit.plans.training import Spec, Training
from attnaudit.stats.agreement import agreement, chance_agreement
from attnaudit.stats.bootstrap import ratio
from attnaudit.stats.kendall import kendall_tau
from attnaudit.studies.dynamics.counts import CountModel
from attnaudit.studies.dynamics.measures import (
    ABOVE_HABIT,
    ELSEWHERE,
    MEASURES,
    PAIRS,
    REFERENCE_ELSEWHERE,
    STEP,
    TO_REFERENCE,
    Pair,
)
from attnaudit.studies.dynamics.timing import timing_rows
from attnaudit.studies.over_seeds import SummaryRows, means
from attnaudit.studies.study import (
    Study,
    Traces,
    labelled,
    row_numbers,
    same_instances,
    stack,
    trace_rows,
    with_seeds,
    without_scores,
)
from attnaudit.trace import Trace
from attnaudit.trace.readout import IdentityTail
from attnaudit.training.probe import STEPS, Probe, step_part

OTHERS = 10  # rows that represent all others of their kind
RELEVANCE = "importance_relevance"


def relevance(trace: Trace) -> Ragged:
    """Compute the output relevance r of every position; a larger r favours gold more.

    A column ``importance_relevance`` is used as it is. A translator has one: the log-probability
    of the gold token with all attention on that position. Otherwise r is the readout ``W h_t`` of a
    linear head in the column of the gold class, or of a single sigmoid output times 2y − 1. The
    offset is the same for all positions, and omitted.

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
        scores: Their scores.
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


def elsewhere_agreement(trace: Trace, first: Ragged, score: Ragged) -> PerRow:
    """Compute A(``first``, ``score`` of another instance): agreement by positional habit.

    Args:
        trace: The rows.
        first: Scores of these rows.
        score: Other scores of these rows.

    Returns:
        The mean over up to `OTHERS` rows with as many positions, and in a translation with the same
        target position: the next rows in order of instances, cyclically. NaN if there are none.
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


def entropy_share(alpha: Ragged) -> PerRow:
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


_STEPS = "dynamics.steps, the last of which is where training stops"


@dataclass(frozen=True)
class Dynamics(Study):
    """Trace models at several optimizer steps, and a model with uniform attention alike.

    Scores of finished models have the weights of the best epoch on dev. `PAIRS` and `TO_REFERENCE`
    are the scores that are compared.

    The table has a row per model, seed, step and instance; step null is the finished model, on all
    of test. ``agreement_<u>_<v>`` is A(u, v), ``tau_<u>_<v>`` Kendall's τ, ``chance`` the mean of A
    over shuffled v, ``…_elsewhere`` A with v of other texts of the same length, ``entropy`` that of
    alpha over ln T. The summary has
    means at each step (group ``step:<k>``) and of finished models (``all``), and the timing
    (`timing_rows`). Comparisons with the reference are of the other seeds.
    """

    name = "dynamics"
    question = "What is attention learned from?"
    paper = SNELL2020
    measures = MEASURES
    layout = "steps"
    proxy: ClassVar[Mapping[str, Any]] = {"encoder": "none"}  # the model of the mean embedding
    of_texts: ClassVar[bool] = True  # which have a logistic regression on counts as a proxy too
    not_of_base = ("training.epochs", "training.patience")  # training counts steps
    overruled: ClassVar = {
        "training.steps": _STEPS,
        "training.epochs": f"{_STEPS}, whatever the size of the corpus",
        "collect.scores": "no such setting: dynamics compares attention with loo, whatever else "
        "there is",
    }
    quick: ClassVar = {"seeds": 2, "steps": (0, 50, 100, 200, 400), "probe": 100}
    seeds: int = setting(
        "Number of traced trainings (seeds); the timing ξ needs 2 or more.", 6, least=1
    )
    steps: tuple[int, ...] = setting(
        "Optimizer steps at which the models are traced; training stops at the last.", STEPS
    )
    probe: int = setting("Number of test texts, or pairs, traced at each step.", 500)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.watched.steps[-1] < 1:
            expected = "a step of 1 or more at the end, where training stops"
            raise InputError("study", "setting dynamics.steps", "0 alone", expected)

    @property
    def watched(self) -> Probe:
        """Steps and instances that are traced."""
        return Probe(self.steps, self.probe, self.seed)

    def trainings(self, base: Any, corpus: Any) -> list[Training]:
        """Train the traced models, a uniform one, and the model of the mean embedding."""
        if self.of_texts:
            self.check_texts(corpus)
        self.check_model(base.model, words=self.of_texts)
        *specs, last = with_seeds(base, self.seeds + 1)
        model = replace(base.model, attention="uniform")
        uniform = replace(without_scores(self._watched(last)), model=model)
        model = replace(model, **self.proxy)
        embedding = replace(uniform, seed=base.seed, probe=None, model=model)
        return [
            *(
                # Translations show whether a translator translates.
                Training.of(
                    "watched", self._watched(spec), also=() if self.of_texts else ("translate",)
                )
                for spec in specs
            ),
            Training.of("watched", uniform, "uniform"),
            # The logistic regression is trained on the texts of its trace of all splits.
            Training.of("embedding", embedding, also=("teach",) if self.of_texts else ()),
        ]

    def _watched(self, spec: Spec) -> Spec:
        plain: Any = spec
        training = replace(plain.training, steps=self.steps[-1])
        collect = replace(plain.collect, scores=("loo",))
        plain = replace(plain, replacement=replace(plain.replacement, texts=0))
        return replace(plain, training=training, probe=self.watched, collect=collect)

    def __call__(self, traces: Traces) -> pl.DataFrame:
        """Measure every traced model at every step."""
        ordered = self.ordered(one for one in traces if not one.part)
        same_instances({one: traces[one] for one in ordered})
        *ours, embedding, uniform = ordered
        test, proxies = traces[ours[0]], {"embedding": relevance(traces[embedding])}
        right = {"embedding": is_correct(traces[embedding])}
        if self.of_texts:
            counts = CountModel.fit(traces[replace(embedding, part="teacher")])
            proxies["logistic"], right["logistic"] = counts.relevance(test), counts.correct(test)
        finished = {"reference": test.alpha, "uniform": relevance(traces[uniform]), **proxies}
        parts = []
        for one in (*ours, uniform):
            for step in (*self.steps, None):
                trace = traces[replace(one, part="" if step is None else step_part(step))]
                model, measured = ("base", model_rows) if one in ours else ("uniform", uniform_rows)
                rows = measured(trace, of_rows(trace, test, finished))
                parts.append(labelled(rows, model=model, seed=one.seed, step=step))
        for name, correct in right.items():
            rows = trace_rows(test, correct=correct)
            parts.append(labelled(rows, model=name, seed=embedding.seed, step=None))
        return stack(parts)

    def summary_rows(self, table: pl.DataFrame) -> SummaryRows:
        """Average over seeds and instances at every step, and time attention."""
        ours = table.filter(model="base")
        fresh = ours.filter(pl.col("seed") != ours["seed"].min())
        parts = [(ours, _OWN), (fresh, _TO_REFERENCE)]
        parts += [(table.filter(model=model), columns) for model, columns in _OTHERS.items()]
        for step in (None, *self.steps):
            group = "all" if step is None else f"{STEP}{step}"
            for part, columns in parts:
                known = {
                    name: column for name, column in columns.items() if column in table.columns
                }
                yield from means(self, part.filter(pl.col("step").eq_missing(step)), known, group)
        yield from timing_rows(self, fresh.filter(pl.col("step").is_not_null()))


@dataclass(frozen=True)
class PairDynamics(Dynamics):
    """`Dynamics` of a translator: the output is a gold token, with a row of its own (``query``).

    Relevance is the token's log-probability with all attention on one source position. The proxy is
    a softmax over target tokens from the mean source embedding, without order and without the
    tokens written so far. Means and intervals are over pairs; a pair's value is the mean of
    its gold tokens.
    """

    proxy: ClassVar = {"recurrent": False}
    of_texts = False
    quick: ClassVar = {"seeds": 2, "steps": (0, 50, 100, 200, 400), "probe": 20}
    seeds: int = setting(
        "Number of traced trainings (seeds); the timing ξ needs 2 or more.", 2, least=1
    )
    probe: int = setting("Number of test pairs traced at each step.", 100)


def _pairs(pairs: tuple[Pair, ...]) -> list[str]:
    return [f"{measure}_{u}_{v}" for measure in ("agreement", "tau") for u, v in pairs]


# Columns of the table by measure, for the model under study, its seeds but the first, and others.
_OWN = {
    "accuracy": "correct",
    **{name: name for name in ("entropy", "chance", ELSEWHERE, ABOVE_HABIT, *_pairs(PAIRS))},
}
_TO_REFERENCE = {name: name for name in _pairs(TO_REFERENCE)}
_OTHERS = {
    "uniform": {
        "accuracy_uniform": "correct",
        **{f"{name}_uniform": name for name in (REFERENCE_ELSEWHERE, *_pairs(TO_REFERENCE[1:2]))},
    },
    **{name: {f"accuracy_{name}": "correct"} for name in ("embedding", "logistic")},
}
