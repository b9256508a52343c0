"""Importance by gradient, Algorithm 1 of Jain & Wallace 2019: ``g_t = |e_t · ∂ŷ/∂e_t|``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.models.batch import Batch
from attnaudit.models.classifier import AttentionModel, Forward
from attnaudit.tracing.settings import Outputs


@dataclass(frozen=True)
class Importance:
    """Gradient times input of every position, ``(B, L)``, in absolute value, and the pass ``done`` that it is the gradient of.

    ``held`` flows through the hidden states alone, attention held fixed, as in the paper; ``full`` flows through the weights too.
    """

    held: Float[Tensor, "B L"]
    full: Float[Tensor, "B L"]
    done: Forward


def gradient_importance(model: AttentionModel, batch: Batch, outputs: Outputs = "all") -> Importance:
    """Both gradients of a batch: summed over the outputs, or those of the predicted one.

    An instance's logits depend on its own tokens only, so that one backward pass serves the whole batch; both gradients share one pass
    forward. The derivative of the activation is computed in float64, where it does not underflow.
    """
    embedded = model.embed(batch).detach().requires_grad_()
    of = _of_predicted if outputs == "predicted" and model.activation == "softmax" else _of_all
    with torch.enable_grad():
        done = model.from_embedded(embedded, batch)
        held = model.logits_from_attention(done.alpha.detach(), done.hidden, done.question_terms, batch)
        return Importance(of(model, embedded, held), of(model, embedded, done.logits), done.detached())


def _of_all(model: AttentionModel, embedded: Float[Tensor, "B L E"], logits: Float[Tensor, "B K"]) -> Float[Tensor, "B L"]:
    """One backward pass per logit, then the chain rule through the activation."""
    per_logit = torch.stack([_times_input(embedded, logits[:, k]) for k in range(logits.shape[1])], dim=-1).double()
    return through_activation(per_logit, logits.detach().double(), model.activation).abs().sum(dim=-1)


def _of_predicted(model: AttentionModel, embedded: Float[Tensor, "B L E"], logits: Float[Tensor, "B K"]) -> Float[Tensor, "B L"]:
    """One backward pass along ``∂ŷ/∂logits`` of the predicted answer, scaled to 1 on the way so that float32 holds it."""
    probability = torch.softmax(logits.detach().double(), dim=-1)
    most, chosen = probability.max(dim=-1, keepdim=True)
    others = probability.scatter(-1, chosen, 0.0)
    direction = most * (-others).scatter(-1, chosen, others.sum(dim=-1, keepdim=True))  # 1 − ŷ as a sum: no cancellation near 1
    size = direction.abs().amax(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    along = torch.where(torch.isfinite(logits), logits, 0.0) * (direction / size).to(logits.dtype)
    return _times_input(embedded, along.sum(dim=-1)).double().abs() * size


def _times_input(embedded: Float[Tensor, "B L E"], scalar: Float[Tensor, " B"]) -> Float[Tensor, "B L"]:
    """``e_t · ∂ scalar / ∂e_t``; the pass forward is kept for the next one."""
    (slope,) = torch.autograd.grad(scalar.sum(), embedded, retain_graph=True)
    return (slope * embedded.detach()).sum(dim=-1)


def through_activation(per_logit: Float[Tensor, "B L K"], logits: Float[Tensor, "B K"], activation: str) -> Float[Tensor, "B L K"]:
    """The chain rule from logits to probabilities: ``p(1 − p)`` for a sigmoid, ``p_c (δ_cc' − p_c')`` for a softmax."""
    if activation == "sigmoid":
        slope = torch.sigmoid(logits) * torch.sigmoid(-logits)
        return per_logit * slope[:, None, :]
    probability = torch.softmax(logits, dim=-1)[:, None, :]
    return probability * (per_logit - (probability * per_logit).sum(dim=-1, keepdim=True))
