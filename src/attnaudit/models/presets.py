"""Which model: encoder × attention and their sizes, with the presets of Jain & Wallace 2019 and of Serrano & Smith 2019."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attnaudit.core.errors import InputError, did_you_mean

Preset = Literal["paper", "code2019", "flan", "han"]


@dataclass(frozen=True)
class ModelSettings:
    """Sizes of a model.

    ``hidden`` is units per direction (bilstm, bigru), filters per kernel (cnn) or units (average); the encoder ``none`` has no layer.
    ``activation`` follows the linear layer of the average encoder. ``attention_units`` are those of additive attention, None for half the
    width of the hidden states. ``dropout`` is the share of the numbers of embedded tokens and of hidden states that is left out in
    training. ``attention_decay`` tells whether weight decay also acts on the attention's parameters and ``unknown_vectors`` what a word
    starts from that a file of vectors lacks, zero or N(0, 1).

    ``attention`` is additive or dot; ``uniform`` is 1/T and learns nothing, ``imposed`` is given with each text (Wiegreffe & Pinter 2019).

    Several ``heads`` attend side by side, each to its own part of the hidden states. The ``transformer`` has a layer of self-attention,
    with as many heads, below the attention that is traced.

    A ``hierarchical`` model has encoder and attention twice: words make sentences, sentences the text (Yang et al. 2016).
    """

    encoder: str = "bilstm"
    attention: str = "additive"
    embedding: int = 300
    hidden: int = 128
    kernels: tuple[int, ...] = (1, 3, 5, 7)
    activation: Literal["relu", "tanh"] = "relu"
    attention_decay: bool = True
    unknown_vectors: Literal["normal", "zero"] = "zero"
    attention_units: int | None = None
    dropout: float = 0.0
    hierarchical: bool = False
    heads: int = 1

    def __post_init__(self) -> None:
        if self.heads < 1 or self.hidden % self.heads or (self.encoder == "transformer" and self.embedding % self.heads):
            got = f"{self.heads} with {self.hidden} hidden units and word vectors of {self.embedding}"
            raise InputError("build model", "model.heads", got, "1 or more, of which both are multiples")
        if self.hierarchical and (self.heads > 1 or self.encoder == "transformer"):
            raise InputError("build model", "preset han", "a transformer, or several heads", "another encoder, and one head")
        if not 0 <= self.dropout < 1:
            raise InputError("build model", "model.dropout", str(self.dropout), "a share from 0 to below 1")
        for name in ("embedding", "hidden", "attention_units"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError("build model", f"model.{name}", str(getattr(self, name)), "1 or more")
        if not self.kernels or any(kernel < 1 or kernel % 2 == 0 for kernel in self.kernels):
            raise InputError("build model", "model.kernels", str(list(self.kernels)), "odd widths, so that same padding is symmetric")


_HIDDEN = {
    "paper": {"bilstm": 128, "bigru": 128, "cnn": 64, "average": 256, "none": 1, "transformer": 128},
    "code2019": {"bilstm": 128, "bigru": 128, "cnn": 32, "average": 128, "none": 1, "transformer": 128},
    "flan": {"bilstm": 50, "bigru": 50, "cnn": 50, "average": 100, "none": 1, "transformer": 100},
}
_HIDDEN["han"] = _HIDDEN["flan"]
HEADS = 4  # of a transformer
ERASURE_PRESETS = ("flan", "han")
ATTENTION_NAMES = ("additive", "dot", "uniform", "imposed")


def model_preset(encoder: str, attention: str, preset: str = "paper") -> ModelSettings:
    """The model of a preset. Raises InputError for an unknown name.

    ``paper``: as Jain & Wallace 2019 say; ``code2019``: as their released code has it; ``flan`` and ``han``: the flat and the hierarchical
    attention network of Serrano & Smith 2019.
    """
    for kind, name, known in (
        ("preset", preset, _HIDDEN),
        ("encoder", encoder, _HIDDEN["paper"]),
        ("attention", attention, ATTENTION_NAMES),
    ):
        if name not in known:
            raise InputError("build model", kind, repr(name), f"one of {', '.join(known)}", did_you_mean(name, known))
    hidden, heads = _HIDDEN[preset][encoder], HEADS if encoder == "transformer" else 1
    if preset in ERASURE_PRESETS:
        return ModelSettings(
            encoder, attention, embedding=200, hidden=hidden, kernels=(3, 5), attention_units=100, dropout=0.5,
            hierarchical=preset == "han", heads=heads,
        )  # fmt: skip
    released = preset == "code2019"
    activation = "tanh" if released else "relu"
    return ModelSettings(encoder, attention, hidden=hidden, activation=activation, attention_decay=not released, heads=heads)
