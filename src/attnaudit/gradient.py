"""Importance by gradient, Algorithm 1 of Jain & Wallace 2019: ``g_t = Σ_c |e_t · ∂ŷ_c/∂e_t|``."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.models.batch import Batch
from attnaudit.models.classifier import Classifier


def gradient_importance(model: Classifier, batch: Batch, *, detach_attention: bool) -> Float[Tensor, "B L"]:
    """Gradient times input of every position, summed in absolute value over the outputs.

    With ``detach_attention`` the gradient flows through the hidden states alone, as in the paper; without, through the weights too.
    One backward pass per logit: an instance's logits depend on its own tokens only, so that the gradient of their sum over the batch
    is every instance's own. The derivative of the activation is applied afterwards, in float64, where it does not underflow.
    """
    embedded = model.embedding(batch.ids).detach().requires_grad_()
    with torch.enable_grad():
        logits = model.from_embedded(embedded, batch, detach_attention=detach_attention).logits
        outputs = logits.shape[1]
        slopes = [torch.autograd.grad(logits[:, k].sum(), embedded, retain_graph=k + 1 < outputs)[0] for k in range(outputs)]
    per_logit = torch.stack([(slope * embedded.detach()).sum(dim=-1) for slope in slopes], dim=-1).double()
    return through_activation(per_logit, logits.detach().double(), model.classes).abs().sum(dim=-1)


def through_activation(per_logit: Float[Tensor, "B L K"], logits: Float[Tensor, "B K"], classes: int) -> Float[Tensor, "B L K"]:
    """The chain rule from logits to probabilities: ``p(1 − p)`` for a sigmoid, ``p_c (δ_cc' − p_c')`` for a softmax."""
    if classes == 2:
        slope = torch.sigmoid(logits) * torch.sigmoid(-logits)
        return per_logit * slope[:, None, :]
    probability = torch.softmax(logits, dim=-1)[:, None, :]
    return probability * (per_logit - (probability * per_logit).sum(dim=-1, keepdim=True))
