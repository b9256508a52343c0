"""Attention rollout (Abnar & Zuidema 2020)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.hf.importance.case import Case, moved_back


def rollout(case: Case) -> Float[Tensor, "B T"]:
    """Compute the share of every token in what the query mixes over all layers.

    Heads are averaged, and ``A = ½W + ½I`` is multiplied over the layers, so that shares sum to 1.
    Cross-attention is a layer of the decoder that mixes in what the encoder has made of the text;
    what the decoder has written then has the rest of the sum, unless that is the text itself.
    """
    tokens, texts = case.mask.shape[1], len(case.mask)
    text = torch.eye(tokens, device=case.mask.device).expand(texts, -1, -1)
    decoder: Tensor | None = None  # shares of the text, and behind them of what was written
    for layer, attention in zip(case.gate.layers, case.attentions, strict=True):
        # What a sink takes is shared by the tokens, so that rows sum to 1.
        weights = attention.weights.float().mean(dim=1)
        weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-12)
        if not case.is_written(layer):
            text = 0.5 * weights @ text + 0.5 * text
            continue
        if decoder is None:
            own = torch.eye(weights.shape[1], device=text.device).expand(texts, -1, -1)
            decoder = torch.cat([own.new_zeros(texts, own.shape[1], tokens), own], dim=2)
        below = decoder
        if layer.stack == "cross":
            below = torch.cat([text, text.new_zeros(texts, tokens, decoder.shape[1])], dim=2)
        decoder = 0.5 * weights @ below + 0.5 * decoder
    shares = (text if decoder is None else decoder)[torch.arange(texts), case.query]
    again = moved_back(shares[:, tokens:]) if case.decoder_reads_text else 0
    return shares[:, :tokens] + again
