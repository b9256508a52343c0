"""Encoders of texts, questions and sentences.

An encoder maps embedded tokens ``(B, L, E)`` to hidden states ``(B, L, m)`` that do not depend on
padding.
"""

import math
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
    """Two recurrent layers, one per reading direction.

    The backward layer reads each text reversed within its own length, so it never starts in
    padding.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        layer = nn.GRU if settings.encoder == "bigru" else nn.LSTM
        self.forward_rnn = layer(settings.embedding, settings.hidden, batch_first=True)
        self.backward_rnn = layer(settings.embedding, settings.hidden, batch_first=True)
        self.width = 2 * settings.hidden

    def forward(self, embedded: Embedded, lengths: Lengths) -> Hidden:
        """Return the hidden states of embedded tokens."""
        # Two layers rather than torch's bidirectional one, whose backward half would start in
        # padding unless sequences are packed.
        mirror = reversal(lengths, embedded.shape[1])
        ahead, _ = self.forward_rnn(embedded)
        behind, _ = self.backward_rnn(rearrange(embedded, mirror))
        return torch.cat([ahead, rearrange(behind, mirror)], dim=-1)


class CNN(nn.Module):
    """Parallel convolutions of several widths with same padding, then ReLU."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv1d(settings.embedding, settings.hidden, kernel, padding=kernel // 2)
            for kernel in settings.kernels
        )
        self.width = settings.hidden * len(settings.kernels)

    def forward(self, embedded: Embedded, lengths: Lengths) -> Hidden:
        """Return the hidden states of embedded tokens."""
        # Padding needs no mask: its embeddings are zero, like the convolution's own padding.
        channels = embedded.transpose(1, 2)
        filtered = [torch.relu(convolution(channels)) for convolution in self.convolutions]
        return torch.cat(filtered, dim=1).transpose(1, 2)


class Average(nn.Module):
    """One linear layer per token, so that only attention mixes positions."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.linear = nn.Linear(settings.embedding, settings.hidden)
        self.activation = getattr(torch, settings.activation)
        self.width = settings.hidden

    def forward(self, embedded: Embedded, lengths: Lengths) -> Hidden:
        """Return the hidden states of embedded tokens."""
        return self.activation(self.linear(embedded))


class NoEncoder(nn.Module):
    """No layer: hidden states are the embedded tokens."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.width = settings.embedding

    def forward(self, embedded: Embedded, lengths: Lengths) -> Hidden:
        """Return the hidden states of embedded tokens."""
        return embedded


class Mixed(nn.Module):
    """``(1 − share) · tanh(W e_t) + share · BiLSTM(e)_t``, with ``model.mixing`` as the share.

    A share of 0 mixes no positions; a share of 1 is a BiLSTM.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.recurrent, self.share = Bidirectional(settings), settings.mixing
        self.width = self.recurrent.width
        self.single = nn.Linear(settings.embedding, self.width)

    def forward(self, embedded: Embedded, lengths: Lengths) -> Hidden:
        """Return the hidden states of embedded tokens."""
        own, mixed = torch.tanh(self.single(embedded)), self.recurrent(embedded, lengths)
        return (1.0 - self.share) * own + self.share * mixed


class Transformer(nn.Module):
    """One layer of self-attention with positional encoding, then a linear map.

    Source: Vaswani et al. 2017.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        width = settings.embedding
        self.layer = nn.TransformerEncoderLayer(
            width, settings.heads, 2 * width, settings.dropout, batch_first=True, norm_first=True
        )
        # With `norm_first` the layer's output is not normalised, so a norm comes before the map.
        self.values = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, settings.hidden))
        self.width = settings.hidden

    def forward(self, embedded: Embedded, lengths: Lengths) -> Hidden:
        """Return the hidden states of embedded tokens."""
        place = torch.arange(embedded.shape[1], device=embedded.device)
        placed = embedded + places(place, embedded.shape[2]).to(embedded.dtype)
        return self.values(self.layer(placed, src_key_padding_mask=place >= lengths[:, None]))


def make_encoder(settings: ModelSettings) -> Any:
    """Build the encoder that the settings name.

    Raises:
        InputError: The encoder is not registered.
    """
    # Registered encoders name the classes and functions of this module.
    return resolve(ENCODERS.find(settings.encoder, "build model").build, globals())(settings)


class Question(nn.Module):
    """Vector of a question, from an embedding and an encoder of its own (`EncoderSpec.summary`)."""

    def __init__(self, settings: ModelSettings, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, settings.embedding, padding_idx=PAD)
        self.encoder = make_encoder(settings)
        self.summary = resolve(ENCODERS[settings.encoder].summary, globals())

    def forward(self, batch: Batch) -> Summary:
        """Return the summaries of questions."""
        return self.summary(self.encoder(self.embedding(batch.ids), batch.lengths), batch)


class Sentence(nn.Module):
    """Vector of a sentence: the attention-weighted sum of its words' hidden states."""

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
        return attend(self.attention(hidden), sentences.attended, self.attention.hard)


def last_states(hidden: Hidden, batch: Batch) -> Summary:
    """Return the state of each direction after it has read the whole text."""
    half = hidden.shape[2] // 2
    rows = torch.arange(len(hidden), device=hidden.device)
    return torch.cat([hidden[rows, batch.lengths - 1, :half], hidden[:, 0, half:]], dim=-1)


def maximum(hidden: Hidden, batch: Batch) -> Summary:
    """Return the maximum of each unit over positions, padding excluded."""
    return hidden.masked_fill(~batch.inside[..., None], -torch.inf).amax(dim=1)


def mean(hidden: Hidden, batch: Batch) -> Summary:
    """Return the mean over positions, padding excluded."""
    return (hidden * batch.inside[..., None]).sum(dim=1) / batch.lengths[:, None]


def places(place: Int[Tensor, " L"], width: int) -> Float[Tensor, "L E"]:
    """Encode positions as sines and cosines with wavelengths from 2π to 10,000 · 2π.

    Source: Vaswani et al. 2017, §3.5.
    """
    rates = torch.exp(
        torch.arange(0, width, 2, device=place.device) * (-math.log(10_000.0) / width)
    )
    angles = place[:, None] * rates
    # Sines and cosines come in pairs; an odd width drops the last cosine.
    return torch.stack([torch.sin(angles), torch.cos(angles)], dim=-1).flatten(1)[:, :width]


def reversal(lengths: Lengths, width: int) -> Int[Tensor, "B L"]:
    """Return the source position of each position when rows are reversed within their lengths.

    Padding stays in place, and the reversal is its own inverse.

    Args:
        lengths: Length of each row.
        width: Padded length.

    Returns:
        Positions to gather from.
    """
    place = torch.arange(width, device=lengths.device)
    mirrored = lengths[:, None] - 1 - place
    return torch.where(mirrored >= 0, mirrored, place)


def rearrange(values: Float[Tensor, "B L d"], source: Int[Tensor, "B L"]) -> Float[Tensor, "B L d"]:
    """Gather the values at the ``source`` positions."""
    return values.gather(1, source[:, :, None].expand(-1, -1, values.shape[2]))
