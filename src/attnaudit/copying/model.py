"""The sequence-to-sequence model of the copying task (Snell et al. 2021).

An LSTM encoder, bilinear attention and an LSTM decoder, for sequences of one length. Tensors are
time-major, ``(T, B, …)``, as torch's LSTM takes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.copying.study import OutputLayer
from attnaudit.core.random import stream_keys

Symbols = Int64[Tensor, "T B"]


@dataclass(frozen=True)
class Sizes:
    """Sizes of a copying model.

    Attributes:
        vocabulary: Number of symbols of both sides; the last one begins the output.
        hidden: Width of the states of encoder and decoder.
        embedding: Width of the symbols' vectors.
        heads: Number of attention heads, which share the states.
        embedding_scale: Initial standard deviation of the symbols' vectors; torch's own is 1.
        encoder: ``lstm`` reads forwards only; ``bilstm`` has half the width in each direction.
        output: ``tanh`` as released with the paper, or ``tied`` to the embeddings.
    """

    vocabulary: int
    hidden: int = 256
    embedding: int = 256
    heads: int = 1
    embedding_scale: float = 1.0
    encoder: Literal["lstm", "bilstm"] = "lstm"
    output: OutputLayer = "tied"


class CopierPass(NamedTuple):
    """The results of one forward pass."""

    encoded: Float[Tensor, "S B m"]
    decoded: Float[Tensor, "T B m"]
    alpha: Float[Tensor, "B K T S"]
    logits: Float[Tensor, "T B V"]


class Copier(nn.Module):
    """Writes a sequence symbol by symbol, attending to the states of the source.

    With the attended states c and the decoder's state d, the logits are
    ``U tanh(W_c (P c + p) + W_d d + b) + u`` with the output layer ``tanh``, and
    ``E (W_c c + W_d d + b) + u`` with the embeddings E if it is ``tied``.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        width, embedding = sizes.hidden, sizes.embedding
        both, tanh = sizes.encoder == "bilstm", sizes.output == "tanh"
        units = width if tanh else embedding
        self.embedding = nn.Embedding(sizes.vocabulary, embedding)
        self.encoder = nn.LSTM(embedding, width // 2 if both else width, bidirectional=both)
        self.decoder = nn.LSTM(embedding, width)
        self.attention = nn.Linear(width, width, bias=tanh)
        self.projection = nn.Linear(width, width) if tanh else nn.Identity()
        self.context = nn.Linear(width, units, bias=False)
        self.state = nn.Linear(width, units)
        self.activation = nn.Tanh() if tanh else nn.Identity()
        self.output = nn.Linear(units, sizes.vocabulary)
        if not tanh:
            self.output.weight = self.embedding.weight

    @classmethod
    def fresh(cls, sizes: Sizes, seed: int) -> Copier:
        """Build a model whose weights depend on ``seed`` only, in the ranges of torch's modules."""
        with torch.random.fork_rng(devices=[]):  # the draws of the modules are overwritten below
            model = cls(sizes)
        key = int(stream_keys(seed, "sequence-to-sequence weights")[0] >> np.uint64(1))
        random = torch.Generator().manual_seed(key)
        # The released model has one layer that reads context and state side by side.
        mixed = 2 * sizes.hidden if sizes.output == "tanh" else sizes.hidden
        inputs = {
            "encoder": model.encoder.hidden_size,
            "context": mixed,
            "state": mixed,
            "output": model.output.in_features,
        }
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if name == "embedding.weight":
                    weight.normal_(0, sizes.embedding_scale, generator=random)
                else:
                    bound = inputs.get(name.partition(".")[0], sizes.hidden) ** -0.5
                    weight.uniform_(-bound, bound, generator=random)
        return model

    def forward(self, source: Symbols, gold: Symbols, uniform: bool = False) -> CopierPass:
        """Read ``source`` and predict ``gold``, given the gold symbols before each.

        Args:
            source: Symbols to read, ``(S, B)``.
            gold: Symbols to write, ``(T, B)``.
            uniform: Hold attention at 1/S.

        Returns:
            States, attention of every head and logits.
        """
        encoded, (last, cell) = self.encoder(self.embedding(source))
        begin = torch.full_like(gold[:1], self.sizes.vocabulary - 1)
        before = self.embedding(torch.cat([begin, gold[:-1]]))
        # The last states of both directions, side by side, are the decoder's first.
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
        """Return the mean cross-entropy of the gold symbols, in nats."""
        logits = self(source, gold, uniform).logits
        return functional.cross_entropy(logits.flatten(0, 1), gold.flatten())

    def output_relevance(self, result: CopierPass, gold: Symbols) -> Float[Tensor, "B T S"]:
        """Return the log-probability of ``gold`` with all attention on one source position.

        All heads attend to that position. Source: Snell et al. 2021.
        """
        readout, state = self._readout(result.encoded), self.state(result.decoded)
        relevance = []
        for target, symbols in zip(state, gold, strict=True):  # (S, B, V) logits at a time
            logp = self._logits(readout + target).log_softmax(dim=2)
            relevance.append(logp.gather(2, symbols[None, :, None].expand(len(logp), -1, 1)))
        return torch.cat(relevance, dim=2).permute(1, 2, 0)

    def _heads(self, states: Float[Tensor, "T B m"]) -> Float[Tensor, "B K T d"]:
        return states.unflatten(2, (self.sizes.heads, -1)).permute(1, 2, 0, 3)

    def _readout(self, attended: Float[Tensor, "T B m"]) -> Float[Tensor, "T B u"]:
        return self.context(self.projection(attended))

    def _logits(self, units: Float[Tensor, "T B u"]) -> Float[Tensor, "T B V"]:
        return self.output(self.activation(units))


def as_symbols(
    source: Int64[np.ndarray, "B S"], gold: Int64[np.ndarray, "B T"]
) -> tuple[Int64[Tensor, "S B"], Int64[Tensor, "T B"]]:
    """Turn arrays with a row per sequence into time-major tensors."""
    symbols, expected = (torch.from_numpy(part).t().contiguous() for part in (source, gold))
    return symbols, expected


def descend(
    model: Copier,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[tuple[np.ndarray, np.ndarray]],
    uniform: bool = False,
) -> list[float]:
    """Take one optimizer step per batch of sources and targets, ``(B, T)`` each.

    Returns:
        The loss of every batch before its step, in nats.
    """
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = model.loss(*as_symbols(*batch), uniform)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
