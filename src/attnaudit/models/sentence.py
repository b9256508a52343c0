"""From the words of a sentence to one vector: the lower half of a hierarchical attention network (Yang et al. 2016)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnaudit.models.attention import attend, make_attention
from attnaudit.models.batch import Batch
from attnaudit.models.encoders import make_encoder
from attnaudit.models.presets import ModelSettings


class Sentence(nn.Module):
    """Encoder and attention over the words of each sentence; the attended sum stands for the sentence."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.encoder = make_encoder(settings)
        self.attention = make_attention(settings, self.encoder.width)
        self.dropout = nn.Dropout(settings.dropout)
        self.width = self.encoder.width

    def forward(self, embedded: Float[Tensor, "N W E"], sentences: Batch) -> Float[Tensor, "N m"]:
        hidden = self.dropout(self.encoder(embedded, sentences.lengths))
        return torch.einsum("nw,nwm->nm", self.weights(hidden, sentences), hidden)

    def weights(self, hidden: Float[Tensor, "N W m"], sentences: Batch) -> Float[Tensor, "N W"]:
        """Attention over the words of every sentence."""
        return attend(self.attention(hidden), sentences.attended)
