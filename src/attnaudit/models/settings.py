"""Which model: encoder × attention and their sizes, with the presets of Jain & Wallace 2019."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from attnaudit.errors import InputError, did_you_mean

Preset = Literal["paper", "code2019"]


@dataclass(frozen=True)
class ModelSettings:
    """Sizes of a model.

    ``hidden`` is units per direction (bilstm), filters per kernel (cnn) or units (average). ``activation`` follows the linear layer
    of the average encoder. ``attention_decay`` tells whether weight decay also acts on the attention's parameters and
    ``unknown_vectors`` what a word starts from that a file of vectors lacks, zero or N(0, 1).
    """

    encoder: str = "bilstm"
    attention: str = "additive"
    embedding: int = 300
    hidden: int = 128
    kernels: tuple[int, ...] = (1, 3, 5, 7)
    activation: Literal["relu", "tanh"] = "relu"
    attention_decay: bool = True
    unknown_vectors: Literal["normal", "zero"] = "zero"

    def __post_init__(self) -> None:
        for name in ("embedding", "hidden"):
            if getattr(self, name) < 1:
                raise InputError("build model", f"model.{name}", str(getattr(self, name)), "1 or more")
        if not self.kernels or any(kernel < 1 or kernel % 2 == 0 for kernel in self.kernels):
            raise InputError("build model", "model.kernels", str(list(self.kernels)), "odd widths, so that same padding is symmetric")


_HIDDEN = {
    "paper": {"bilstm": 128, "cnn": 64, "average": 256},
    "code2019": {"bilstm": 128, "cnn": 32, "average": 128},
}
ATTENTION_NAMES = ("additive", "dot")


def model_preset(encoder: str, attention: str, preset: str = "paper") -> ModelSettings:
    """The model as the paper says, or as its released code has it (``code2019``). Raises InputError for an unknown name."""
    for kind, name, known in (
        ("preset", preset, _HIDDEN),
        ("encoder", encoder, _HIDDEN["paper"]),
        ("attention", attention, ATTENTION_NAMES),
    ):
        if name not in known:
            raise InputError("build model", kind, repr(name), f"one of {', '.join(known)}", did_you_mean(name, known))
    released = preset == "code2019"
    return ModelSettings(
        encoder, attention, hidden=_HIDDEN[preset][encoder], activation="tanh" if released else "relu",
        attention_decay=not released,
    )  # fmt: skip
