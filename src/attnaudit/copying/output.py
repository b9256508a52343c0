"""The output layer of the copying model: scores of all symbols from the context of attention and the state of the decoder.

Both kinds begin with a map that is linear in context c and state d, ``z = C c + D d + b``, whose factors are multiplied once a batch:

- ``tied``: z are the scores. ``C = E W_c`` and ``D = E W_d`` with the embeddings E, as there are fewer symbols than dimensions.
- ``tanh``: the scores are ``U tanh z + u``. ``C = W_c P`` with a projection P of the context, and D is a weight (Snell et al. 2021, as
  released: ``seq2seq_model.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.copying.lstm import Workspace
from attnaudit.copying.presets import Kind

Weights = Mapping[str, Tensor]
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Linear:
    """``z = context · c + state · d + offset``, or the gradient of the three."""

    context: Float[Tensor, "w m"]
    state: Float[Tensor, "w m"]
    offset: Float[Tensor, " w"]


class Output(Protocol):
    """An output layer: its weights, its linear part, its scores, and the gradients of these."""

    def shapes(self, vocabulary: int, hidden: int, embedding: int) -> Shapes:
        """Its weights by name; ``…weight`` and ``…bias`` of one name are those of a layer."""
        ...

    def inputs(self, name: str, hidden: int, embedding: int) -> int:
        """How many numbers n the layer of a weight reads, ``hidden`` for other layers; fresh weights are uniform up to n^-½."""
        ...

    def linear(self, weights: Weights) -> Linear:
        """The linear part."""
        ...

    def scores(
        self, weights: Weights, z: Float[Tensor, "N w"], out: Workspace | None = None
    ) -> Float[Tensor, "N V"]:
        """The scores, in the workspace ``out`` where it is given. What ``z`` holds is replaced by what the gradient needs."""
        ...

    def scores_backward(
        self,
        weights: Weights,
        workspace: Workspace,
        z: Float[Tensor, "N w"],
        d_scores: Float[Tensor, "N V"],
        gradient: Weights,
    ) -> Float[Tensor, "N w"]:
        """The gradient of z before `scores` replaced it; fills that of the weights between z and the scores."""
        ...

    def linear_backward(self, weights: Weights, found: Linear, gradient: Weights) -> None:
        """Fill the gradient of the weights of the linear part; that of the embedding is added."""
        ...


class Tied:
    """``E (W_c c + W_d d + b_d) + b``."""

    def shapes(self, vocabulary: int, hidden: int, embedding: int) -> Shapes:
        square = (embedding, hidden)
        return {
            "context.weight": square,
            "state.weight": square,
            "state.bias": (embedding,),
            "output.bias": (vocabulary,),
        }

    def inputs(self, name: str, hidden: int, embedding: int) -> int:
        return embedding if name == "output.bias" else hidden

    def linear(self, weights: Weights) -> Linear:
        table = weights["embedding.weight"]
        context, state = (table @ weights[name] for name in ("context.weight", "state.weight"))
        return Linear(context, state, table @ weights["state.bias"] + weights["output.bias"])

    def scores(
        self, weights: Weights, z: Float[Tensor, "N w"], out: Workspace | None = None
    ) -> Float[Tensor, "N V"]:
        return z

    def scores_backward(
        self,
        weights: Weights,
        workspace: Workspace,
        z: Float[Tensor, "N w"],
        d_scores: Float[Tensor, "N V"],
        gradient: Weights,
    ) -> Float[Tensor, "N w"]:
        return d_scores

    def linear_backward(self, weights: Weights, found: Linear, gradient: Weights) -> None:
        table = weights["embedding.weight"]
        gradient["output.bias"].copy_(found.offset)
        gradient["state.bias"].copy_(found.offset @ table)
        gradient["embedding.weight"].addr_(found.offset, weights["state.bias"])
        for name, d_product in (("context.weight", found.context), ("state.weight", found.state)):
            torch.mm(table.t(), d_product, out=gradient[name])
            gradient["embedding.weight"].addmm_(d_product, weights[name].t())


class Tanh:
    """``U tanh(W_c (P c + p) + W_d d + b_d) + u``."""

    def shapes(self, vocabulary: int, hidden: int, embedding: int) -> Shapes:
        square, row = (hidden, hidden), (hidden,)
        return {
            "projection.weight": square,
            "projection.bias": row,
            "context.weight": square,
            "state.weight": square,
            "state.bias": row,
            "output.weight": (vocabulary, hidden),
            "output.bias": (vocabulary,),
        }

    def inputs(self, name: str, hidden: int, embedding: int) -> int:
        return 2 * hidden if name in ("context.weight", "state.weight", "state.bias") else hidden

    def linear(self, weights: Weights) -> Linear:
        mixing = weights["context.weight"]
        offset = mixing @ weights["projection.bias"] + weights["state.bias"]
        return Linear(mixing @ weights["projection.weight"], weights["state.weight"], offset)

    def scores(
        self, weights: Weights, z: Float[Tensor, "N w"], out: Workspace | None = None
    ) -> Float[Tensor, "N V"]:
        weight = weights["output.weight"]
        place = out("scores", len(z), len(weight)) if out else None
        return torch.addmm(weights["output.bias"], z.tanh_(), weight.t(), out=place)

    def scores_backward(
        self,
        weights: Weights,
        workspace: Workspace,
        z: Float[Tensor, "N w"],
        d_scores: Float[Tensor, "N V"],
        gradient: Weights,
    ) -> Float[Tensor, "N w"]:
        torch.mm(d_scores.t(), z, out=gradient["output.weight"])
        torch.sum(d_scores, 0, out=gradient["output.bias"])
        d_z = torch.mm(
            d_scores, weights["output.weight"], out=workspace("gradient of linear part", *z.shape)
        )
        return d_z.mul_(z.square_().neg_().add_(1))

    def linear_backward(self, weights: Weights, found: Linear, gradient: Weights) -> None:
        mixing = weights["context.weight"]
        gradient["state.bias"].copy_(found.offset)
        gradient["state.weight"].copy_(found.state)
        gradient["projection.bias"].copy_(found.offset @ mixing)
        torch.mm(mixing.t(), found.context, out=gradient["projection.weight"])
        torch.mm(found.context, weights["projection.weight"].t(), out=gradient["context.weight"])
        gradient["context.weight"].addr_(found.offset, weights["projection.bias"])


OUTPUTS: Mapping[Kind, Output] = {"tied": Tied(), "tanh": Tanh()}
