"""Attention: one score per position, and the distribution over the attended ones."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

ALL = slice(None)


class Additive(nn.Module):
    """``v · tanh(W₁ h)`` with half as many units as ``h`` has (Bahdanau et al. 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        units = max(width // 2, 1)
        self.units = nn.Linear(width, units)
        self.score = nn.Linear(units, 1, bias=False)

    def forward(self, hidden: Float[Tensor, "*n m"]) -> Float[Tensor, "*n"]:
        return self.finish(self.project(hidden))

    def project(self, hidden: Float[Tensor, "*n d"], part: slice = ALL) -> Float[Tensor, "*n a"]:
        """The linear share that the units ``part`` of ``h`` have in the score; shares add up."""
        return functional.linear(hidden, self.units.weight[:, part])

    def finish(self, projected: Float[Tensor, "*n a"]) -> Float[Tensor, "*n"]:
        """The score of the summed shares."""
        return self.score(torch.tanh(projected + self.units.bias)).squeeze(-1)


class Dot(nn.Module):
    """``h · q / √m`` with a learned vector ``q`` in place of a query (Vaswani et al. 2017)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, 1, bias=False)
        self.scale = width**-0.5

    def forward(self, hidden: Float[Tensor, "*n m"]) -> Float[Tensor, "*n"]:
        return self.finish(self.project(hidden))

    def project(self, hidden: Float[Tensor, "*n d"], part: slice = ALL) -> Float[Tensor, "*n a"]:
        return functional.linear(hidden, self.query.weight[:, part])

    def finish(self, projected: Float[Tensor, "*n a"]) -> Float[Tensor, "*n"]:
        return projected.squeeze(-1) * self.scale


ATTENTION = {"additive": Additive, "dot": Dot}


def attend(scores: Float[Tensor, "B L"], attended: Bool[Tensor, "B L"]) -> Float[Tensor, "B L"]:
    """Softmax over the attended positions, exactly 0 elsewhere; a row with none attended is all 0."""
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~attended, lowest), dim=1)
    return weights * attended
