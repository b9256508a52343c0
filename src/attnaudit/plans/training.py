"""Trainings with an identity, each of which may take as given what another one gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from attnaudit.plans.spec import RunSpec, TranslationSpec
    from attnaudit.plans.transformer import TransformerTraining

Spec = TypeVar("Spec")  # a RunSpec, a TranslationSpec or a TransformerTraining


@dataclass(frozen=True)
class TrainingId:
    """Identity of a training within a plan.

    Attributes:
        role: Purpose of the training, such as "base" or "adversary".
        seed: Seed of the training.
        variant: Name of the model, or of the weights that it is given.
        strength: λ of its objective.
        part: Further trace that it leaves, besides that of the test split: ``steps/<step>``, or
            ``teacher`` for a trace of all splits.
    """

    role: str
    seed: int
    variant: str = ""
    strength: float | None = None
    part: str = ""

    def __str__(self) -> str:
        """Return the name of its folder: ``<role>-<variant>-<strength>-s<seed>``."""
        strength = "" if self.strength is None else strength_text(self.strength)
        return "-".join(filter(None, (self.role, self.variant, strength, f"s{self.seed}")))


@dataclass(frozen=True)
class Training:
    """A training of a plan; studies that ask for the same one share it.

    Attributes:
        id: Its identity.
        spec: Its whole configuration.
        teacher: Training whose attention it is given.
        column: Column of that trace that is taken for attention.
        note: Remark for readers of the results.
        also: Further steps that it needs: ``teach`` for a trace of all splits, which a teacher
            leaves anyway, ``translate`` for translations of the test split, ``intervene`` for
            predictions on changed texts, or ``attribute`` for the share of states that is their own
            word's.
    """

    id: TrainingId
    spec: RunSpec | TranslationSpec | TransformerTraining
    teacher: Training | None = None
    column: str = "alpha"
    note: str = ""
    also: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        role: str,
        spec: Any,
        variant: str = "",
        strength: float | None = None,
        **fields: Any,
    ) -> Training:
        """Make a training whose identity takes its seed from the spec.

        Args:
            role: Purpose of the training.
            spec: Its whole configuration.
            variant: Name of the model, or of the weights that it is given.
            strength: λ of its objective.
            **fields: Other fields.
        """
        return cls(TrainingId(role, spec.seed, variant, strength), spec, **fields)

    @property
    def name(self) -> str:
        """Name of its folder, less the key."""
        return str(self.id)


def usual(base: Any, seed: int) -> Training:
    """Return the training of the model under study with another seed."""
    return Training.of("base", seeded(base, seed))


def seeded(base: Spec, seed: int) -> Spec:
    """Return a spec with another seed, on the splits that the seed of ``base`` draws."""
    spec: Any = base
    return replace(spec, seed=seed, corpus=replace(spec.corpus, seed=spec.seed))


def strength_text(strength: float) -> str:
    """Format a λ for names and labels: short, and no two alike."""
    short = f"{strength:g}"
    return short if float(short) == strength else repr(strength)
