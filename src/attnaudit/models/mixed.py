"""Encoders between one token by itself and a full BiLSTM, for a dial of how strongly positions are mixed (`attnaudit.calibration`)."""

from __future__ import annotations

from functools import partial

from jaxtyping import Float, Int
from torch import Tensor, nn

from attnaudit.models.encoders import bilstm
from attnaudit.models.presets import ModelSettings


class Mixed(nn.Module):
    """``(1 − share) · tanh(W e_t) + share · BiLSTM(e)_t``: 0 encodes every token by itself, 1 is a BiLSTM."""

    def __init__(self, settings: ModelSettings, share: float) -> None:
        super().__init__()
        self.recurrent, self.share = bilstm(settings), share
        self.width = self.recurrent.width
        self.single = nn.Sequential(nn.Linear(settings.embedding, self.width), nn.Tanh())

    def forward(
        self, embedded: Float[Tensor, "B L E"], lengths: Int[Tensor, " B"]
    ) -> Float[Tensor, "B L m"]:
        return (1.0 - self.share) * self.single(embedded) + self.share * self.recurrent(
            embedded, lengths
        )


mixed_0, mixed_25, mixed_50, mixed_75, mixed_100 = (
    partial(Mixed, share=share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)
)
