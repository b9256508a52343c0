"""Importance by gradient, Algorithm 1 of Jain & Wallace 2019: ``g_t = |e_t · ∂ŷ/∂e_t|``."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.models.batch import Batch
from attnaudit.models.model import AttentionModel, Forward

Outputs = Literal["all", "predicted"]


def gradient_importance(
    model: AttentionModel, batch: Batch, *, detach_attention: bool, outputs: Outputs = "all"
) -> Float[Tensor, "B L"]:  # fmt: skip
    """Gradient times input of every position, in absolute value: summed over the outputs, or that of the predicted one.

    With ``detach_attention`` the gradient flows through the hidden states alone, as in the paper; without, through the weights too.
    An instance's logits depend on its own tokens only, so that one backward pass serves the whole batch. The derivative of the
    activation is worked out in float64, where it does not underflow.
    """
    embedded = model.embedding(batch.ids).detach().requires_grad_()
    with torch.enable_grad():
        done = model.from_embedded(embedded, batch, detach_attention=detach_attention)
        of = _of_predicted if outputs == "predicted" and model.activation == "softmax" else _of_all
        return of(model, embedded, done)


def _of_all(model: AttentionModel, embedded: Float[Tensor, "B L E"], done: Forward) -> Float[Tensor, "B L"]:
    """One backward pass per logit, then the chain rule through the activation."""
    columns = range(done.logits.shape[1])
    slopes = [torch.autograd.grad(done.logits[:, k].sum(), embedded, retain_graph=k < columns[-1])[0] for k in columns]
    per_logit = torch.stack([(slope * embedded.detach()).sum(dim=-1) for slope in slopes], dim=-1).double()
    return through_activation(per_logit, done.logits.detach().double(), model.activation).abs().sum(dim=-1)


def _of_predicted(model: AttentionModel, embedded: Float[Tensor, "B L E"], done: Forward) -> Float[Tensor, "B L"]:
    """One backward pass along ``∂ŷ/∂logits`` of the predicted answer, scaled to 1 on the way so that float32 holds it."""
    probability = torch.softmax(done.logits.detach().double(), dim=-1)
    most, chosen = probability.max(dim=-1, keepdim=True)
    others = probability.scatter(-1, chosen, 0.0)
    direction = most * (-others).scatter(-1, chosen, others.sum(dim=-1, keepdim=True))  # 1 − ŷ as a sum: no cancellation near 1
    size = direction.abs().amax(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    allowed = torch.isfinite(done.logits)
    along = torch.where(allowed, done.logits, 0.0) * (direction / size).to(done.logits.dtype)
    (slope,) = torch.autograd.grad(along.sum(), embedded)
    return (slope * embedded.detach()).sum(dim=-1).double().abs() * size


def through_activation(per_logit: Float[Tensor, "B L K"], logits: Float[Tensor, "B K"], activation: str) -> Float[Tensor, "B L K"]:
    """The chain rule from logits to probabilities: ``p(1 − p)`` for a sigmoid, ``p_c (δ_cc' − p_c')`` for a softmax."""
    if activation == "sigmoid":
        slope = torch.sigmoid(logits) * torch.sigmoid(-logits)
        return per_logit * slope[:, None, :]
    probability = torch.softmax(logits, dim=-1)[:, None, :]
    return probability * (per_logit - (probability * per_logit).sum(dim=-1, keepdim=True))
