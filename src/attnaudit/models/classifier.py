"""The classifier of Jain & Wallace 2019: embed, encode, attend, one linear layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.corpora import Vocabulary
from attnaudit.corpora.vocabulary import PAD
from attnaudit.models.attention import ALL, ATTENTION, attend
from attnaudit.models.batch import Batch
from attnaudit.models.encoders import ENCODERS
from attnaudit.models.settings import ModelSettings


@dataclass(frozen=True)
class Forward:
    """What a forward pass leaves: ``hidden`` ``(B, L, m)``, ``alpha`` ``(B, L)``, ``logits`` ``(B, K)``; K = 1 for two classes."""

    hidden: Float[Tensor, "B L m"]
    alpha: Float[Tensor, "B L"]
    logits: Float[Tensor, "B K"]


class Classifier(nn.Module):
    """``logits = W Σ_t alpha_t h_t + b``; one sigmoid output for two classes, a softmax for more."""

    def __init__(self, settings: ModelSettings, vocabulary: Vocabulary, class_names: Sequence[str]) -> None:
        super().__init__()
        self.settings, self.vocabulary, self.class_names = settings, vocabulary, tuple(class_names)
        self.embedding = nn.Embedding(len(vocabulary), settings.embedding, padding_idx=PAD)
        self.encoder = ENCODERS[settings.encoder](settings)
        self.attention = ATTENTION[settings.attention](self.encoder.width)
        self.output = nn.Linear(self.encoder.width, 1 if self.classes == 2 else self.classes)

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @property
    def activation(self) -> str:
        return "sigmoid" if self.classes == 2 else "softmax"

    def forward(self, batch: Batch) -> Forward:
        return self.from_embedded(self.embedding(batch.ids), batch)

    def from_embedded(self, embedded: Float[Tensor, "B L E"], batch: Batch, *, detach_attention: bool = False) -> Forward:
        """The pass from embedded tokens on; with ``detach_attention`` no gradient flows through the weights."""
        hidden = self.encoder(embedded, batch.lengths)
        alpha = attend(self.attention(hidden), batch.attended)
        weights = alpha.detach() if detach_attention else alpha
        context = torch.einsum("bl,blm->bm", weights, hidden)
        return Forward(hidden, alpha, self.output(context))

    def readout(self, hidden: Float[Tensor, "*n d"], part: slice = ALL) -> Float[Tensor, "*n K"]:
        """What the units ``part`` of each position contribute to the logits under full attention, without the bias."""
        return functional.linear(hidden, self.output.weight[:, part])

    def probabilities(self, logits: Float[Tensor, "*n K"]) -> Float[Tensor, "*n K"]:
        return torch.sigmoid(logits) if self.classes == 2 else torch.softmax(logits, dim=-1)
