"""Settings of a training and its objectives, as values.

Plans and reports read them, so nothing here imports torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attnaudit.core.errors import InputError
from attnaudit.core.settings import setting
from attnaudit.models.presets import ERASURE_PRESETS


@dataclass(frozen=True)
class TrainingSettings:
    """How to train.

    Whatever ``patience`` is, training stops at a perfect dev score, since no later epoch could be
    selected. With ``steps`` the last epoch is cut short, and ``epochs``, ``patience`` and a perfect
    dev score are ignored.

    Raises:
        InputError: A value is out of range.
    """

    epochs: int = setting(
        "Largest number of epochs; the one with the best dev score is kept. Also --epochs.", 8
    )
    batch_size: int = setting("Texts, or pairs, per batch.", 32)
    learning_rate: float = setting("Learning rate of Adam.", 1e-3)
    weight_decay: float = setting("L2 penalty on the parameters.", 1e-5)
    amsgrad: bool = setting("The AMSGrad variant of Adam.", False)
    class_weight: bool = setting(
        "With two classes, weight the positive class by the number of negatives per positive in "
        "train.",
        True,
    )
    patience: int | None = setting(
        "Stop after this many epochs without a better dev score; none: train all epochs.", None
    )
    plateau: int | None = setting(
        "Halve the learning rate after this many epochs without a better dev score; none: keep it.",
        None,
    )
    select: Literal["usual", "accuracy", "loss"] = setting(
        "Dev score that selects the epoch; usual: ROC-AUC for a classifier, accuracy with a "
        "question; loss: the lowest loss.",
        "usual",
    )
    steps: int | None = setting(
        "Exact number of optimizer steps, instead of epochs; none: count epochs.", None
    )
    threads: int = setting(
        "Threads per torch operation on a CPU. Results depend on this number, so the default does "
        "not depend on the machine.",
        1,
    )

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate", "threads"):
            if not getattr(self, name) > 0:
                self._refuse(name, "a number above 0")
        if not self.weight_decay >= 0:
            self._refuse("weight_decay", "0 or more")
        for name, expected in (
            ("patience", "1 or more epochs, or null to train them all"),
            ("plateau", "1 or more epochs, or null for one learning rate"),
            ("steps", "1 or more optimizer steps, or null to count epochs"),
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                self._refuse(name, expected)

    def _refuse(self, name: str, expected: str) -> None:
        raise InputError("train", f"training.{name}", repr(getattr(self, name)), expected)


def training_preset(preset: str) -> TrainingSettings:
    """Return the training of a preset.

    ``paper`` is that of Jain & Wallace 2019, ``code2019`` that of their released code (AMSGrad),
    ``flan`` and ``han`` are those of Serrano & Smith 2019.
    """
    if preset in ERASURE_PRESETS:
        return TrainingSettings(
            epochs=30,
            batch_size=64,
            weight_decay=0.0,
            class_weight=False,
            patience=5,
            plateau=1,
            select="accuracy",
        )
    return TrainingSettings(amsgrad=preset == "code2019")


def _check_strength(objective: Adversary | Deceive | DeceivePairs | Guided | Sparse) -> None:
    if not objective.strength >= 0:
        raise InputError("train", "objective strength (λ)", str(objective.strength), "0 or more")


@dataclass(frozen=True)
class Adversary:
    """Another attention with the output of a base model (Wiegreffe & Pinter 2019).

    The loss is ``mean TVD(ŷ, ŷ_base) − strength · mean KL(α ‖ α_base)``; labels are not used.
    Attention and predictions of the base model come with the split (`taught_by`).

    Attributes:
        strength: λ, 0 or more.
        scaling: "released" halves the TVD, as the authors' code does; it also sums over the batch,
            a factor that Adam ignores.
        divergence: "reversed" is ``KL(α_base ‖ α)`` (Snell et al. 2020).
        kind: The name of the objective in a spec.

    Raises:
        InputError: The strength is negative.
    """

    strength: float
    scaling: Literal["mean", "released"] = "mean"
    divergence: Literal["forward", "reversed"] = "forward"
    kind: Literal["adversary"] = "adversary"

    __post_init__ = _check_strength


@dataclass(frozen=True)
class Deceive:
    """No attention on impermissible tokens I (Pruthi et al. 2020).

    The loss is that on labels ``− strength · mean log(1 − Σ_{t∈I} alpha_t)``. A text that only has
    impermissible tokens would have an infinite penalty: only its loss on the label counts.

    Attributes:
        strength: λ, 0 or more.
        words: Impermissible words; None: those of the rationale.
        heads: Of several heads, the mean counts, or the head with the most attention on I ("max").
        kind: The name of the objective in a spec.

    Raises:
        InputError: The strength is negative.
    """

    strength: float
    words: tuple[str, ...] | None = None
    heads: Literal["mean", "max"] = "mean"
    kind: Literal["deceive"] = "deceive"

    __post_init__ = _check_strength


@dataclass(frozen=True)
class DeceivePairs:
    """No attention of a translator on aligned source tokens (Pruthi et al. 2020, §5).

    The loss is that on gold tokens ``− strength · mean log(1 − Σ_{s∈I_t} alpha_ts)``, where I_t are
    the source tokens aligned with gold token t; of several heads the mean counts. If a gold token
    is aligned with nothing, or with the whole source, only its loss counts.

    Attributes:
        strength: λ, 0 or more.
        kind: The name of the objective in a spec.

    Raises:
        InputError: The strength is negative.
    """

    strength: float
    kind: Literal["deceive_pairs"] = "deceive_pairs"

    __post_init__ = _check_strength


@dataclass(frozen=True)
class Guided:
    """Attention that is trained to be a target.

    The loss is that on labels ``+ strength · mean KL(target ‖ alpha)``.

    Attributes:
        strength: λ, 0 or more.
        target: ``rationale`` is the softmax over positions of ``1 / temperature`` at the words of
            the rationale and 0 elsewhere; ``words`` is the same for the tokens among ``words``, and
            ``last`` for the last token; ``given`` is attention that comes with the split
            (`taught_by`).
        words: Words of the target ``words``.
        temperature: Above 0.
        alone: Adds this times the mean square of the readouts of positions that the target does not
            mark, so that they contribute nothing under any attention.
        kind: The name of the objective in a spec.

    Raises:
        InputError: The strength is negative, or the temperature is not above 0.
    """

    strength: float
    target: Literal["rationale", "words", "last", "given"] = "rationale"
    words: tuple[str, ...] = ()
    temperature: float = 0.1
    alone: float = 0.0
    kind: Literal["guided"] = "guided"

    def __post_init__(self) -> None:
        _check_strength(self)
        if not self.temperature > 0:
            expected = "a number above 0"
            raise InputError("train", "objective temperature", str(self.temperature), expected)


@dataclass(frozen=True)
class Sparse:
    """Attention on few tokens, whichever they are.

    The loss is that on labels ``+ strength · mean entropy of alpha``, in nats.

    Attributes:
        strength: λ, 0 or more.
        kind: The name of the objective in a spec.

    Raises:
        InputError: The strength is negative.
    """

    strength: float
    kind: Literal["sparse"] = "sparse"

    __post_init__ = _check_strength


Objective = Adversary | Deceive | Guided | Sparse
OBJECTIVES: dict[str, type[Adversary] | type[Deceive] | type[Guided] | type[Sparse]] = {
    "adversary": Adversary,
    "deceive": Deceive,
    "guided": Guided,
    "sparse": Sparse,
}
