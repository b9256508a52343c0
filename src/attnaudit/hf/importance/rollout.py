"""Attention rollout (Abnar & Zuidema 2020)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.hf.importance.case import Case


def rollout(case: Case) -> Float[Tensor, "B T"]:
    """Compute the share of every token in what the query mixes over all layers.

    Heads are averaged, and ``A = ½W + ½I`` is multiplied over the layers, so that shares sum to 1.
    Cross-attention is a layer of the decoder that mixes in what the encoder has made of the text;
    what the decoder has written then has the rest of the sum.
    """
    texts, tokens = case.mask.shape
    text = torch.eye(tokens, device=case.mask.device).expand(texts, -1, -1)
    written: Tensor | None = None  # shares of the text in what a decoder has written
    for layer, attention in zip(case.gate.layers, case.attentions, strict=True):
        # What a sink takes is shared by the tokens, so that rows sum to 1.
        weights = attention.weights.float().mean(dim=1)
        weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-12)
        if case.texts.written is None or layer.stack == "encoder":
            text = 0.5 * weights @ text + 0.5 * text
            continue
        if written is None:
            written = text.new_zeros(texts, weights.shape[1], tokens)
        below = text if layer.stack == "cross" else written
        written = 0.5 * weights @ below + 0.5 * written
    return (text if written is None else written)[torch.arange(texts), case.query]
