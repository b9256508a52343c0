"""The copying model as Snell et al. 2021 released it: torch's own modules and autograd, one seed at a time.

Source: Sea-Snell/AttentionDynamics, SequenceCopying/seq2seq_model.py. Both sides share the embedding, which the output does not use;
the scores are those of a tanh layer that reads the decoder's state and the projected context.
"""

import torch
from torch import nn


class Released(nn.Module):
    """Of ``symbols``, one that ends and one that begins; every layer ``hidden`` wide."""

    def __init__(self, symbols, hidden):
        super().__init__()
        self.embedding = nn.Embedding(symbols + 2, hidden)
        self.encoder, self.decoder = nn.LSTM(hidden, hidden), nn.LSTM(hidden, hidden)
        self.query, self.project = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.mix, self.output = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, symbols + 2)

    def forward(self, source, given, only=None, uniform=False):
        """Logits ``(T, B, V)`` and attention ``(T, B, S)``; with ``only`` all attention is on that position."""
        h, last = self.encoder(self.embedding(source))
        d, _ = self.decoder(self.embedding(given), last)
        scores = torch.einsum("tbm,sbm->tbs", self.query(d), h)
        alpha = (scores * 0 if uniform else scores).softmax(2)
        if only is not None:
            alpha = nn.functional.one_hot(torch.full(alpha.shape[:2], only), alpha.shape[2]).to(
                alpha.dtype
            )
        context = self.project(torch.einsum("tbs,sbm->tbm", alpha, h))
        return self.output(torch.tanh(self.mix(torch.cat([d, context], dim=2)))), alpha

    def loss(self, source, gold, uniform=False):
        logits, _ = self(source, self.before(gold), uniform=uniform)
        return nn.functional.cross_entropy(logits.flatten(0, 1), gold.flatten())

    def before(self, gold):
        """The symbol before each of ``gold``; the last of the vocabulary begins."""
        return torch.cat([torch.full_like(gold[:1], self.embedding.num_embeddings - 1), gold[:-1]])

    @torch.no_grad()
    def load(self, weights):
        """Take the weights that `attnaudit` names otherwise."""
        self.load_state_dict(of_released(weights))


def of_released(weights):
    """Weights, or their gradient, by the names of `Released`: the layer that mixes has one matrix for state and context."""
    named = {
        name.replace("attention.", "query.").replace("projection.", "project."): part
        for name, part in weights.items()
    }
    state, context, bias = (
        named.pop(name) for name in ("state.weight", "context.weight", "state.bias")
    )
    return {**named, "mix.weight": torch.cat([state, context], dim=1), "mix.bias": bias}
