"""The sequence-to-sequence model as its equations read: torch's own LSTM, autograd, one seed at a time, one position at a time."""

import torch
from torch import nn
from torch.func import functional_call


def plain_forward(weights, source, given, heads, only=None, uniform=False):
    """Logits ``(T, B, V)`` and attention ``(B, K, T, S)``; with ``only`` all attention is on that position."""
    table = weights["embedding.weight"]
    m, e = len(weights["attention.weight"]), table.shape[1]
    both = any(name.endswith("_reverse") for name in weights)
    encoder, decoder = nn.LSTM(e, m // 2 if both else m, bidirectional=both), nn.LSTM(e, m)
    h, last = functional_call(encoder.to(table.dtype), _part(weights, "encoder."), (table[source],))
    start = tuple(torch.cat(list(state), dim=1)[None] for state in last)
    d, _ = functional_call(
        decoder.to(table.dtype), _part(weights, "decoder."), (table[given], start)
    )
    queries = d @ weights["attention.weight"].T
    parts = [x.unflatten(2, (heads, m // heads)) for x in (queries, h)]
    scores = torch.einsum("tbkd,sbkd->bkts", *parts)
    alpha = torch.full_like(scores, 1 / len(source)) if uniform else scores.softmax(3)
    if only is not None:
        alpha = torch.zeros_like(alpha)
        alpha[..., only] = 1.0
    context = torch.einsum("bkts,sbkd->tbkd", alpha, parts[1]).flatten(2)
    o = (
        context @ weights["context.weight"].T
        + d @ weights["state.weight"].T
        + weights["state.bias"]
    )
    return o @ table.T + weights["output.bias"], alpha


def plain_loss(weights, source, gold, begin, heads=1, uniform=False):
    given = torch.cat([torch.full_like(gold[:1], begin), gold[:-1]])
    logits, _ = plain_forward(weights, source, given, heads, uniform=uniform)
    return nn.functional.cross_entropy(logits.flatten(0, 1), gold.flatten())


def plain_relevance(weights, source, gold, begin, heads):
    """Log-probability of the gold symbols ``(B, T, S)``, all attention on one position after another."""
    given = torch.cat([torch.full_like(gold[:1], begin), gold[:-1]])
    found = []
    for s in range(len(source)):
        logp = plain_forward(weights, source, given, heads, only=s)[0].log_softmax(2)
        found.append(logp.gather(2, gold[..., None])[..., 0].T)
    return torch.stack(found, dim=2)


def _part(weights, prefix):
    return {
        name.removeprefix(prefix): weight
        for name, weight in weights.items()
        if name.startswith(prefix)
    }
