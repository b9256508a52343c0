"""The sequence-to-sequence model of the copying task (Snell et al. 2021).

The model has an LSTM encoder, bilinear attention and an LSTM decoder, for sequences of one length.
Tensors are time-major, ``(T, B, …)``, which is the default of torch's LSTM.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.copying.study import PRESETS, Copying
from attnaudit.core.random import stream_keys

Symbols = Int64[Tensor, "T B"]


States = Float[Tensor, "T B m"]


class CopierPass(NamedTuple):
    """Results of a forward pass: states, attention of each head, and logits."""

    encoded: Float[Tensor, "S B m"]
    decoded: States
    alpha: Float[Tensor, "B K T S"]
    logits: Float[Tensor, "T B V"]


class Copier(nn.Module):
    """A model that copies a sequence symbol by symbol, attending to the states of the source.

    Let c be the attended states and d the decoder's state. With the output layer ``tanh``, the
    logits are ``U tanh(W_c (P c + p) + W_d d + b) + u``. With ``tied`` they are
    ``E (W_c c + W_d d + b) + u``, where E are the embeddings.

    Args:
        study: Sizes of the model, and the symbols of both sides.
    """

    def __init__(self, study: Copying) -> None:
        super().__init__()
        self.heads, self.begin = study.heads, study.sequences.begin
        width, embedding, vocabulary = study.hidden, study.embedding, study.sequences.vocabulary
        both, tanh = study.encoder == "bilstm", PRESETS[study.preset].output == "tanh"
        units = width if tanh else embedding
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.encoder = nn.LSTM(embedding, width // 2 if both else width, bidirectional=both)
        self.decoder = nn.LSTM(embedding, width)
        self.attention = nn.Linear(width, width, bias=tanh)
        self.projection = nn.Linear(width, width) if tanh else nn.Identity()
        self.context = nn.Linear(width, units, bias=False)
        self.state = nn.Linear(width, units)
        self.activation = nn.Tanh() if tanh else nn.Identity()
        self.output = nn.Linear(units, vocabulary)
        if not tanh:
            self.output.weight = self.embedding.weight

    @classmethod
    def fresh(cls, study: Copying, seed: int) -> Copier:
        """Build an untrained model.

        Args:
            study: Sizes of the model, and the symbols of both sides.
            seed: Seed of the weights; nothing else decides them.

        Returns:
            The model, with weights in the ranges of torch's modules.
        """
        # The modules draw weights, which are replaced below; the fork keeps the caller's state.
        with torch.random.fork_rng(devices=[]):
            model = cls(study)
        key = int(stream_keys(seed, "sequence-to-sequence weights")[0] >> np.uint64(1))
        random = torch.Generator().manual_seed(key)
        # torch draws from ±1/√n, where n is the number of inputs of a linear layer, or the width of
        # an LSTM. The released model has one layer that reads context and state together, so with
        # `tanh` both parts have the inputs of that layer.
        tanh = PRESETS[study.preset].output == "tanh"
        mixed = 2 * study.hidden if tanh else study.hidden
        inputs = {
            "encoder": model.encoder.hidden_size,
            "context": mixed,
            "state": mixed,
            "output": model.output.in_features,
        }
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if name == "embedding.weight":
                    weight.normal_(0, study.embedding_scale, generator=random)
                else:
                    bound = inputs.get(name.partition(".")[0], study.hidden) ** -0.5
                    weight.uniform_(-bound, bound, generator=random)
        return model

    def forward(self, source: Symbols, gold: Symbols, uniform: bool = False) -> CopierPass:
        """Read the source and predict each gold symbol from the gold symbols before it.

        Args:
            source: Symbols to read, ``(S, B)``.
            gold: Symbols to write, ``(T, B)``.
            uniform: True to hold attention at 1/S.

        Returns:
            The results.
        """
        encoded, (last, cell) = self.encoder(self.embedding(source))
        begin = torch.full_like(gold[:1], self.begin)
        before = self.embedding(torch.cat([begin, gold[:-1]]))
        # The decoder starts from the last states of both directions, concatenated.
        start = tuple(state.transpose(0, 1).flatten(1)[None] for state in (last, cell))
        decoded, _ = self.decoder(before, start)
        values = self._heads(encoded)
        if uniform:
            alpha = values.new_full((*values.shape[:2], len(gold), len(source)), 1 / len(source))
        else:
            queries = self._heads(self.attention(decoded))
            alpha = torch.softmax(queries @ values.transpose(2, 3), dim=3)
        attended = (alpha @ values).permute(2, 0, 1, 3).flatten(2)
        logits = self._logits(self._readout(attended) + self.state(decoded))
        return CopierPass(encoded, decoded, alpha, logits)

    def loss(self, source: Symbols, gold: Symbols, uniform: bool = False) -> Float[Tensor, ""]:
        """Return the mean cross-entropy of the gold symbols, in nats (arguments as `forward`)."""
        logits = self(source, gold, uniform).logits
        return functional.cross_entropy(logits.flatten(0, 1), gold.flatten())

    def output_relevance(self, result: CopierPass, gold: Symbols) -> Float[Tensor, "B T S"]:
        """Return the log-probability of each gold symbol with all attention on one position.

        All heads attend to that position. Source: Snell et al. 2021.

        Args:
            result: A forward pass.
            gold: Its gold symbols, ``(T, B)``.

        Returns:
            The log-probability for each written symbol and source position.
        """
        readout, state = self._readout(result.encoded), self.state(result.decoded)
        relevance = []
        # One target at a time, so that memory holds (S, B, V) logits and not T times as many.
        for target, symbols in zip(state, gold, strict=True):
            logp = self._logits(readout + target).log_softmax(dim=2)
            relevance.append(logp.gather(2, symbols[None, :, None].expand(len(logp), -1, 1)))
        return torch.cat(relevance, dim=2).permute(1, 2, 0)

    def _heads(self, states: States) -> Float[Tensor, "B K T d"]:
        return states.unflatten(2, (self.heads, -1)).permute(1, 2, 0, 3)

    def _readout(self, attended: States) -> Float[Tensor, "T B u"]:
        return self.context(self.projection(attended))

    def _logits(self, units: Float[Tensor, "T B u"]) -> Float[Tensor, "T B V"]:
        return self.output(self.activation(units))


def as_symbols(
    source: Int64[np.ndarray, "B S"], gold: Int64[np.ndarray, "B T"]
) -> tuple[Int64[Tensor, "S B"], Int64[Tensor, "T B"]]:
    """Turn arrays with one row per sequence into time-major tensors."""
    symbols, expected = (torch.from_numpy(part).t().contiguous() for part in (source, gold))
    return symbols, expected


def descend(
    model: Copier,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[tuple[np.ndarray, np.ndarray]],
    uniform: bool = False,
) -> list[float]:
    """Take one optimizer step per batch.

    Args:
        model: The model; its weights change in place.
        optimizer: Its optimizer.
        batches: Sources and targets, ``(B, T)`` each.
        uniform: True to hold attention at 1/S.

    Returns:
        The loss of each batch before its step, in nats.
    """
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = model.loss(*as_symbols(*batch), uniform)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
