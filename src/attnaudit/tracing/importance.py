"""Importance by gradient, and the fall of the output when words are deleted from the input.

``g_t = |e_t · ∂ŷ/∂e_t|`` is the importance of Algorithm 1 of Jain & Wallace 2019. For
comprehensiveness and sufficiency (ERASER: DeYoung et al. 2020), tokens are deleted by score and the
model runs on the shorter text. Deletion works on ids, never on strings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.core.ragged import Ragged
from attnaudit.models.batch import Batch, Inputs
from attnaudit.models.classifier import AttentionModel, Forward, probabilities
from attnaudit.models.encoders import Embedded
from attnaudit.stats.measures import (
    ERASED_SHARES,
    ERASURE_WAYS,
    Activation,
    predicted_class,
    two_classes,
)
from attnaudit.tracing.settings import Outputs
from attnaudit.training.texts import predict

Scores = Float[Tensor, "B L"]
Logits = Float[Tensor, "B K"]


@dataclass(frozen=True)
class Importance:
    """Absolute gradient times input of every position.

    Attributes:
        held: The gradient only flows through the hidden states; attention is held fixed, as in the
            paper.
        full: The gradient flows through the attention too.
        done: The forward pass.
    """

    held: Scores
    full: Scores
    done: Forward


def gradient_importance(
    model: AttentionModel, batch: Batch, outputs: Outputs = "all"
) -> Importance:
    """Compute both gradients of a batch from one forward pass.

    Args:
        model: The model.
        batch: The texts.
        outputs: Sum over all outputs, or only the predicted one.

    Returns:
        The gradients and the forward pass.
    """
    embedded = model.embed(batch).detach().requires_grad_()
    # The one output of a sigmoid is the predicted one or its complement, with the same size.
    predicted = outputs == "predicted" and model.activation == "softmax"
    importance = _importance_of_predicted if predicted else _importance_of_all
    with torch.enable_grad():
        done = model.from_embedded(embedded, batch)
        alpha = done.alpha.detach()
        held = model.logits_from_attention(alpha, done.hidden, done.offset, batch)
        return Importance(
            importance(model, embedded, held),
            importance(model, embedded, done.logits),
            done.detached(),
        )


def _importance_of_all(model: AttentionModel, embedded: Embedded, logits: Logits) -> Scores:
    """Take one backward pass per logit."""
    slopes = [_times_input(embedded, logits[:, k]) for k in range(logits.shape[1])]
    return sum_over_outputs(torch.stack(slopes, dim=-1), logits, model.activation)


def sum_over_outputs(
    per_logit: Float[Tensor, "B L K"], logits: Logits, activation: Activation
) -> Scores:
    """Apply the chain rule through the activation, and add the sizes of all outputs.

    The factor is ``p(1 − p)`` for a sigmoid and ``p_c (δ_cc' − p_c')`` for a softmax.

    Args:
        per_logit: Gradient times input of each logit.
        logits: The logits.
        activation: ``sigmoid`` or ``softmax``.
    """
    # In float32 the derivative of a saturated activation would underflow to 0.
    per_logit, logits = per_logit.double(), logits.detach().double()
    probability = probabilities(logits, activation)[:, None, :]
    if activation == "sigmoid":
        # σ(−x) rather than 1 − σ(x), which cancels for large x.
        per_probability = probability * torch.sigmoid(-logits)[:, None, :] * per_logit
    else:
        mean = (probability * per_logit).sum(dim=-1, keepdim=True)
        per_probability = probability * (per_logit - mean)
    return per_probability.abs().sum(dim=-1)


def _importance_of_predicted(model: AttentionModel, embedded: Embedded, logits: Logits) -> Scores:
    """Take one backward pass along ``∂ŷ/∂logits`` of the predicted answer."""
    probability = torch.softmax(logits.detach().double(), dim=-1)
    most, chosen = probability.max(dim=-1, keepdim=True)
    others = probability.scatter(-1, chosen, 0.0)
    # 1 − ŷ is computed as a sum of the others, which does not cancel when ŷ is near 1.
    direction = most * (-others).scatter(-1, chosen, others.sum(dim=-1, keepdim=True))
    # The backward pass runs in float32, where the direction could underflow. It is scaled to a
    # largest entry of 1, and the result is scaled back in float64.
    size = direction.abs().amax(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    # An answer that is not allowed has a logit of −∞ and no share; −∞ · 0 would be NaN.
    along = torch.where(torch.isfinite(logits), logits, 0.0) * (direction / size).to(logits.dtype)
    return _times_input(embedded, along.sum(dim=-1)).double().abs() * size


def _times_input(embedded: Embedded, scalar: Float[Tensor, " B"]) -> Scores:
    """Return ``e_t · ∂ scalar / ∂e_t``."""
    # A text's scalar only depends on its own tokens, so the gradient of the sum holds every text's
    # own gradient. The graph is kept because the next gradient uses the same forward pass.
    (slope,) = torch.autograd.grad(scalar.sum(), embedded, retain_graph=True)
    return (slope * embedded.detach()).sum(dim=-1)


def input_falls(
    model: AttentionModel, inputs: Inputs, scores: Mapping[str, Ragged]
) -> dict[str, Float[np.ndarray, "n S"]]:
    """Measure the fall of the predicted class's probability when positions are deleted.

    Args:
        model: The model.
        inputs: The texts.
        scores: Scores of positions by name.

    Returns:
        One column per score and way, ``(n, S)``, with a fall for each share in `ERASED_SHARES`.
        ``input_comprehensiveness_<name>`` is without the positions of highest score, and
        ``input_sufficiency_<name>`` with only them. Texts of one position have NaN.
    """
    before = two_classes(predict(model, inputs))
    chosen = np.arange(len(before)), predicted_class(before)

    def fall(rank, share, keeps_best):
        after = two_classes(predict(model, erase(inputs, rank, share, keeps_best)))
        return before[chosen] - after[chosen]

    columns = {}
    for name, score in scores.items():
        order = score.descending()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = score.places
        rank, single = score.with_values(ranks), score.lengths[:, None] <= 1
        for way, keeps_best in zip(ERASURE_WAYS, (False, True), strict=True):
            falls = [fall(rank, share, keeps_best) for share in ERASED_SHARES]
            columns[f"input_{way}_{name}"] = np.where(single, np.nan, np.stack(falls, axis=1))
    return columns


def erase(inputs: Inputs, rank: Ragged, share: float, keeps_best: bool) -> Inputs:
    """Delete the best positions of every text, or all others.

    Args:
        inputs: The texts.
        rank: Rank of each position; 0 is the best.
        share: Share of the positions that count as best; at least one does.
        keeps_best: Delete the others instead of the best.

    Returns:
        The shorter texts.
    """
    # Rounding puts some products slightly above an integer, such as 0.07 · 100. Without the 1e-9
    # one position too many would count.
    best = rank.values < rank.spread(np.maximum(np.ceil(share * rank.lengths - 1e-9), 1))
    stays = best if keeps_best else ~best
    if inputs.sentences is None:
        return replace(inputs, ids=inputs.ids.where(stays))
    ids = inputs.ids.where(np.repeat(stays, inputs.sentences.values))
    return replace(inputs, ids=ids, sentences=inputs.sentences.where(stays))
