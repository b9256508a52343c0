"""Sequence to sequence with attention: a bidirectional LSTM reads, an LSTM writes.

The output is linear in the attended states, so each position has an exact readout, as in a
classifier:

    logits_t = E (W_c Σ_s alpha_ts h_s + W_d d_t + b) + b_out

The decoder's state ``d_t`` only depends on the source's last state and on earlier target tokens.
Attention at ``t`` therefore changes the output at ``t`` and nothing later.
"""

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnaudit.corpora.prepare.vocabulary import PAD, Vocabulary
from attnaudit.models.batch import PairBatch
from attnaudit.models.presets import PairSettings

Hidden = Float[Tensor, "B T m"]
DecoderStates = Float[Tensor, "B U m"]
Alpha = Float[Tensor, "B H U T"]
Combined = Float[Tensor, "B U e"]
# Hidden and cell state of every layer of the decoder.
State = tuple[Float[Tensor, "layers B m"], Float[Tensor, "layers B m"]]


@dataclass(frozen=True)
class PairForward:
    """Results of a forward pass over pairs.

    Attributes:
        hidden: States of the source.
        states: States of the decoder.
        alpha: Attention over the source, for each head and target position.
        combined: Input of the output layer (`EncoderDecoder.logits`).
    """

    hidden: Hidden
    states: DecoderStates
    alpha: Alpha
    combined: Combined


class Bilinear(nn.Module):
    """``d A h`` (Luong et al. 2015); each head multiplies its own part."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.query, self.heads = nn.Linear(width, width, bias=False), heads

    def forward(self, states: DecoderStates, hidden: Hidden) -> Alpha:
        """Return the scores."""
        return _parts(self.query(states), self.heads) @ _parts(hidden, self.heads).transpose(-1, -2)


class Additive(nn.Module):
    """``v · tanh(W₁ h + W₂ d)`` (Bahdanau et al. 2015), with a ``v`` for each head.

    The layer has half as many units as the states.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.units = nn.Linear(width, width // 2)
        self.asked = nn.Linear(width, width // 2, bias=False)
        self.score = nn.Linear(width // 2, heads, bias=False)

    def forward(self, states: DecoderStates, hidden: Hidden) -> Alpha:
        """Return the scores."""
        inner = torch.tanh(self.units(hidden)[:, None] + self.asked(states)[:, :, None])
        return self.score(inner).movedim(-1, 1)


class BagEncoder(nn.Module):
    """Replacement for an LSTM: states are the embedded tokens, and the last state is zero."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, embedded: Float[Tensor, "B T e"]) -> tuple[Float[Tensor, "B T e"], State]:
        """Return the embedded tokens, and zeros in the shape of a bidirectional LSTM's states."""
        zeros = embedded.new_zeros(2 * self.layers, len(embedded), embedded.shape[-1] // 2)
        return embedded, (zeros, zeros)


class BlankDecoder(nn.Module):
    """Replacement for an LSTM: states are zero, so the target so far is ignored."""

    def forward(
        self, embedded: Combined, start: State | None = None
    ) -> tuple[Combined, State | None]:
        """Return zeros and the unchanged state."""
        return torch.zeros_like(embedded), start


# A model with other attention has a weight of 1/T at every position.
ATTENTIONS = {"bilinear": Bilinear, "additive": Additive}


class EncoderDecoder(nn.Module):
    """A translation model.

    It reads sources of one length at a time (`PairBatch`), so it never reads padding.

    Args:
        settings: Sizes of the model.
        source: Vocabulary of the source.
        target: Vocabulary of the target.
    """

    def __init__(self, settings: PairSettings, source: Vocabulary, target: Vocabulary) -> None:
        super().__init__()
        self.settings, self.source, self.target = settings, source, target
        size, width, layers = settings.embedding, settings.width, settings.layers
        self.source_embedding = nn.Embedding(len(source), size, padding_idx=PAD)
        self.target_embedding = nn.Embedding(len(target), size, padding_idx=PAD)
        if settings.recurrent:
            # torch warns when an LSTM of one layer is given dropout between layers.
            recurrent = partial(
                nn.LSTM,
                num_layers=layers,
                batch_first=True,
                dropout=settings.dropout if layers > 1 else 0.0,
            )
            self.encoder = recurrent(size, width // 2, bidirectional=True)
            self.decoder = recurrent(size, width)
        else:
            self.encoder, self.decoder = BagEncoder(layers), BlankDecoder()
        scored = ATTENTIONS.get(settings.attention)
        self.attention = None if scored is None else scored(width, settings.heads)
        self.of_context = nn.Linear(width, size, bias=False)
        self.of_state = nn.Linear(width, size)
        self.output = nn.Linear(size, len(target))
        self.dropout = nn.Dropout(settings.dropout)
        # torch draws embeddings from N(0, 1). As output weights they would make logits of the order
        # √size, so their scale is reduced.
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=size**-0.5)
            with torch.no_grad():
                embedding.weight[PAD] = 0.0
        self.output.weight = self.target_embedding.weight

    def forward(self, batch: PairBatch) -> PairForward:
        """Run the model on a batch with teacher forcing."""
        return self.follow(batch.source, batch.before)

    def follow(self, source: Int[Tensor, "B T"], before: Int[Tensor, "B U"]) -> PairForward:
        """Run the model on sources, with ``before`` as the decoder's input."""
        hidden, start = self.encode(source)
        states, _ = self.decoder(self.dropout(self.target_embedding(before)), start)
        return self.attend(hidden, states)

    def write(self, source: Int[Tensor, "B T"], before: Int[Tensor, "B U"]) -> Combined:
        """Return `PairForward.combined`; a source without tokens contributes nothing."""
        # An LSTM refuses an empty sequence, which leave-one-out makes of a source of one token.
        if source.shape[1]:
            return self.follow(source, before).combined
        states, _ = self.decoder(self.dropout(self.target_embedding(before)))
        return self.of_state(states)

    def encode(self, source: Int[Tensor, "B T"]) -> tuple[Hidden, State]:
        """Encode sources of one length; return their states and the decoder's initial state."""
        return self.from_embedded(self.dropout(self.source_embedding(source)))

    def from_embedded(self, embedded: Float[Tensor, "B T e"]) -> tuple[Hidden, State]:
        """Encode embedded tokens, as `encode` does."""
        hidden, (last, cell) = self.encoder(embedded)
        return hidden, (self._both_ways(last), self._both_ways(cell))

    def _both_ways(self, last: Float[Tensor, "layers2 B half"]) -> Float[Tensor, "layers B m"]:
        """Join the last states of both directions, layer by layer."""
        return last.unflatten(0, (self.settings.layers, 2)).movedim(1, 2).flatten(2).contiguous()

    def attend(self, hidden: Hidden, states: DecoderStates) -> PairForward:
        """Attend to the source, and combine the attended states with the decoder's."""
        if self.attention is None:
            shape = (len(hidden), self.settings.heads, states.shape[1], hidden.shape[1])
            alpha = hidden.new_full(shape, 1.0 / hidden.shape[1])
        else:
            alpha = torch.softmax(self.attention(states, hidden), dim=-1)
        combined = self.combined_from_attention(alpha, hidden, states)
        return PairForward(hidden, states, alpha, combined)

    def combined_from_attention(
        self, alpha: Alpha, hidden: Hidden, states: DecoderStates
    ) -> Combined:
        """Return `PairForward.combined` under any attention ``alpha``.

        Args:
            alpha: Attention of each head over the source.
            hidden: States of the source.
            states: States of the decoder.

        Returns:
            The input of the output layer.
        """
        if self.settings.attention == "none":
            return self.of_state(states)
        context = (alpha @ _parts(hidden, self.settings.heads)).movedim(1, 2).flatten(2)
        return self.of_state(states) + self.of_context(context)

    def logits(self, combined: Float[Tensor, "*n e"]) -> Float[Tensor, "*n V"]:
        """Apply the output layer."""
        return self.output(self.dropout(combined))

    def readouts(self, hidden: Hidden) -> Float[Tensor, "B H T e"]:
        """Return what each position adds to `PairForward.combined` through a head at weight 1."""
        parts = _parts(hidden, self.settings.heads)
        weight = self.of_context.weight.unflatten(1, (self.settings.heads, -1))
        return torch.einsum("bhtd,ehd->bhte", parts, weight)


def _parts(states: Float[Tensor, "B L m"], heads: int) -> Float[Tensor, "B H L d"]:
    return states.unflatten(-1, (heads, -1)).movedim(2, 1)
