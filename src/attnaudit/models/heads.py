"""Heads: from the attended sum to logits, as ``tail(offset + Σ_t alpha_t · readout_t)``."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.models.attention import ALL


class LinearHead(nn.Module):
    """One linear layer: the readout ``W h_t`` already counts in logits, the offset is the bias."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, outputs)
        self.readout_width = outputs

    def offset(self, question: Float[Tensor, "B m"] | None) -> Float[Tensor, " K"]:
        return self.output.bias

    def readout(self, hidden: Float[Tensor, "*n d"], part: slice = ALL) -> Float[Tensor, "*n K"]:
        """What the units ``part`` of each position contribute under full attention."""
        return functional.linear(hidden, self.output.weight[:, part])

    def tail(self, pooled: Float[Tensor, "*n K"]) -> Float[Tensor, "*n K"]:
        return pooled


class TanhHead(nn.Module):
    """``W₂ tanh(W_p c + W_q Q) + b₂`` of question answering and inference: readout ``W_p h_t``, offset ``W_q Q + b``."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.readout_width = units = max(width // 2, 1)
        self.passage = nn.Linear(width, units, bias=False)
        self.question = nn.Linear(width, units)
        self.output = nn.Linear(units, outputs)

    def offset(self, question: Float[Tensor, "B m"] | None) -> Float[Tensor, "B P"]:
        return self.question(question)

    def readout(self, hidden: Float[Tensor, "*n d"], part: slice = ALL) -> Float[Tensor, "*n P"]:
        return functional.linear(hidden, self.passage.weight[:, part])

    def tail(self, pooled: Float[Tensor, "*n P"]) -> Float[Tensor, "*n C"]:
        weight, bias = self.output.weight.to(pooled.dtype), self.output.bias.to(pooled.dtype)
        return functional.linear(torch.tanh(pooled), weight, bias)
