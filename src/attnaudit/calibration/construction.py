"""A construction: how a model comes to have attention that is faithful or not, and why we know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from attnaudit.core.registry import Registry
from attnaudit.plans.spec import RunSpec
from attnaudit.plans.training import Training, TrainingId
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.training.settings import Objective

Truth = Literal["faithful", "unfaithful", "between", "none"]
Transformation = Callable[[Trace, "float | None", int], Trace]
SMALL: dict[str, Any] = {
    "model.embedding": 16,
    "model.hidden": 16,
    "training.epochs": 10,
    "training.learning_rate": 0.01,
    "training.weight_decay": 0.0,
    "training.select": "loss",
    "training.class_weight": False,
    "training.batch_size": 32,
}
OF_ENCODER: dict[str, dict[str, Any]] = {
    "cnn": {"model.kernels": (3, 5), "model.hidden": 16},
    "transformer": {"model.heads": 1},
}


@dataclass(frozen=True)
class Construction:
    """One construction.

    Attributes:
        name: Its name.
        title: A few words on it.
        truth: ``none`` if there is nothing to be faithful to (sanity checks), ``between`` if the
            definition of docs/calibration.md gives no truth.
        reason: A sentence that says why the truth is known.
        half: The half of the calibrated degree: it is fitted on ``fit`` and reported on ``held``.
        encoders: Encoders of its models.
        attention: Attention of its models.
        rule: Plants the texts.
        settings: Settings of the training.
        objective: Maps a strength to the objective of the training.
        teacher: A construction whose models give their attention to the training.
        base: A construction whose models are used; then ``transform`` of their traces is audited.
        transform: Maps trace, strength and seed to a trace.
        strengths: Positions of a dial, along which attention becomes less faithful.
        nuisance: The truth stays along the dial.
        dial: A setting that the strength sets.
    """

    name: str
    title: str
    truth: Truth
    reason: str
    half: Literal["fit", "held", ""] = ""
    encoders: tuple[str, ...] = ("bilstm",)
    attention: str = "additive"
    rule: str = "decisive"
    settings: Mapping[str, Any] = field(default_factory=dict)
    objective: Callable[[float | None], Objective] | None = None
    teacher: str = ""
    base: str = ""
    transform: Transformation | None = None
    strengths: tuple[float | None, ...] = (None,)
    nuisance: bool = False
    dial: str = ""

    @property
    def is_dial(self) -> bool:
        """True for a construction of several strengths."""
        return len(self.strengths) > 1


CONSTRUCTIONS: Registry[Construction] = Registry("construction", "constructions")


@dataclass(frozen=True, eq=False)
class Cell:
    """One model to be audited.

    Attributes:
        construction: The construction.
        corpus: The name of the corpus.
        encoder: The encoder.
        seed: The seed.
        strength: The position on a dial.
        training: The training of the model.
    """

    construction: Construction
    corpus: str
    encoder: str
    seed: int
    strength: float | None
    training: Training

    @property
    def name(self) -> str:
        """Name of the folder."""
        strength = () if self.strength is None else (f"{self.strength:g}",)
        parts = (self.construction.name, self.corpus, self.encoder, *strength, f"s{self.seed}")
        return "-".join(parts)

    def audited(self, trace: Trace) -> Trace:
        """Return the trace as a user has it: without the deciding words."""
        transform = self.construction.transform
        shown = trace if transform is None else transform(trace, self.strength, self.seed)
        return replace(shown, table=shown.table.drop("rationale", strict=False))


def cells_of(
    construction: Construction, base: Mapping[str, RunSpec], seeds: int, encoders: int | None = None
) -> list[Cell]:
    """List the cells of a construction.

    Args:
        construction: The construction.
        base: An ordinary spec of each corpus.
        seeds: Number of seeds.
        encoders: Largest number of encoders; None: all.

    Returns:
        A cell for every corpus, encoder, strength and seed.
    """
    return [
        Cell(
            construction,
            corpus,
            encoder,
            seed,
            strength,
            training_of(construction, spec, corpus, encoder, seed, strength),
        )
        for corpus, spec in base.items()
        for encoder in construction.encoders[:encoders]
        for strength in construction.strengths
        for seed in range(seeds)
    ]


def training_of(
    construction: Construction,
    base: RunSpec,
    corpus: str,
    encoder: str,
    seed: int,
    strength: float | None = None,
) -> Training:
    """Return the training of a cell, with that of its teacher.

    Args:
        construction: The construction.
        base: An ordinary spec of the corpus.
        corpus: The name of the corpus.
        encoder: The encoder.
        seed: The seed.
        strength: The position on a dial.

    Returns:
        The training; that of the base, if there is one.
    """
    if construction.base:
        return training_of(CONSTRUCTIONS[construction.base], base, corpus, encoder, seed)
    teacher = None
    if construction.teacher:
        teacher = training_of(CONSTRUCTIONS[construction.teacher], base, corpus, encoder, seed)
    dial = {construction.dial: strength} if construction.dial else {}
    spec = RunSpec.of(
        base.corpus.source,
        encoder=encoder,
        attention=construction.attention,
        vectors="random",
        seed=seed,
        settings={**SMALL, **OF_ENCODER.get(encoder, {}), **construction.settings, **dial},
    )
    spec = replace(
        spec,
        corpus=replace(base.corpus, planted=construction.rule, seed=seed),
        objective=construction.objective(strength) if construction.objective else None,
    )
    name = TrainingId(construction.name, seed, f"{corpus}-{encoder}", strength)
    return Training(name, spec, teacher)
