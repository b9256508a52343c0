"""The question, or the hypothesis: an embedding and an encoder of its own, and one vector Q that stands for it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnaudit.corpora.prepare.vocabulary import PAD
from attnaudit.models.batch import Batch
from attnaudit.models.encoders import make_encoder
from attnaudit.models.presets import ENCODERS, ModelSettings, resolved


class Question(nn.Module):
    """Embeds and encodes a question apart from its text; Q is the summary that the encoder registers (`EncoderSpec.summary`)."""

    def __init__(self, settings: ModelSettings, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, settings.embedding, padding_idx=PAD)
        self.encoder = make_encoder(settings)
        self.summary = resolved(ENCODERS[settings.encoder].summary)

    def forward(self, batch: Batch) -> Float[Tensor, "B m"]:
        return self.summary(self.encoder(self.embedding(batch.ids), batch.lengths), batch)


def last_states(hidden: Float[Tensor, "B L m"], batch: Batch) -> Float[Tensor, "B m"]:
    """Where each direction has read the whole text: forward at its end, backward at its start."""
    half = hidden.shape[2] // 2
    rows = torch.arange(len(hidden), device=hidden.device)
    return torch.cat([hidden[rows, batch.lengths - 1, :half], hidden[:, 0, half:]], dim=-1)


def maximum(hidden: Float[Tensor, "B L m"], batch: Batch) -> Float[Tensor, "B m"]:
    """The maximum of each unit over positions, padding excluded."""
    return hidden.masked_fill(~batch.inside[..., None], -torch.inf).amax(dim=1)


def mean(hidden: Float[Tensor, "B L m"], batch: Batch) -> Float[Tensor, "B m"]:
    """The mean over positions, padding excluded."""
    return (hidden * batch.inside[..., None]).sum(dim=1) / batch.lengths[:, None]
