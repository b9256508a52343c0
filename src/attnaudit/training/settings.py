"""How a model is trained and what it minimises, as values: read by plans and reports, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attnaudit.core.errors import InputError
from attnaudit.core.settings import setting
from attnaudit.models.presets import ERASURE_PRESETS


@dataclass(frozen=True)
class TrainingSettings:
    """How to train. Raises InputError for a value out of range.

    Whatever ``patience`` is, training stops at a perfect dev score, since no later epoch could be selected. With ``steps`` the last epoch
    is cut short, and ``epochs``, ``patience`` and a perfect dev score are ignored.
    """

    epochs: int = setting(
        "Largest number of epochs; the one with the best dev score is kept. Also --epochs.", 8
    )
    batch_size: int = setting("Texts, or pairs, per batch.", 32)
    learning_rate: float = setting("Learning rate of Adam.", 1e-3)
    weight_decay: float = setting("L2 penalty on the parameters.", 1e-5)
    amsgrad: bool = setting("The AMSGrad variant of Adam.", False)
    class_weight: bool = setting(
        "With two classes, weight the positive class by the number of negatives per positive in train.",
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
        "Dev score that selects the epoch; usual: ROC-AUC for a classifier, accuracy with a question; loss: the lowest loss.",
        "usual",
    )
    steps: int | None = setting(
        "Exact number of optimizer steps, instead of epochs; none: count epochs.", None
    )
    threads: int = setting(
        "Threads per torch operation on a CPU. Results depend on this number, so the default does not depend on the machine.",
        1,
    )

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate", "threads"):
            if not getattr(self, name) > 0:
                raise InputError(
                    "train", f"training.{name}", repr(getattr(self, name)), "a number above 0"
                )
        if not self.weight_decay >= 0:
            raise InputError("train", "training.weight_decay", repr(self.weight_decay), "0 or more")
        for name, otherwise in (
            ("patience", "to train them all"),
            ("plateau", "for one learning rate"),
        ):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(
                    "train",
                    f"training.{name}",
                    repr(getattr(self, name)),
                    f"1 or more epochs, or null {otherwise}",
                )
        if self.steps is not None and self.steps < 1:
            raise InputError(
                "train",
                "training.steps",
                repr(self.steps),
                "1 or more optimizer steps, or null to count epochs",
            )


def training_preset(preset: str) -> TrainingSettings:
    """The training of Jain & Wallace 2019, that of their released code (AMSGrad), or that of Serrano & Smith 2019 (``flan``, ``han``)."""
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
    """``mean TVD(ŷ, ŷ_base) − strength · mean KL(α ‖ α_base)``: the base model's output, another attention; no labels (Wiegreffe & Pinter
    2019).

    ``scaling`` "released" halves the TVD, as the authors' code does; it also sums over the batch, a factor that Adam ignores.
    ``divergence`` "reversed" is ``KL(α_base ‖ α)`` (Snell et al. 2020). Attention and predictions of the base model come with the split
    (`taught_by`). Raises InputError for a negative strength.
    """

    strength: float
    scaling: Literal["mean", "released"] = "mean"
    divergence: Literal["forward", "reversed"] = "forward"
    kind: Literal["adversary"] = "adversary"

    __post_init__ = _check_strength


@dataclass(frozen=True)
class Deceive:
    """The loss on labels ``− strength · mean log(1 − Σ_{t∈I} alpha_t)``: no attention on impermissible tokens I (Pruthi et al. 2020).

    I are the tokens among ``words``, or those of the rationale where ``words`` is None. A text of impermissible tokens alone would have an
    infinite penalty: only its loss on the label counts. With several heads, ``heads`` takes the mean over them, or the head with the most
    attention on I ("max"). Raises InputError for a negative strength.
    """

    strength: float
    words: tuple[str, ...] | None = None
    heads: Literal["mean", "max"] = "mean"
    kind: Literal["deceive"] = "deceive"

    __post_init__ = _check_strength


@dataclass(frozen=True)
class DeceivePairs:
    """The loss on gold tokens ``− strength · mean log(1 − Σ_{s∈I_t} alpha_ts)`` (Pruthi et al. 2020, §5).

    I_t are the source tokens aligned with gold token t; of several heads the mean counts. Of a gold token that is aligned with nothing, or
    with the whole source, only the loss on the token counts. Raises InputError for a negative strength.
    """

    strength: float
    kind: Literal["deceive_pairs"] = "deceive_pairs"

    __post_init__ = _check_strength


@dataclass(frozen=True)
class Guided:
    """The loss on labels ``+ strength · mean KL(target ‖ alpha)``: attention is trained to be the ``target``.

    ``rationale`` is the softmax over positions of ``1 / temperature`` at the words of the rationale and 0 elsewhere; ``words`` the same for
    the tokens among ``words``; ``last`` for the last token; ``given`` the attention that comes with the split (`taught_by`).

    ``alone`` adds that many times the mean square of the readouts of the positions that the target does not mark, so that they contribute
    nothing under any attention. Raises InputError for a negative strength and a temperature that is not above 0.
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
            raise InputError(
                "train", "objective temperature", str(self.temperature), "a number above 0"
            )


@dataclass(frozen=True)
class Sparse:
    """The loss on labels ``+ strength · mean entropy of alpha`` in nats: attention is driven to few tokens, which ones is not said.

    Raises InputError for a negative strength.
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
