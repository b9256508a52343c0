"""Settings of a training, and its objectives, as plain values.

Plans and reports read them, so nothing here imports torch.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from attnaudit.core.settings import Settings, setting
from attnaudit.models.presets import ERASURE_PRESETS


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """Settings of a training.

    Training stops at a perfect dev score for any ``patience``, since no later epoch could be
    selected. With ``steps`` the last epoch is cut short, and ``epochs``, ``patience`` and a perfect
    dev score have no effect.

    Raises:
        InputError: A value is out of range.
    """

    name: ClassVar = "training"
    epochs: int = setting(
        "Largest number of epochs; the one with the best dev score is kept. Also --epochs.",
        8,
        least=1,
    )
    batch_size: int = setting("Texts, or pairs, per batch.", 32, least=1)
    learning_rate: float = setting("Learning rate of Adam.", 1e-3, above=0)
    weight_decay: float = setting("L2 penalty on the parameters.", 1e-5, least=0)
    amsgrad: bool = setting("The AMSGrad variant of Adam.", False)
    class_weight: bool = setting(
        "With two classes, weight the positive class by the number of negatives per positive in "
        "train.",
        True,
    )
    patience: int | None = setting(
        "Stop after this many epochs without a better dev score; none: train all epochs.",
        None,
        least=1,
    )
    plateau: int | None = setting(
        "Halve the learning rate after this many epochs without a better dev score; none: keep it.",
        None,
        least=1,
    )
    select: Literal["usual", "accuracy", "loss"] = setting(
        "Dev score that selects the epoch; usual: ROC-AUC for a classifier, accuracy with a "
        "question; loss: the lowest loss.",
        "usual",
    )
    steps: int | None = setting(
        "Exact number of optimizer steps, instead of epochs; none: count epochs.", None, least=1
    )
    threads: int = setting(
        "Threads per torch operation on a CPU. Results depend on this number, so the default does "
        "not depend on the machine.",
        1,
        least=1,
    )


def training_preset(preset: str) -> TrainingSettings:
    """Return the training settings of a preset.

    Args:
        preset: ``paper`` follows the text of Jain & Wallace 2019, ``code2019`` their released code
            (AMSGrad). ``flan`` and ``han`` follow Serrano & Smith 2019.

    Returns:
        The settings.
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


@dataclass(frozen=True)
class _Penalty(Settings):
    """Base of all objectives with a penalty. A bad weight raises InputError."""

    name: ClassVar = "objective"
    strength: float = setting("Weight λ of the penalty.", least=0)


@dataclass(frozen=True)
class Adversary(_Penalty):
    """Keep the output of a base model, with other attention (Wiegreffe & Pinter 2019).

    The loss is ``mean TVD(ŷ, ŷ_base) − strength · mean KL(α ‖ α_base)``; labels are not used.
    Attention and predictions of the base model come with the split (`taught_by`).

    Raises:
        InputError: The strength is negative.
    """

    kind: Literal["adversary"] = "adversary"


@dataclass(frozen=True)
class Deceive(_Penalty):
    """Keep attention off impermissible tokens I (Pruthi et al. 2020).

    The loss is the loss on labels ``− strength · mean log(1 − Σ_{t∈I} alpha_t)``. A text with only
    impermissible tokens would have an infinite penalty, so only its loss on the label counts.

    Attributes:
        words: Impermissible words; None for the words of the rationale.
        heads: With several heads, penalise their mean, or the head with the most attention on
            impermissible tokens ("max").

    Raises:
        InputError: The strength is negative.
    """

    words: tuple[str, ...] | None = None
    heads: Literal["mean", "max"] = "mean"
    kind: Literal["deceive"] = "deceive"


@dataclass(frozen=True)
class DeceivePairs(_Penalty):
    """Keep a translator's attention off aligned source tokens (Pruthi et al. 2020, §5).

    The loss is the loss on gold tokens ``− strength · mean log(1 − Σ_{s∈I_t} alpha_ts)``. I_t are
    the source tokens aligned with gold token t, and ``alpha`` is the mean over heads. A gold token
    that is aligned with nothing, or with the whole source, has no penalty.

    Attributes:
        kind: Name of the objective in a spec.

    Raises:
        InputError: The strength is negative.
    """

    kind: Literal["deceive_pairs"] = "deceive_pairs"


@dataclass(frozen=True)
class Guided(_Penalty):
    """Train attention towards a target.

    The loss is the loss on labels ``+ strength · mean KL(target ‖ alpha)``.

    Attributes:
        target: ``rationale`` is the softmax over positions of a score that is ``1 / temperature``
            at words of the rationale and 0 elsewhere. ``words`` is the same for the tokens among
            ``words``, ``last`` for the last token, and ``next`` for the tokens after the rationale.
            ``given`` is attention that comes with the split (`taught_by`).
        words: Words of the target ``words``.
        temperature: Temperature of the softmax, above 0.
        alone: Factor of a second penalty, the mean squared readout of positions that the target
            does not mark. It trains them to contribute nothing under any attention.
        kind: Name of the objective in a spec.

    Raises:
        InputError: The strength is negative, or the temperature is not above 0.
    """

    target: Literal["rationale", "words", "last", "next", "given"] = "rationale"
    words: tuple[str, ...] = ()
    temperature: float = setting("Temperature of the softmax.", 0.1, above=0)
    alone: float = 0.0
    kind: Literal["guided"] = "guided"


@dataclass(frozen=True)
class Distilled(Guided):
    """Train attention towards a target, and the output towards a base model's.

    As `Guided`, with ``mean TVD(ŷ, ŷ_base)`` in place of the loss on labels. The predictions of the
    base model come with the split (`taught_by`).

    Attributes:
        kind: Name of the objective in a spec.

    Raises:
        InputError: The strength is negative, or the temperature is not above 0.
    """

    kind: Literal["distilled"] = "distilled"  # pyright: ignore[reportIncompatibleVariableOverride]


# Objectives of classifiers. Translators have only one, `DeceivePairs`, so it needs no name here.
Objective = Adversary | Deceive | Guided | Distilled
