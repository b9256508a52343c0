"""Sequence to sequence with attention: a bidirectional LSTM reads the source, an LSTM writes the target, one token after another.

Its output is linear in what it attends to, so that a position's readout is exact, as a classifier's is:

    logits_t = E (W_c Σ_s alpha_ts h_s + W_d d_t + b) + b_out

The decoder's state ``d_t`` follows from the target's earlier tokens alone: attention decides what is added to it, and nothing later.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnaudit.corpora.prepare.vocabulary import PAD, Vocabulary
from attnaudit.models.batch import PairBatch
from attnaudit.models.presets import PairSettings
from attnaudit.models.product import count_weights

State = tuple[Float[Tensor, "layers B m"], Float[Tensor, "layers B m"]]
"""Hidden and cell state of every layer of the decoder."""


@dataclass(frozen=True)
class PairForward:
    """The results of a forward pass over pairs: source states ``hidden``, decoder states ``states``, attention ``alpha`` over the source of
    every head and target position, and ``combined``, the input of the output layer (`EncoderDecoder.logits`).
    """

    hidden: Float[Tensor, "B T m"]
    states: Float[Tensor, "B U m"]
    alpha: Float[Tensor, "B H U T"]
    combined: Float[Tensor, "B U e"]


class Bilinear(nn.Module):
    """``d A h`` (Luong et al. 2015); each head multiplies its own part."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.query, self.heads = nn.Linear(width, width, bias=False), heads

    def forward(
        self, states: Float[Tensor, "B U m"], hidden: Float[Tensor, "B T m"]
    ) -> Float[Tensor, "B H U T"]:
        return _parts(self.query(states), self.heads) @ _parts(hidden, self.heads).transpose(-1, -2)


class Additive(nn.Module):
    """``v · tanh(W₁ h + W₂ d)`` (Bahdanau et al. 2015), with half as many units as the states have and a ``v`` for each head."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.units, self.asked = (
            nn.Linear(width, width // 2),
            nn.Linear(width, width // 2, bias=False),
        )
        self.score = nn.Linear(width // 2, heads, bias=False)

    def forward(
        self, states: Float[Tensor, "B U m"], hidden: Float[Tensor, "B T m"]
    ) -> Float[Tensor, "B H U T"]:
        inner = torch.tanh(self.units(hidden)[:, None] + self.asked(states)[:, :, None])
        return self.score(inner).movedim(-1, 1)


class Uniform(nn.Module):
    """The same score everywhere: 1/T."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(
        self, states: Float[Tensor, "B U m"], hidden: Float[Tensor, "B T m"]
    ) -> Float[Tensor, "B H U T"]:
        return hidden.new_zeros(len(hidden), self.heads, states.shape[1], hidden.shape[1])


class BagEncoder(nn.Module):
    """Instead of an LSTM: every embedded token is its own state, and the last state is zero."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, embedded: Float[Tensor, "B T e"]) -> tuple[Float[Tensor, "B T e"], State]:
        nothing = embedded.new_zeros(2 * self.layers, len(embedded), embedded.shape[-1] // 2)
        return embedded, (nothing, nothing)


class BlankDecoder(nn.Module):
    """Instead of an LSTM: states of zeros, which ignore the target so far."""

    def forward(
        self, embedded: Float[Tensor, "B U e"], start: State | None = None
    ) -> tuple[Float[Tensor, "B U e"], State | None]:
        return torch.zeros_like(embedded), start


ATTENTIONS = {"bilinear": Bilinear, "additive": Additive, "uniform": Uniform, "none": Uniform}


class EncoderDecoder(nn.Module):
    """Reads sources of one length at a time (`PairBatch`), so that no padding is ever read."""

    def __init__(self, settings: PairSettings, source: Vocabulary, target: Vocabulary) -> None:
        super().__init__()
        self.settings, self.source, self.target = settings, source, target
        size, width, drop = settings.embedding, settings.width, settings.dropout
        between = drop if settings.layers > 1 else 0.0
        self.source_embedding = nn.Embedding(len(source), size, padding_idx=PAD)
        self.target_embedding = (
            self.source_embedding
            if settings.shared
            else nn.Embedding(len(target), size, padding_idx=PAD)
        )
        if settings.recurrent:
            self.encoder = nn.LSTM(
                size,
                width // 2,
                settings.layers,
                batch_first=True,
                bidirectional=True,
                dropout=between,
            )
            self.decoder = nn.LSTM(size, width, settings.layers, batch_first=True, dropout=between)
        else:
            self.encoder, self.decoder = BagEncoder(settings.layers), BlankDecoder()
        self.attention = ATTENTIONS[settings.attention](width, settings.heads)
        self.of_context = nn.Linear(width, size, bias=False)
        self.of_state = nn.Linear(width, size)
        self.output = nn.Linear(size, len(target))
        self.dropout = nn.Dropout(drop)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=size**-0.5)
            with torch.no_grad():
                embedding.weight[PAD] = 0.0
        if settings.tied:
            self.output.weight = self.target_embedding.weight

    def __repr__(self) -> str:
        s = self.settings
        layers = (
            f"{s.layers} layer{'s' if s.layers > 1 else ''}"
            if s.recurrent
            else "no recurrent layer"
        )
        return (
            f"EncoderDecoder({s.attention}, {s.heads} head{'s' if s.heads > 1 else ''}, {layers}, {len(self.source):,} → "
            f"{len(self.target):,} words × {s.embedding}, hidden {s.width}, {count_weights(self):,} weights)"
        )

    def forward(self, batch: PairBatch) -> PairForward:
        return self.follow(batch.source, batch.before)

    def follow(self, source: Int[Tensor, "B T"], before: Int[Tensor, "B U"]) -> PairForward:
        """A forward pass over sources and the tokens ``before`` each target token."""
        hidden, start = self.encode(source)
        states, _ = self.decoder(self.dropout(self.target_embedding(before)), start)
        return self.attend(hidden, states)

    def write(
        self, source: Int[Tensor, "B T"], before: Int[Tensor, "B U"]
    ) -> Float[Tensor, "B U e"]:
        """`PairForward.combined` alone; a source without tokens contributes nothing."""
        if source.shape[1]:
            return self.follow(source, before).combined
        states, _ = self.decoder(self.dropout(self.target_embedding(before)))
        return self.of_state(states)

    def encode(self, source: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T m"], State]:
        """The states of sources of one length, and the decoder's initial state."""
        return self.from_embedded(self.dropout(self.source_embedding(source)))

    def from_embedded(
        self, embedded: Float[Tensor, "B T e"]
    ) -> tuple[Float[Tensor, "B T m"], State]:
        """As `encode`, from embedded tokens on."""
        hidden, (last, cell) = self.encoder(embedded)
        return hidden, (self._both_ways(last), self._both_ways(cell))

    def _both_ways(self, last: Float[Tensor, "layers2 B half"]) -> Float[Tensor, "layers B m"]:
        """Last states of forward and backward side by side, layer by layer."""
        return last.unflatten(0, (self.settings.layers, 2)).movedim(1, 2).flatten(2).contiguous()

    def attend(self, hidden: Float[Tensor, "B T m"], states: Float[Tensor, "B U m"]) -> PairForward:
        """Attention over the source, and the decoder's states combined with what it attends to."""
        alpha = torch.softmax(self.attention(states, hidden), dim=-1)
        return PairForward(
            hidden, states, alpha, self.combined_from_attention(alpha, hidden, states)
        )

    def combined_from_attention(
        self,
        alpha: Float[Tensor, "B H U T"],
        hidden: Float[Tensor, "B T m"],
        states: Float[Tensor, "B U m"],
    ) -> Float[Tensor, "B U e"]:
        """`PairForward.combined` with attention ``alpha``, the model's own or any other."""
        if self.settings.attention == "none":
            return self.of_state(states)
        context = (alpha @ _parts(hidden, self.settings.heads)).movedim(1, 2).flatten(2)
        return self.of_state(states) + self.of_context(context)

    def logits(self, combined: Float[Tensor, "*n e"]) -> Float[Tensor, "*n V"]:
        return self.output(self.dropout(combined))

    def readouts(self, hidden: Float[Tensor, "B T m"]) -> Float[Tensor, "B H T e"]:
        """What each position adds to `PairForward.combined` through each head, for a weight of 1."""
        parts, heads = _parts(hidden, self.settings.heads), self.settings.heads
        weight = self.of_context.weight.unflatten(1, (heads, -1))
        return torch.einsum("bhtd,ehd->bhte", parts, weight)


def _parts(states: Float[Tensor, "B L m"], heads: int) -> Float[Tensor, "B H L d"]:
    """Each head's part of the states."""
    return states.unflatten(-1, (heads, -1)).movedim(2, 1)
