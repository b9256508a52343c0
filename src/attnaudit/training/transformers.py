"""The transformers that are trained here: their classes in the transformers library, their sizes, and how each is trained.

Nothing here imports torch: the command line and plans read it. A further configuration is one entry of `CONFIGS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.settings import check_settings, setting
from attnaudit.training.settings import TrainingSettings


@dataclass(frozen=True)
class TransformerSizes:
    """Sizes of a transformer and of its vocabulary. Raises InputError for a value out of range.

    Attention is never dropped in training: the weights that an objective sees are those that act, in training as in use.
    """

    layers: int = setting("Number of layers.", 4, least=1)
    heads: int = setting("Number of heads per layer.", 4, least=1)
    width: int = setting("Width of a token's state, shared by the heads of a layer.", 128, least=1)
    inner: int = setting("Units of the feed-forward part of each layer.", 512, least=1)
    dropout: float = setting(
        "Dropout rate of embeddings, of the outputs of layers and before the classifier.", 0.1
    )
    word_dropout: float = setting(
        "Share of the word pieces that training replaces by the unknown token, drawn at each step.",
        0.2,
    )
    length: int = setting(
        "Longest text in word pieces, special tokens included; longer ones are cut.", 128, least=4
    )
    vocabulary: int = setting("Largest number of word pieces learned from train.", 8000, least=1)

    def __post_init__(self) -> None:
        check_settings(self, "model")
        if self.width % self.heads:
            raise InputError(
                "build model",
                "setting model.width",
                f"{self.width} with {self.heads} heads",
                "a multiple of model.heads",
            )
        for name in ("dropout", "word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(
                    "build model",
                    f"setting model.{name}",
                    str(getattr(self, name)),
                    "a share from 0 to below 1",
                )


@dataclass(frozen=True)
class Schedule:
    """The learning rate of each optimizer step: it rises linearly, then falls linearly to 0. Raises InputError for a value out of range."""

    warmup: float = setting(
        "Share of the steps in which the learning rate rises to training.learning_rate.", 0.1
    )

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < 1:
            raise InputError(
                "train", "setting schedule.warmup", str(self.warmup), "a share from 0 to below 1"
            )

    def share(self, step: int, steps: int) -> float:
        """The learning rate of a step, which counts from 0 to ``steps`` - 1, as a share of the highest."""
        rising = self.warmup * steps
        return min((step + 1) / rising, 1.0) if step < rising else (steps - step) / (steps - rising)


@dataclass(frozen=True)
class Architecture:
    """A class of the transformers library, by its ``model`` and ``config``.

    ``arguments`` of the configuration are fields of `TransformerSizes`, ``fixed`` ones are the same in all sizes. ``scores`` are
    the modules that make the queries and the keys of layer ``{layer}``; a single one makes queries, keys and values, in this order. With
    ``causal`` it predicts the next token of a text, else the class of the text. ``reads_types`` is true where it tells a second text from
    the first.
    """

    model: str
    config: str
    arguments: Mapping[str, str]
    fixed: Mapping[str, Any]
    scores: tuple[str, ...]
    causal: bool = False
    reads_types: bool = False


BERT = Architecture(
    "BertForSequenceClassification",
    "BertConfig",
    {
        "num_hidden_layers": "layers",
        "num_attention_heads": "heads",
        "hidden_size": "width",
        "intermediate_size": "inner",
        "hidden_dropout_prob": "dropout",
        "max_position_embeddings": "length",
    },
    {"attention_probs_dropout_prob": 0.0},
    tuple(f"bert.encoder.layer.{{layer}}.attention.self.{name}" for name in ("query", "key")),
    reads_types=True,
)
DISTILBERT = Architecture(
    "DistilBertForSequenceClassification",
    "DistilBertConfig",
    {
        "n_layers": "layers",
        "n_heads": "heads",
        "dim": "width",
        "hidden_dim": "inner",
        "dropout": "dropout",
        "seq_classif_dropout": "dropout",
        "max_position_embeddings": "length",
    },
    {"attention_dropout": 0.0},
    tuple(
        f"distilbert.transformer.layer.{{layer}}.attention.{name}" for name in ("q_lin", "k_lin")
    ),
)
GPT2 = Architecture(
    "GPT2LMHeadModel",
    "GPT2Config",
    {
        "n_layer": "layers",
        "n_head": "heads",
        "n_embd": "width",
        "n_inner": "inner",
        "embd_pdrop": "dropout",
        "resid_pdrop": "dropout",
        "n_positions": "length",
    },
    {"attn_pdrop": 0.0},
    ("transformer.h.{layer}.attn.c_attn",),
    causal=True,
)


@dataclass(frozen=True)
class TransformerConfig:
    """A transformer that can be trained by its name: what it is, its sizes, and how it is trained by default."""

    architecture: Architecture
    model: TransformerSizes
    training: TrainingSettings
    schedule: Schedule = field(default_factory=Schedule)


def _training(**changed: Any) -> TrainingSettings:
    return TrainingSettings(
        **{
            "epochs": 5,
            "learning_rate": 3e-4,
            "weight_decay": 0.01,
            "class_weight": False,
            **changed,
        }
    )


_TINY = TransformerSizes(layers=2, heads=2, width=64, inner=128, vocabulary=1000)
_TINY_TRAINING = {"learning_rate": 1e-3, "epochs": 10}
CONFIGS: dict[str, TransformerConfig] = {
    "small-bert": TransformerConfig(BERT, TransformerSizes(), _training()),
    "tiny-bert": TransformerConfig(BERT, _TINY, _training(**_TINY_TRAINING)),
    "small-distilbert": TransformerConfig(DISTILBERT, TransformerSizes(), _training()),
    "small-gpt2": TransformerConfig(GPT2, TransformerSizes(), _training(select="loss")),
    "tiny-gpt2": TransformerConfig(GPT2, _TINY, _training(**_TINY_TRAINING, select="loss")),
}


def config_named(name: str) -> TransformerConfig:
    """The entry of `CONFIGS`. Raises InputError."""
    if name not in CONFIGS:
        raise InputError(
            "train transformer",
            "--config",
            repr(name),
            f"one of {', '.join(CONFIGS)}",
            did_you_mean(name, CONFIGS),
        )
    return CONFIGS[name]
