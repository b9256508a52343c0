"""Transformers that can be trained by name: their classes, sizes and training settings.

The command line and plans read this, so nothing here imports torch. To add a configuration, add an
entry to `CONFIGS`.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from attnaudit.core import InputError, require_known
from attnaudit.core.settings import Settings, setting
from attnaudit.training.settings import TrainingSettings


@dataclass(frozen=True)
class TransformerSizes(Settings):
    """Sizes of a transformer and of its vocabulary.

    Training never drops attention, so that an objective sees the weights that the model uses.

    Raises:
        InputError: A value is out of range.
    """

    name: ClassVar = "model"
    layers: int = setting("Number of layers.", 4, least=1)
    heads: int = setting("Number of heads per layer.", 4, least=1)
    width: int = setting("Width of a token's state, shared by the heads of a layer.", 128, least=1)
    inner: int = setting("Units of the feed-forward part of each layer.", 512, least=1)
    dropout: float = setting(
        "Dropout rate of embeddings, of the outputs of layers and before the classifier.",
        0.1,
        least=0,
        below=1,
    )
    word_dropout: float = setting(
        "Share of the word pieces that training replaces by the unknown token, drawn at each step.",
        0.2,
        least=0,
        below=1,
    )
    length: int = setting(
        "Longest text in word pieces, special tokens included; longer ones are cut.", 128, least=4
    )
    vocabulary: int = setting("Largest number of word pieces learned from train.", 8000, least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            got = f"{self.width} with {self.heads} heads"
            raise InputError("build model", "setting model.width", got, "a multiple of model.heads")


@dataclass(frozen=True)
class Schedule(Settings):
    """Schedule of the learning rate: a linear rise, then a linear fall to 0.

    Raises:
        InputError: A value is out of range.
    """

    name: ClassVar = "schedule"
    warmup: float = setting(
        "Share of the steps in which the learning rate rises to training.learning_rate.",
        0.1,
        least=0,
        below=1,
    )

    def share(self, step: int, steps: int) -> float:
        """Return the learning rate of a step as a share of the highest.

        Args:
            step: Number of the step, from 0 to ``steps − 1``.
            steps: Number of steps of the training.

        Returns:
            The share, above 0 and at most 1.
        """
        # The rise begins at `step + 1`, because a first step at a rate of 0 would be wasted.
        rising = self.warmup * steps
        return min((step + 1) / rising, 1.0) if step < rising else (steps - step) / (steps - rising)


@dataclass(frozen=True)
class Architecture:
    """A class of the transformers library.

    Attributes:
        model: Name of the class.
        config: Name of the class of its configuration.
        arguments: Arguments of the configuration, each with the field of `TransformerSizes` that it
            gets.
        fixed: Arguments that are the same for all sizes.
        scores: Modules that make the queries and keys of layer ``{layer}``. A single module makes
            queries, keys and values, in this order.
        causal: True if the model predicts the next token of a text, else its class.
        reads_types: True if the model distinguishes a second text from the first.
    """

    model: str
    config: str
    arguments: Mapping[str, str]
    fixed: Mapping[str, Any]
    scores: Sequence[str]
    causal: bool = False
    reads_types: bool = False


_TABLES = Path(__file__).with_name("architectures.toml").read_text(encoding="utf-8")
_BERT, _DISTILBERT, _GPT2 = (
    Architecture(**tomllib.loads(_TABLES)[name]) for name in ("bert", "distilbert", "gpt2")
)


@dataclass(frozen=True)
class TransformerConfig:
    """A transformer that can be trained by name, with its default sizes and training."""

    architecture: Architecture
    model: TransformerSizes
    training: TrainingSettings
    schedule: Schedule = field(default_factory=Schedule)


# Chosen on dev of SST. The best epoch is the second or third there; rates of 2e-4 to 5e-4 differ by
# no more than seeds do.
_SMALL_TRAINING = TrainingSettings(
    epochs=5, learning_rate=3e-4, weight_decay=0.01, class_weight=False
)
_TINY_TRAINING = replace(_SMALL_TRAINING, epochs=10, learning_rate=1e-3)
_SMALL = TransformerSizes()
_TINY = TransformerSizes(layers=2, heads=2, width=64, inner=128, vocabulary=1000)
CONFIGS: dict[str, TransformerConfig] = {
    "small-bert": TransformerConfig(_BERT, _SMALL, _SMALL_TRAINING),
    "tiny-bert": TransformerConfig(_BERT, _TINY, _TINY_TRAINING),
    "small-distilbert": TransformerConfig(_DISTILBERT, _SMALL, _SMALL_TRAINING),
    # A model that predicts the next token is selected by its loss.
    "small-gpt2": TransformerConfig(_GPT2, _SMALL, replace(_SMALL_TRAINING, select="loss")),
    "tiny-gpt2": TransformerConfig(_GPT2, _TINY, replace(_TINY_TRAINING, select="loss")),
}


def config_named(name: str) -> TransformerConfig:
    """Return the entry of `CONFIGS` with this name.

    Raises:
        InputError: There is none.
    """
    require_known("train transformer", "--model", name, CONFIGS)
    return CONFIGS[name]
