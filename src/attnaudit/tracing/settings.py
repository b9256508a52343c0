"""Settings of traces. Plans and reports read them, so nothing here imports torch."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from attnaudit.core.settings import Settings, setting

Outputs = Literal["all", "predicted"]
Score = Literal["gradient", "loo"]
HEATMAP = "mean-last"  # what most viewers draw
HEATMAP_MEANING = (
    "Heatmap of a text that is judged: mean-last, the mean over the heads of the last layer, "
    "mean-all over those of all layers, head:L.H, or a measure of importance, such as rollout."
)


@dataclass(frozen=True)
class CollectSettings:
    """Settings of the trace of a classifier."""

    gradient_of: Outputs = setting(
        "Outputs whose gradients are taken: all (summed), or the predicted one.", "all"
    )
    erase_input: bool = setting(
        "Also delete tokens from the texts by every score and rerun the model, at thirty times "
        "the cost.",
        False,
    )
    scores: tuple[Score, ...] = setting(
        "Importance scores to compute: gradients and leave-one-out.", ("gradient", "loo")
    )


@dataclass(frozen=True)
class ReplacementSettings(Settings):
    """Settings of the copies of texts in which words are replaced."""

    name: ClassVar = "replacement"
    texts: int = setting(
        "Number of texts, or of tokens that a model predicts, for which words are replaced by "
        "those of other texts; drawn with the seed; 0: none.",
        500,
        least=0,
    )
    copies: int = setting(
        "Copies of each text, doubled up to 240 where the texts are few.", 60, least=10
    )
    seed: int = setting("Seed of the texts, and of the words that are replaced.", 0)


@dataclass(frozen=True)
class PairCollectSettings(Settings):
    """Settings of the trace of a translator.

    Raises:
        InputError: A number is out of range.
    """

    name: ClassVar = "collect"
    pairs: int | None = setting(
        "Number of test pairs to trace, drawn with the seed; none: all.", 200, least=1
    )
    scores: tuple[Score, ...] = setting(
        "Importance scores to compute: gradients of the gold token's probability, and "
        "leave-one-out as TVD over all words.",
        ("gradient", "loo"),
    )
