"""Encoders of texts, of questions and of sentences.

An encoder maps embedded tokens ``(B, L, E)`` to hidden states ``(B, L, m)`` that do not depend on
padding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnaudit.corpora.prepare.vocabulary import PAD
from attnaudit.models.attention import attend, make_attention
from attnaudit.models.batch import Batch
from attnaudit.models.presets import ENCODERS, ModelSettings, resolve

Embedded = Float[Tensor, "B L E"]
Hidden = Float[Tensor, "B L m"]
Lengths = Int[Tensor, " B"]
Summary = Float[Tensor, "B m"]


class Bidirectional(nn.Module):
    """A recurrent layer from each end.

    The backward layer reads every text reversed within its own length, so that it never begins with
    padding.
    """

    def __init__(self, layer: type[nn.LSTM | nn.GRU], settings: ModelSettings) -> None:
        super().__init__()
        self.forward_rnn = layer(settings.embedding, settings.hidden, batch_first=True)
        self.backward_rnn = layer(settings.embedding, settings.hidden, batch_first=True)
        self.width = 2 * settings.hidden

    def forward(self, embedded: Embedded, lengths: Lengths) -> Hidden:
        """Return the hidden states of embedded tokens."""
        mirror = reversal(lengths, embedded.shape[1])
        ahead, _ = self.forward_rnn(embedded)
        behind, _ = self.backward_rnn(rearrange(embedded, mirror))
        return torch.cat([ahead, rearrange(behind, mirror)], dim=-1)


class CNN(nn.Module):
    """Parallel same-padded convolutions of several widths, ReLU.

    Embeddings of padding are zero, as beyond the ends of a text.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv1d(settings.embedding, settings.hidden, kernel, padding=kernel // 2)
            for kernel in settings.kernels
        )
        self.width = settings.hidden * len(settings.kernels)

    def forward(self, embedded: Embedded, lengths: Lengths) -> Hidden:
        """Return the hidden states of embedded tokens."""
        channels = embedded.transpose(1, 2)
        filtered = [torch.relu(convolution(channels)) for convolution in self.convolutions]
        return torch.cat(filtered, dim=1).transpose(1, 2)


class Average(nn.Module):
    """Every token by itself through one linear layer, so that only attention mixes positions."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.linear = nn.Linear(settings.embedding, settings.hidden)
        self.activation = torch.relu if settings.activation == "relu" else torch.tanh
        self.width = settings.hidden

    def forward(self, embedded: Embedded, lengths: Lengths) -> Hidden:
        """Return the hidden states of embedded tokens."""
        return self.activation(self.linear(embedded))


class NoEncoder(nn.Module):
    """The embedded tokens as they are."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.width = settings.embedding

    def forward(self, embedded: Embedded, lengths: Lengths) -> Hidden:
        """Return the hidden states of embedded tokens."""
        return embedded


class Transformer(nn.Module):
    """A layer of self-attention over words and positions (Vaswani et al. 2017), and its values."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        width = settings.embedding
        self.layer = nn.TransformerEncoderLayer(
            width, settings.heads, 2 * width, settings.dropout, batch_first=True, norm_first=True
        )
        self.values = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, settings.hidden))
        self.width = settings.hidden

    def forward(self, embedded: Embedded, lengths: Lengths) -> Hidden:
        """Return the hidden states of embedded tokens."""
        place = torch.arange(embedded.shape[1], device=embedded.device)
        placed = embedded + places(place, embedded.shape[2]).to(embedded.dtype)
        return self.values(self.layer(placed, src_key_padding_mask=place >= lengths[:, None]))


class Mixed(nn.Module):
    """``(1 − share) · tanh(W e_t) + share · BiLSTM(e)_t``: 0 mixes no positions, 1 is a BiLSTM."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.recurrent, self.share = Bidirectional(nn.LSTM, settings), settings.mixing
        self.width = self.recurrent.width
        self.single = nn.Sequential(nn.Linear(settings.embedding, self.width), nn.Tanh())

    def forward(self, embedded: Embedded, lengths: Lengths) -> Hidden:
        """Return the hidden states of embedded tokens."""
        recurrent = self.recurrent(embedded, lengths)
        return (1.0 - self.share) * self.single(embedded) + self.share * recurrent


BUILT_IN: dict[str, Callable[[ModelSettings], nn.Module]] = {
    "bilstm": partial(Bidirectional, nn.LSTM),
    "bigru": partial(Bidirectional, nn.GRU),
    "cnn": CNN,
    "average": Average,
    "none": NoEncoder,
    "mixed": Mixed,
    "transformer": Transformer,
}


def make_encoder(settings: ModelSettings) -> Any:
    """Build the encoder that the settings name.

    Raises:
        InputError: It is not registered.
    """
    return resolve(ENCODERS.find(settings.encoder, "build model").build, BUILT_IN)(settings)


class Question(nn.Module):
    """Embeds, encodes and summarises a question (`EncoderSpec.summary`) apart from its text."""

    def __init__(self, settings: ModelSettings, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, settings.embedding, padding_idx=PAD)
        self.encoder = make_encoder(settings)
        self.summary = resolve(ENCODERS[settings.encoder].summary, SUMMARIES)

    def forward(self, batch: Batch) -> Summary:
        """Return the summaries of questions."""
        return self.summary(self.encoder(self.embedding(batch.ids), batch.lengths), batch)


class Sentence(nn.Module):
    """Encodes the words of each sentence; the sum that attention makes stands for the sentence."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.encoder = make_encoder(settings)
        self.attention = make_attention(settings, self.encoder.width)
        self.dropout = nn.Dropout(settings.dropout)
        self.width = self.encoder.width

    def forward(self, embedded: Embedded, sentences: Batch) -> Summary:
        """Return the vectors of sentences."""
        hidden = self.dropout(self.encoder(embedded, sentences.lengths))
        return torch.einsum("nw,nwm->nm", self.weights(hidden, sentences), hidden)

    def weights(self, hidden: Hidden, sentences: Batch) -> Float[Tensor, "B L"]:
        """Return the attention over the words of every sentence."""
        return attend(self.attention(hidden), sentences.attended)


def last_states(hidden: Hidden, batch: Batch) -> Summary:
    """Return the states at which each direction has read the whole text."""
    half = hidden.shape[2] // 2
    rows = torch.arange(len(hidden), device=hidden.device)
    return torch.cat([hidden[rows, batch.lengths - 1, :half], hidden[:, 0, half:]], dim=-1)


def maximum(hidden: Hidden, batch: Batch) -> Summary:
    """Return the maximum of each unit over positions, padding excluded."""
    # Padding is −∞, which is never the largest.
    return hidden.masked_fill(~batch.inside[..., None], -torch.inf).amax(dim=1)


def mean(hidden: Hidden, batch: Batch) -> Summary:
    """Return the mean over positions, padding excluded."""
    return (hidden * batch.inside[..., None]).sum(dim=1) / batch.lengths[:, None]


SUMMARIES = {"last_states": last_states, "maximum": maximum, "mean": mean}


def places(place: Int[Tensor, " L"], width: int) -> Float[Tensor, "L E"]:
    """Encode positions as sines and cosines of wavelengths from 2π to 10,000 · 2π."""
    rates = torch.exp(
        torch.arange(0, width, 2, device=place.device) * (-math.log(10_000.0) / width)
    )
    angles = place[:, None] * rates
    return torch.stack([torch.sin(angles), torch.cos(angles)], dim=-1).flatten(1)[:, :width]


def reversal(lengths: Lengths, width: int) -> Int[Tensor, "B L"]:
    """Return the source of each position when every row is reversed within its length.

    Padding stays. The reversal is its own inverse.
    """
    place = torch.arange(width, device=lengths.device)
    mirrored = lengths[:, None] - 1 - place
    return torch.where(mirrored >= 0, mirrored, place)


def rearrange(values: Float[Tensor, "B L d"], source: Int[Tensor, "B L"]) -> Float[Tensor, "B L d"]:
    """Return the values of the ``source`` positions."""
    return values.gather(1, source[:, :, None].expand(-1, -1, values.shape[2]))
