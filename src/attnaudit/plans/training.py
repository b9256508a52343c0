"""What a study asks for: trainings with an identity, each of which may take as given what another does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import polars as pl
from jaxtyping import Int64

from attnaudit.core.errors import InputError
from attnaudit.core.papers import Paper
from attnaudit.results.measures import Measure
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.plans.spec import RunSpec, TranslationSpec
    from attnaudit.plans.transformer import TransformerTraining

LEARNED = ("additive", "dot", "bilinear")  # the attentions that are trained
LONGEST = 2**24  # gold tokens of a pair, and more
Spec = TypeVar("Spec")  # a RunSpec, a TranslationSpec or a TransformerTraining
Layout = Literal["models", "groups", "steps"]


@dataclass(frozen=True)
class TrainingId:
    """Which training of a plan: its ``role``, its ``seed`` and its setting, a ``variant`` (a model, weights) and a ``strength`` (λ).

    ``part`` names what it left besides its trace of the test split: ``steps/<step>``, or ``teacher``, a trace of all splits.
    """

    role: str
    seed: int
    variant: str = ""
    strength: float | None = None
    part: str = ""

    def __str__(self) -> str:
        """The name of its folder: ``<role>-<variant>-<strength>-s<seed>``."""
        strength = "" if self.strength is None else strength_text(self.strength)
        return "-".join(filter(None, (self.role, self.variant, strength, f"s{self.seed}")))


@dataclass(frozen=True)
class Training:
    """One training of a plan.

    It follows from ``spec`` and, where there is a ``teacher``, from the ``column`` of that training's trace of all splits, or of the trace
    at a path. Studies that ask for the same with one identity share it. ``note`` is what a reader should know of it, if anything. With
    ``teaches`` it leaves a trace of all splits, as one that is a teacher does; with ``writes`` a translator leaves its translations of
    test.
    """

    id: TrainingId
    spec: RunSpec | TranslationSpec | TransformerTraining
    teacher: Training | str | None = None
    column: str = "alpha"
    note: str = ""
    teaches: bool = False
    writes: bool = False

    @property
    def name(self) -> str:
        return str(self.id)


@runtime_checkable
class Study(Protocol):
    """A frozen configuration: which trainings it needs, and what their traces of the test split say together.

    Traces come by the identity of their training, in any order. The defaults of its settings are the published scale; ``quick`` has those
    of a study that two cores finish in minutes, and dotted settings of its trainings.

    ``question`` is the heading of its page. ``measures`` name what its summary has, in the order of the page's tables; ``layout`` says
    what these tables have a row for: ``models``, where a measure is called ``<measure>_<model>``; ``steps`` of the training, which are the
    groups ``step:<k>``; or measures, with a column for each of the ``groups``. A class may have a function ``caveats``, which gives for a
    summary words that are added to labels of measures. It may have ``overruled``, which maps settings and options that have no effect to
    what is expected instead, ``decided``, the values of such settings, and ``not_of_base``, in which it may differ from other studies of
    its folder.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    name: ClassVar[str]
    question: ClassVar[str]
    paper: ClassVar[Paper]
    measures: ClassVar[tuple[Measure, ...]]
    layout: ClassVar[Layout]
    quick: ClassVar[Mapping[str, Any]]

    @property
    def seed(self) -> int: ...

    def plan(self, base: Any, corpus: Any) -> Sequence[Training]:
        """What is to be trained, of a `RunSpec` and its `Corpus`; of translators a `TranslationSpec` and a `ParallelCorpus`, of
        transformers a `TransformerTraining`."""
        ...

    def __call__(self, traces: Mapping[TrainingId, Trace]) -> pl.DataFrame: ...

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame: ...


def usual(base: RunSpec | TranslationSpec | TransformerTraining, seed: int) -> Training:
    """The model under study, trained as usual with ``seed``, on the splits that the seed of ``base`` draws."""
    return Training(TrainingId("base", seed), seeded(base, seed))


def seeded(base: Spec, seed: int) -> Spec:
    spec: Any = base
    return replace(spec, seed=seed, corpus=replace(spec.corpus, seed=spec.seed))


def one_attention(study: str, base: RunSpec | TranslationSpec) -> None:
    """Raise InputError for a model of several heads, which have no order from one training to the next."""
    if base.model.heads > 1:
        raise InputError(
            "study",
            f"{study} of a model",
            f"{base.model.heads} heads",
            "one attention a text",
            "set model.heads=1",
        )


def one_level(study: str, base: RunSpec) -> None:
    """Raise InputError for a model of sentences, whose positions are not words."""
    if base.model.hierarchical:
        raise InputError(
            "study",
            f"{study} of a model",
            "positions that are sentences",
            "positions that are words, not --preset han",
        )


def learned_attention(study: str, base: RunSpec | TranslationSpec) -> None:
    """Raise InputError for a model whose attention is fixed before training: retraining it says nothing about what attention does."""
    if base.model.attention not in LEARNED:
        raise InputError(
            "study",
            f"{study} of a model",
            f"{base.model.attention} attention",
            "an attention that is learned, as additive",
        )


def strength_text(strength: float) -> str:
    """A λ as names and labels have it: short, and no two alike."""
    short = f"{strength:g}"
    return short if float(short) == strength else repr(strength)


def check_least(study: Study, **least: int) -> None:
    """Raise InputError for a setting below the number given for it."""
    for name, number in least.items():
        if getattr(study, name) < number:
            raise InputError(
                "study",
                f"setting {study.name}.{name}",
                str(getattr(study, name)),
                f"{number} or more",
            )


def same_instances(traces: Mapping[Any, Trace]) -> None:
    """Raise InputError unless all traces have the same rows in the same order, one attention a text."""
    (first, base), *others = traces.items()
    if base.has("head"):
        got = "several heads, which have no order from one training to the next"
        raise InputError(
            "study", f"trace of {first}", got, "one attention a text", "set model.heads=1"
        )
    for name, trace in others:
        if not np.array_equal(row_numbers(trace), row_numbers(base)):
            raise InputError(
                "study", f"trace of {name}", "other instances", f"those of {first}, in their order"
            )


def row_numbers(trace: Trace) -> Int64[np.ndarray, " n"]:
    """A number for every row: its instance, and in a translation the gold token of it too."""
    return trace.instance * LONGEST + trace.array("query") if trace.has("query") else trace.instance


def without_scores(spec: Spec) -> Spec:
    """The spec of a training of which attention and prediction are enough."""
    plain: Any = spec
    return replace(plain, collect=replace(plain.collect, scores=()))
