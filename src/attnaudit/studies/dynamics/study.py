"""What is attention learned from? Relevance and attention traced during training, of classifiers and of translators (Snell et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
import polars.selectors as cs
from jaxtyping import Int64

from attnaudit.core.errors import InputError
from attnaudit.core.papers import SNELL2020, Paper
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import setting
from attnaudit.plans.training import (
    Layout,
    Spec,
    Training,
    TrainingId,
    check_least,
    learned_attention,
    one_attention,
    one_level,
    row_numbers,
    same_instances,
    seeded,
    without_scores,
)
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.measures import Measure
from attnaudit.studies.dynamics import facts, measures
from attnaudit.studies.over_seeds import PLACE, means
from attnaudit.trace import Trace
from attnaudit.training.probe import STEPS, Probe, step_part

if TYPE_CHECKING:
    from attnaudit.corpora.corpus import ParallelCorpus
    from attnaudit.plans.spec import TranslationSpec

SHOWN = 8  # instances of the probe whose tokens are kept for a reader to look at
PROXIES = ("embedding", "logistic")


@dataclass(frozen=True)
class Dynamics:
    """The model trained with ``seeds`` seeds for as many optimizer steps as the last of ``steps``, and traced at each of ``steps``.

    A step's trace has at most ``probe`` instances of test. A model with uniform attention, of seed ``uniform_seed`` (None: the next), is
    traced alike.

    Scores of a position: ``alpha``; ``relevance``, its own output relevance r; ``uniform``, r^u, that of the model with uniform attention;
    ``loo``; two that know co-occurrence alone, ``embedding``, r of a classifier of the mean embedding, and ``logistic``, the coefficient of
    a logistic regression on counts; ``reference``, alpha of the first seed. r^u, the proxies and the reference are those of finished
    models, each with the weights of its best epoch on dev.

    The table has a row per model, seed, step and instance; step null is the finished model, on all of test. ``agreement_<u>_<v>`` is
    A(u, v), ``tau_<u>_<v>`` Kendall's τ, ``chance`` what A is on average of shuffled v, ``…_elsewhere`` what it is with v of other texts
    of the same length (null where there is none), ``entropy`` that of alpha over ln T. Of a few instances it has the ``tokens`` with
    ``alpha``, ``relevance`` and ``relevance_uniform`` at every step. The summary has their means at each step (group ``step:<k>``) and of
    finished models (``all``), where the timing ξ is too (`timing_rows`); what is compared with the reference is of the other seeds, and
    ``…_uniform`` of the model with uniform attention.
    """

    name: ClassVar[str] = "dynamics"
    question: ClassVar[str] = facts.QUESTION
    paper: ClassVar[Paper] = SNELL2020
    measures: ClassVar[tuple[Measure, ...]] = facts.MEASURES
    layout: ClassVar[Layout] = "steps"
    caveats = staticmethod(facts.caveats)
    of_embeddings: ClassVar[Mapping[str, Any]] = {
        "encoder": "none"
    }  # settings of the model that knows the mean embedding alone
    counts: ClassVar[bool] = True  # whether a logistic regression on counts is another proxy
    overruled: ClassVar[
        Mapping[str, str]
    ] = {  # settings that the study decides itself, and what to give instead
        "training.steps": "dynamics.steps, the last of which is where training stops",
        "training.epochs": "dynamics.steps, the last of which is where training stops, whatever the size of the corpus",
        "collect.scores": "no such setting: dynamics compares attention with loo, whatever else there is",
    }
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "steps": (0, 50, 100, 200, 400), "probe": 100}
    seeds: int = setting("Number of traced trainings (seeds); the timing ξ needs 2 or more.", 6)
    steps: tuple[int, ...] = setting(
        "Optimizer steps at which the models are traced; training stops at the last.", STEPS
    )
    probe: int = setting("Number of test instances, or pairs, traced at each step.", 500)
    uniform_seed: int | None = setting(
        "Seed of the model with uniform attention; none: the next one.", None
    )
    seed: int = setting("Seed of the intervals; default: --seed.", 0)

    def __post_init__(self) -> None:
        check_least(self, seeds=1)
        if self.watched.steps[-1] < 1:
            raise InputError(
                "study",
                "setting dynamics.steps",
                "0 alone",
                "a step of 1 or more at the end, where training stops",
            )

    @property
    def watched(self) -> Probe:
        return Probe(self.steps, self.probe, self.seed)

    def check(self, base: Any, corpus: Any) -> None:
        """Raises InputError for a base or corpus that the study does not fit."""
        if corpus.task != "classification":
            raise InputError(
                "study",
                f"dynamics of {corpus.name}",
                corpus.task,
                "a classification: texts with labels",
            )
        one_level(self.name, base)

    def shown(self, trace: Trace) -> Int64[np.ndarray, " k"]:
        """The rows whose tokens are kept."""
        return replace(self.watched, size=min(SHOWN, self.probe)).rows(trace.instance)

    def by_instance(self, flat: pl.DataFrame) -> pl.DataFrame:
        """The table with a row per instance, which means and intervals are over."""
        return flat

    def plan(self, base: Any, corpus: Any) -> Sequence[Training]:
        """The traced models, one with uniform attention, and one of the mean embedding. Raises InputError for an unfit base or corpus.

        The classifier of the mean embedding leaves a trace of all splits: the texts that the logistic regression is trained on.
        """
        self.check(base, corpus)
        learned_attention(self.name, base)
        one_attention(self.name, base)
        uniform_seed = base.seed + self.seeds if self.uniform_seed is None else self.uniform_seed
        uniform = without_scores(self._watched(base, uniform_seed))
        uniform = replace(uniform, model=replace(base.model, attention="uniform"))
        embedding = replace(
            uniform, seed=base.seed, probe=None, model=replace(uniform.model, **self.of_embeddings)
        )
        return [
            *(
                Training(TrainingId("watched", seed), self._watched(base, seed))
                for seed in range(base.seed, base.seed + self.seeds)
            ),
            Training(TrainingId("watched", uniform_seed, "uniform"), uniform),
            Training(TrainingId("embedding", base.seed), embedding, teaches=self.counts),
        ]

    def _watched(self, base: Spec, seed: int) -> Spec:
        spec: Any = seeded(base, seed)
        training = replace(spec.training, steps=self.steps[-1])
        return replace(
            spec,
            training=training,
            probe=self.watched,
            collect=replace(spec.collect, scores=("loo",)),
        )

    def __call__(self, traces: Mapping[TrainingId, Trace]) -> pl.DataFrame:
        watched = sorted(
            (one for one in traces if not one.part),
            key=lambda one: (one.role == "embedding", one.variant, one.seed),
        )
        *ours, uniform, embedding = watched
        same_instances({training: traces[training] for training in watched})
        test, proxies = traces[ours[0]], self._proxies(traces, traces[ours[0]], embedding)
        known = {"reference": test.alpha, "uniform": measures.relevance(traces[uniform])}
        finished = measures.Finished(
            row_numbers(test), known | {name: score for name, (score, _) in proxies.items()}
        )
        parts = [
            rows
            for k, one in enumerate(ours)
            for rows in self._of_seed(traces, one, finished, uniform if k == 0 else None)
        ]
        parts += [
            _named(measures.uniform_rows(trace, finished), "uniform", uniform, step)
            for step, trace in self._steps(traces, uniform)
        ]
        return pl.concat(
            [*parts, *(_named(rows, name, embedding, None) for name, (_, rows) in proxies.items())],
            how="diagonal",
        )

    def _proxies(
        self, traces: Mapping[TrainingId, Trace], test: Trace, embedding: TrainingId
    ) -> dict[str, tuple[Ragged, pl.DataFrame]]:
        """What knows co-occurrence alone, by name, on the rows of ``test``: its relevance, and whether it is right."""
        found = {
            "embedding": (
                measures.relevance(traces[embedding]),
                measures.correct_rows(traces[embedding]),
            )
        }
        if self.counts:
            counts = measures.CountModel.fit(traces[replace(embedding, part="teacher")])
            found["logistic"] = (
                counts.relevance(test),
                measures.correct_rows(test).with_columns(correct=counts.correct(test)),
            )
        return found

    def _of_seed(
        self,
        traces: Mapping[TrainingId, Trace],
        training: TrainingId,
        finished: measures.Finished,
        uniform: TrainingId | None,
    ) -> Iterator[pl.DataFrame]:
        """The rows of one training, with the tokens of some where ``uniform`` is the training with uniform attention."""
        for step, trace in self._steps(traces, training):
            rows = measures.model_rows(trace, finished)
            if uniform is not None and step is not None:
                alike, some = traces[replace(uniform, part=step_part(step))], self.shown(trace)
                same_instances({"a step": trace, "the same step under uniform attention": alike})
                tokens = measures.token_rows(trace.take(some), alike.take(some))
                rows = rows.join(
                    tokens,
                    on=[name for name in PLACE if name in rows.columns],
                    how="left",
                    maintain_order="left",
                )
            yield _named(rows, "base", training, step)

    def _steps(
        self, traces: Mapping[TrainingId, Trace], training: TrainingId
    ) -> Iterator[tuple[int | None, Trace]]:
        """The traces of one training: of every step, then that of the finished model."""
        yield from ((step, traces[replace(training, part=step_part(step))]) for step in self.steps)
        yield None, traces[training]

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        flat = self.by_instance(table.select(~cs.nested()))
        ours = flat.filter(model="base")
        fresh = ours.filter(pl.col("seed") != ours["seed"].min())
        rows: list[Mapping[str, Any]] = []
        for step in (None, *self.steps):
            group = "all" if step is None else f"step:{step}"
            here = pl.col("step").is_null() if step is None else pl.col("step") == step
            for part, columns in (
                (ours, _OWN),
                (fresh, _TO_REFERENCE),
                *((flat.filter(model=name), of) for name, of in _OTHERS.items()),
            ):
                known = {name: column for name, column in columns.items() if column in flat.columns}
                rows += means(self.name, part.filter(here), known, self.seed, group)
        rows += measures.timing_rows(
            self.name, fresh.filter(pl.col("step").is_not_null()), self.seed
        )
        return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


@dataclass(frozen=True)
class PairDynamics(Dynamics):
    """`Dynamics` of a translator: the output is a gold token, and the table has a row for each (``query``).

    Relevance is the token's log-probability with all attention on one source position. The proxy that knows co-occurrence alone is a
    softmax over target tokens from the mean source embedding, without order and without the tokens written so far. Means and intervals are
    over pairs, each of which counts by the mean of its gold tokens. The ``tokens`` of one pair are kept.
    """

    of_embeddings: ClassVar[Mapping[str, Any]] = {"recurrent": False}
    counts: ClassVar[bool] = False
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 2, "steps": (0, 50, 100, 200, 400), "probe": 20}
    seeds: int = setting("Number of traced trainings (seeds); the timing ξ needs 2 or more.", 2)
    probe: int = setting("Number of test pairs traced at each step.", 100)

    def plan(self, base: TranslationSpec, corpus: ParallelCorpus) -> Sequence[Training]:
        """`Dynamics.plan`; the traced models leave translations, which show whether they translate."""
        return [
            replace(one, writes=one.id.role == "watched" and one.id.variant != "uniform")
            for one in super().plan(base, corpus)
        ]

    def check(self, base: TranslationSpec, corpus: ParallelCorpus) -> None:
        """Every corpus of pairs fits."""

    def shown(self, trace: Trace) -> Int64[np.ndarray, " k"]:
        pairs = np.unique(trace.instance)
        return np.flatnonzero(trace.instance == pairs[replace(self.watched, size=1).rows(pairs)[0]])

    def by_instance(self, flat: pl.DataFrame) -> pl.DataFrame:
        numbers = (cs.numeric() | cs.boolean()).exclude("query")
        return flat.group_by("model", "seed", "step", "instance", maintain_order=True).agg(
            numbers.cast(pl.Float64).mean()
        )


def _named(rows: pl.DataFrame, model: str, training: TrainingId, step: int | None) -> pl.DataFrame:
    names = (
        pl.lit(model).alias("model"),
        pl.lit(training.seed).alias("seed"),
        pl.lit(step, pl.Int64).alias("step"),
    )
    return rows.select(*names, pl.all())


def _same(*names: str, pairs: Iterable[measures.Pair] = ()) -> dict[str, str]:
    """Measures called like the columns that they are means of."""
    return {
        name: name
        for name in (
            *names,
            *(f"{measure}_{u}_{v}" for measure in ("agreement", "tau") for u, v in pairs),
        )
    }


_OWN = {
    "accuracy": "correct",
    **_same("entropy", "chance", measures.ELSEWHERE, measures.ABOVE_HABIT, pairs=measures.PAIRS),
}
_TO_REFERENCE = _same(pairs=measures.TO_REFERENCE)
_UNIFORM = {
    "accuracy": "correct",
    **_same(measures.REFERENCE_ELSEWHERE, pairs=measures.TO_REFERENCE[1:2]),
}
_OTHERS = {
    "uniform": {f"{name}_uniform": column for name, column in _UNIFORM.items()},
    **{name: {f"accuracy_{name}": "correct"} for name in PROXIES},
}
