"""Encoders: embedded tokens ``(B, L, E)`` to hidden states ``(B, L, m)``, independent of padding; encoders of questions and sentences."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnaudit.corpora.prepare.vocabulary import PAD
from attnaudit.models.attention import attend, make_attention
from attnaudit.models.batch import Batch
from attnaudit.models.presets import ENCODERS, ModelSettings, resolved


class Bidirectional(nn.Module):
    """A recurrent layer from each end; the backward one reads every text reversed within its own length, so padding is never read first."""

    def __init__(self, layer: type[nn.LSTM | nn.GRU], settings: ModelSettings) -> None:
        super().__init__()
        self.forward_rnn = layer(settings.embedding, settings.hidden, batch_first=True)
        self.backward_rnn = layer(settings.embedding, settings.hidden, batch_first=True)
        self.width = 2 * settings.hidden

    def forward(
        self, embedded: Float[Tensor, "B L E"], lengths: Int[Tensor, " B"]
    ) -> Float[Tensor, "B L m"]:
        mirror = reversal(lengths, embedded.shape[1])
        ahead, _ = self.forward_rnn(embedded)
        behind, _ = self.backward_rnn(rearrange(embedded, mirror))
        return torch.cat([ahead, rearrange(behind, mirror)], dim=-1)


class CNN(nn.Module):
    """Parallel same-padded convolutions of several widths, ReLU; padded embeddings are zero, as beyond the text's ends."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv1d(settings.embedding, settings.hidden, kernel, padding=kernel // 2)
            for kernel in settings.kernels
        )
        self.width = settings.hidden * len(settings.kernels)

    def forward(
        self, embedded: Float[Tensor, "B L E"], lengths: Int[Tensor, " B"]
    ) -> Float[Tensor, "B L m"]:
        channels = embedded.transpose(1, 2)
        return torch.cat(
            [torch.relu(convolution(channels)) for convolution in self.convolutions], dim=1
        ).transpose(1, 2)


class Average(nn.Module):
    """Every token by itself through one linear layer: attention is all that mixes positions."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.linear = nn.Linear(settings.embedding, settings.hidden)
        self.activation = torch.relu if settings.activation == "relu" else torch.tanh
        self.width = settings.hidden

    def forward(
        self, embedded: Float[Tensor, "B L E"], lengths: Int[Tensor, " B"]
    ) -> Float[Tensor, "B L m"]:
        return self.activation(self.linear(embedded))


class NoEncoder(nn.Module):
    """The embedded tokens as they are."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.width = settings.embedding

    def forward(
        self, embedded: Float[Tensor, "B L E"], lengths: Int[Tensor, " B"]
    ) -> Float[Tensor, "B L m"]:
        return embedded


class Transformer(nn.Module):
    """A layer of self-attention over words and their positions (Vaswani et al. 2017), and the values that the attention above it takes."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        width = settings.embedding
        self.layer = nn.TransformerEncoderLayer(
            width, settings.heads, 2 * width, settings.dropout, batch_first=True, norm_first=True
        )
        self.values = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, settings.hidden))
        self.width = settings.hidden

    def forward(
        self, embedded: Float[Tensor, "B L E"], lengths: Int[Tensor, " B"]
    ) -> Float[Tensor, "B L m"]:
        place = torch.arange(embedded.shape[1], device=embedded.device)
        placed = embedded + places(place, embedded.shape[2]).to(embedded.dtype)
        return self.values(self.layer(placed, src_key_padding_mask=place >= lengths[:, None]))


bilstm, bigru = partial(Bidirectional, nn.LSTM), partial(Bidirectional, nn.GRU)


def make_encoder(settings: ModelSettings) -> Any:
    """A fresh encoder of the registered kind that the settings name. Raises InputError for one that is not registered."""
    return resolved(ENCODERS.find(settings.encoder, "build model").build)(settings)


class Question(nn.Module):
    """Embeds and encodes a question apart from its text; Q is the summary that the encoder registers (`EncoderSpec.summary`)."""

    def __init__(self, settings: ModelSettings, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, settings.embedding, padding_idx=PAD)
        self.encoder = make_encoder(settings)
        self.summary = resolved(ENCODERS[settings.encoder].summary)

    def forward(self, batch: Batch) -> Float[Tensor, "B m"]:
        return self.summary(self.encoder(self.embedding(batch.ids), batch.lengths), batch)


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


def places(place: Int[Tensor, " L"], width: int) -> Float[Tensor, "L E"]:
    """Sines and cosines of wavelengths from 2π to 10,000 · 2π."""
    rates = torch.exp(
        torch.arange(0, width, 2, device=place.device) * (-math.log(10_000.0) / width)
    )
    angles = place[:, None] * rates
    return torch.stack([torch.sin(angles), torch.cos(angles)], dim=-1).flatten(1)[:, :width]


def reversal(lengths: Int[Tensor, " B"], width: int) -> Int[Tensor, "B L"]:
    """Where each position comes from when every row is reversed within its length; padding stays. Its own inverse."""
    place = torch.arange(width, device=lengths.device)
    mirrored = lengths[:, None] - 1 - place
    return torch.where(mirrored >= 0, mirrored, place)


def rearrange(values: Float[Tensor, "B L d"], source: Int[Tensor, "B L"]) -> Float[Tensor, "B L d"]:
    return values.gather(1, source[:, :, None].expand(-1, -1, values.shape[2]))
