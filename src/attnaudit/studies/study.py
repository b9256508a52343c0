"""The shape of a study: which models it trains, and what their traces say together."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
import polars.selectors as cs
from jaxtyping import Int64

from attnaudit.core import InputError
from attnaudit.core.papers import Paper
from attnaudit.core.settings import Settings, setting
from attnaudit.plans.training import Training, TrainingId, seeded
from attnaudit.results import SUMMARY_SCHEMA, Measure
from attnaudit.trace import Trace

# Roles of trainings, in the order of tables.
ROLES = ("base", "watched", "uniform", "adversary", "deceive", "removed", "guide", "embedding")
LEARNED = ("additive", "dot", "bilinear")  # attentions that are trained
LEVEL = 0.05  # of the tests of hypotheses
# Scales of the studies that state hypotheses: until dev no longer improves, or nearly so. They are
# alike, so that studies of one folder share their trainings.
PLATEAU = {"training.epochs": 60, "training.patience": 8}
NEARLY = {"seeds": 3, "training.epochs": 20, "training.patience": 4}
LONGEST = 2**24  # more than the gold tokens of any pair
Traces = Mapping[TrainingId, Trace]
PLACE = ("instance", "query")  # columns that identify a row of a trace


@dataclass(frozen=True)
class Hypothesis:
    """A claim that is stated before the data are looked at, and the measure that decides it.

    Attributes:
        claim: The claim, as a sentence.
        measure: Measure whose value lies between ``low`` and ``high`` if the claim is true.
        low: Lower limit.
        high: Upper limit.
        test: Measure with the p-value of the claim; by default the interval of ``measure`` decides.
    """

    claim: str
    measure: str
    low: float = -math.inf
    high: float = math.inf
    test: str = ""

    def outcome(self, summary: pl.DataFrame) -> Literal["supported", "contradicted", "open"]:
        """Say what a study's summary shows; open if it lacks the measure or its interval."""
        rows = summary.filter(pl.col("measure") == self.measure, pl.col("group") == "all")
        ends = rows.select("low", "high").drop_nulls()
        if ends.is_empty():
            return "open"
        low, high = ends.row(0)
        if low >= self.high or high <= self.low:
            return "contradicted"
        if self.test:
            p = summary.filter(measure=self.test)["value"]
            return "supported" if (p <= LEVEL).any() else "open"
        return "supported" if self.low < low and high < self.high else "open"


@dataclass(frozen=True)
class Study(Settings):
    """A frozen configuration; its defaults are the published scale.

    Attributes:
        name: Name of the study.
        question: Heading of its page.
        paper: Paper that it is from.
        measures: Measures of its summary, in the order of the page's tables.
        layout: Rows of these tables: ``models``, if a measure is called ``<measure>_<model>``;
            ``steps`` of the training, if groups are called ``step:<k>``; or measures, with a column
            for each of the ``groups``.
        quick: Settings for a study that two cores finish in minutes; dotted ones are those of its
            trainings.
        full: Settings of ``--full`` that are not defaults; dotted names are of its trainings.
        published: Study as the paper did it, for ``--paper``; empty if there is none.
        overruled: Settings and options without effect in the study, and what is expected instead.
        decided: Values of settings that the study decides itself.
        not_of_base: Settings in which it may differ from other studies of its folder.
        hypotheses: Claims that were stated before the first full run.
        exclusions: Rules for what is left out, stated before the first full run too.
        seed: Seed of the intervals.

    Raises:
        InputError: A setting is out of range.
    """

    name: ClassVar[str]
    question: ClassVar[str]
    paper: ClassVar[Paper]
    measures: ClassVar[tuple[Measure, ...]]
    layout: ClassVar[Literal["models", "groups", "steps"]] = "models"
    quick: ClassVar[Mapping[str, Any]]
    full: ClassVar[Mapping[str, Any]] = {}
    published: ClassVar[str] = ""
    overruled: ClassVar[Any] = {}  # a mapping, or a property that has one
    decided: ClassVar[Mapping[str, Any]] = {}
    not_of_base: ClassVar[tuple[str, ...]] = ()
    hypotheses: ClassVar[tuple[Hypothesis, ...]] = ()
    exclusions: ClassVar[tuple[str, ...]] = ()
    seed: int = setting("Seed of the intervals; default: --seed.", 0)

    def trainings(self, base: Any, corpus: Any) -> Iterable[Training]:
        """Yield the trainings of the study, their teachers apart; see `plan`."""
        raise NotImplementedError

    def plan(self, base: Any, corpus: Any) -> list[Training]:
        """List all trainings that the study needs, each after its teacher.

        Args:
            base: Spec of the model under study.
            corpus: Its corpus.

        Raises:
            InputError: The model or the corpus does not fit the study.
        """
        found: dict[TrainingId, Training] = {}

        def add(training):
            if training.teacher is not None:
                add(training.teacher)
            found.setdefault(training.id, training)

        for training in self.trainings(base, corpus):
            add(training)
        return list(found.values())

    def variants(self) -> Sequence[str]:
        """Return the variants of models whose order in tables is not the alphabet's."""
        return ()

    def ordered(self, trainings: Iterable[TrainingId]) -> list[TrainingId]:
        """Sort trainings by variant, role, seed and strength; a baseline without one is last."""
        known = self.variants()

        def key(one):
            variant = [*known, one.variant].index(one.variant), one.variant
            strength = one.strength is None, one.strength
            return *variant, ROLES.index(one.role), one.seed, *strength

        return sorted(trainings, key=key)

    def rows(self, training: TrainingId, traces: Traces) -> pl.DataFrame:
        """Measure one model, with a row per instance."""
        raise NotImplementedError

    def __call__(self, traces: Traces) -> pl.DataFrame:
        """Compute the table of the study.

        Args:
            traces: Traces of the test split by training, in any order.
        """
        return stack(self.rows(one, traces) for one in self.ordered(traces))

    def summary_rows(self, table: pl.DataFrame) -> Iterable[Mapping[str, Any]]:
        """Summarise the table over seeds and instances."""
        raise NotImplementedError

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        """Summarise the table as a data frame of a summary."""
        return pl.DataFrame(list(self.summary_rows(table)), schema=SUMMARY_SCHEMA)

    def check_model(self, model: Any, *, one_head: bool = True, words: bool = False) -> None:
        """Check that retraining a model says something about its attention.

        Args:
            model: Settings of the model.
            one_head: Refuse several heads, which have no order from one training to the next.
            words: Refuse positions that are sentences.

        Raises:
            InputError: The model's attention is not learned, or one of the above.
        """
        refused = ()
        if model.attention not in LEARNED:
            refused = f"{model.attention} attention", "an attention that is learned, as additive"
        elif one_head and model.heads > 1:
            refused = f"{model.heads} heads", "one attention a text", "set model.heads=1"
        elif words and model.hierarchical:
            expected = "positions that are words, not --preset han"
            refused = "positions that are sentences", expected
        if refused:
            raise InputError("study", f"{self.name} of a model", *refused)

    def check_texts(self, corpus: Any) -> None:
        """Raise InputError for a corpus of questions, or of pairs of texts."""
        if corpus.task != "classification":
            expected = "a classification of texts without questions"
            raise InputError("study", f"{self.name} of {corpus.name}", corpus.task, expected)

    def check_classifier(self, base: Any) -> None:
        """Raise InputError for a transformer that predicts next tokens."""
        if base.causal:
            raise InputError(
                "study",
                f"{self.name} of {base.config}",
                "a model of next tokens",
                "a classifier, as small-bert",
            )

    def check_strengths(self, strengths: Sequence[float]) -> None:
        """Raise InputError unless there are λ, all of them different and none below 0."""
        if not strengths or not min(strengths) >= 0 or len(set(strengths)) < len(strengths):
            raise InputError(
                "study",
                f"setting {self.name}.strengths (λ)",
                str(list(strengths)),
                "one or more, each a λ of 0 or more, none twice",
            )


def following(seeds: Sequence[int]) -> dict[int, int]:
    """Return the next seed of each seed; after the last comes the first."""
    return dict(zip(seeds, [*seeds[1:], seeds[0]], strict=True))


def with_seeds(base: Any, number: int) -> Iterator[Any]:
    """Yield a spec with ``number`` seeds, from its own on."""
    return (seeded(base, base.seed + k) for k in range(number))


def without_scores(spec: Any) -> Any:
    """Return the spec of a training that needs no importance scores."""
    return replace(spec, collect=replace(spec.collect, scores=()))


def row_numbers(trace: Trace) -> Int64[np.ndarray, " n"]:
    """Return a number per row, by instance, and in a translation by gold token too."""
    return trace.instance * LONGEST + trace.array("query") if trace.has("query") else trace.instance


def same_instances(traces: Mapping[Any, Trace]) -> None:
    """Raise InputError unless all traces have the same rows in the same order."""
    (first, base), *others = traces.items()
    for name, trace in others:
        if not np.array_equal(row_numbers(trace), row_numbers(base)):
            expected = f"those of {first}, in their order"
            raise InputError("study", f"trace of {name}", "other instances", expected)


def trace_rows(trace: Trace, **columns: Any) -> pl.DataFrame:
    """Put columns beside the instance of every row, and the gold token; NaN becomes null."""
    place = {name: trace.array(name).astype(np.int64) for name in PLACE if trace.has(name)}
    return pl.DataFrame({**place, **columns}).with_columns(cs.float().fill_nan(None))


def labelled(rows: pl.DataFrame, **labels: Any) -> pl.DataFrame:
    """Put columns with one value, which identify the model, before the others."""
    return rows.select(*(pl.lit(value).alias(name) for name, value in labels.items()), pl.all())


def stack(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Put tables below each other; columns that one lacks are null."""
    return pl.concat(parts, how="diagonal_relaxed")
