"""A construction: how a model comes to be whose attention is faithful, or is not, and why that is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from attnaudit.core.registry import Registry
from attnaudit.models.presets import ENCODERS, EncoderSpec, register_encoder
from attnaudit.plans.training import Training, TrainingId
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.plans.spec import RunSpec
    from attnaudit.training.settings import Objective

Truth = Literal["faithful", "unfaithful", "between", "none"]
Transformation = Callable[[Trace, "float | None", int], Trace]


@dataclass(frozen=True)
class Construction:
    """One construction.

    ``truth`` is ``none`` where there is nothing to be faithful to (sanity checks), ``between`` where the definition of
    docs/calibration.md gives no truth; ``reason`` says in a sentence why it is known. ``half`` is the half that the calibrated degree is
    fitted on, or reported on. Every model reads texts planted by ``rule``, is trained with ``settings`` and, if there is one, with
    ``objective(strength)``; the trace of a model of the construction ``teacher`` on the same texts may be taken as given. With ``base`` the
    model is that of another construction, and ``transform(trace, strength, seed)`` of its trace is audited.

    ``strengths`` are the positions of a dial, along which attention becomes less faithful, unless the dial is a ``nuisance``, which leaves
    the truth as it is; ``encoder_of`` are the encoders of a dial of encoders.
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
    encoder_of: Mapping[float, str] = field(default_factory=dict)

    @property
    def is_dial(self) -> bool:
        return len(self.strengths) > 1


@dataclass(frozen=True, eq=False)
class Cell:
    """One model to be audited: a construction on a corpus, with an encoder, a seed and, of a dial, a strength."""

    construction: Construction
    corpus: str
    encoder: str
    seed: int
    strength: float | None
    training: Training

    @property
    def name(self) -> str:
        strength = "" if self.strength is None else f"{self.strength:g}"
        return "-".join(
            filter(
                None, (self.construction.name, self.corpus, self.encoder, strength, f"s{self.seed}")
            )
        )

    def audited(self, trace: Trace) -> Trace:
        """What is audited of the training's trace: without the deciding words, which a user does not know."""
        transform = self.construction.transform
        changed = trace if transform is None else transform(trace, self.strength, self.seed)
        return replace(
            changed,
            table=changed.table.drop("rationale", strict=False),
        )


CONSTRUCTIONS: Registry[Construction] = Registry("construction", "attnaudit.constructions")


def cells_of(
    construction: Construction, base: Mapping[str, RunSpec], seeds: int, encoders: int | None = None
) -> list[Cell]:
    """The cells of a construction: of every corpus (``base`` has an ordinary spec of each), encoder (at most ``encoders``) and strength."""
    chosen = construction.encoders[:encoders]
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
        for encoder in chosen
        for strength in construction.strengths
        for seed in range(seeds)
    ]


def training_of(
    construction: Construction,
    base: RunSpec,
    corpus: str,
    encoder: str,
    seed: int,
    strength: float | None,
) -> Training:
    """The training of a cell, with that of its teacher."""
    from attnaudit.plans.spec import RunSpec

    if construction.base:
        return training_of(CONSTRUCTIONS[construction.base], base, corpus, encoder, seed, None)
    teacher = None
    if construction.teacher:
        teacher = training_of(
            CONSTRUCTIONS[construction.teacher], base, corpus, encoder, seed, None
        )
    real = encoder if strength is None else construction.encoder_of.get(strength, encoder)
    if (
        real not in ENCODERS
    ):  # those of a dial are no choice for users, and are registered where they are needed
        register_encoder(
            EncoderSpec(real, f"attnaudit.models.mixed:{real}", hidden=SMALL["model.hidden"])
        )
    settings = {**SMALL, **OF_ENCODER.get(real, {}), **construction.settings}
    fresh = RunSpec.of(
        base.corpus.source,
        encoder=real,
        attention=construction.attention,
        vectors="random",
        seed=seed,
        settings=settings,
    )
    objective = construction.objective(strength) if construction.objective else None
    spec = replace(
        fresh,
        corpus=replace(base.corpus, planted=construction.rule, seed=seed),
        objective=objective,
    )
    return Training(
        TrainingId(construction.name, seed, f"{corpus}-{encoder}", strength), spec, teacher
    )


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
