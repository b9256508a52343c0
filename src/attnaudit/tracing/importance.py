"""Importance by gradient, and what scores are worth in the input.

``g_t = |e_t · ∂ŷ/∂e_t|`` is that of Algorithm 1 of Jain & Wallace 2019. Comprehensiveness and sufficiency (ERASER: DeYoung et al. 2020)
delete tokens from the text by a score and run everything again; by number, never by string: what is left goes through the model as a
shorter text, its words those it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.core.ragged import Ragged
from attnaudit.models.batch import Batch, Inputs
from attnaudit.models.classifier import AttentionModel, Forward
from attnaudit.stats.measures import ERASED_SHARES, ERASURE_WAYS, predicted_class
from attnaudit.tracing.settings import Outputs
from attnaudit.training.texts import predict


@dataclass(frozen=True)
class Importance:
    """Gradient times input of every position, ``(B, L)``, in absolute value, and the pass ``done`` that it is the gradient of.

    ``held`` flows through the hidden states alone, attention held fixed, as in the paper; ``full`` flows through the weights too.
    """

    held: Float[Tensor, "B L"]
    full: Float[Tensor, "B L"]
    done: Forward


def gradient_importance(
    model: AttentionModel, batch: Batch, outputs: Outputs = "all"
) -> Importance:
    """Both gradients of a batch: summed over the outputs, or those of the predicted one.

    An instance's logits depend on its own tokens only, so that one backward pass serves the whole batch; both gradients share one pass
    forward. The derivative of the activation is computed in float64, where it does not underflow.
    """
    embedded = model.embed(batch).detach().requires_grad_()
    of = _of_predicted if outputs == "predicted" and model.activation == "softmax" else _of_all
    with torch.enable_grad():
        done = model.from_embedded(embedded, batch)
        held = model.logits_from_attention(
            done.alpha.detach(), done.hidden, done.question_terms, batch
        )
        return Importance(
            of(model, embedded, held), of(model, embedded, done.logits), done.detached()
        )


def _of_all(
    model: AttentionModel, embedded: Float[Tensor, "B L E"], logits: Float[Tensor, "B K"]
) -> Float[Tensor, "B L"]:
    """One backward pass per logit, then the chain rule through the activation."""
    per_logit = torch.stack(
        [_times_input(embedded, logits[:, k]) for k in range(logits.shape[1])], dim=-1
    ).double()
    return (
        through_activation(per_logit, logits.detach().double(), model.activation).abs().sum(dim=-1)
    )


def _of_predicted(
    model: AttentionModel, embedded: Float[Tensor, "B L E"], logits: Float[Tensor, "B K"]
) -> Float[Tensor, "B L"]:
    """One backward pass along ``∂ŷ/∂logits`` of the predicted answer, scaled to 1 on the way so that float32 holds it."""
    probability = torch.softmax(logits.detach().double(), dim=-1)
    most, chosen = probability.max(dim=-1, keepdim=True)
    others = probability.scatter(-1, chosen, 0.0)
    direction = most * (-others).scatter(
        -1, chosen, others.sum(dim=-1, keepdim=True)
    )  # 1 − ŷ as a sum: no cancellation near 1
    size = direction.abs().amax(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    along = torch.where(torch.isfinite(logits), logits, 0.0) * (direction / size).to(logits.dtype)
    return _times_input(embedded, along.sum(dim=-1)).double().abs() * size


def _times_input(
    embedded: Float[Tensor, "B L E"], scalar: Float[Tensor, " B"]
) -> Float[Tensor, "B L"]:
    """``e_t · ∂ scalar / ∂e_t``; the pass forward is kept for the next one."""
    (slope,) = torch.autograd.grad(scalar.sum(), embedded, retain_graph=True)
    return (slope * embedded.detach()).sum(dim=-1)


def through_activation(
    per_logit: Float[Tensor, "B L K"], logits: Float[Tensor, "B K"], activation: str
) -> Float[Tensor, "B L K"]:
    """The chain rule from logits to probabilities: ``p(1 − p)`` for a sigmoid, ``p_c (δ_cc' − p_c')`` for a softmax."""
    if activation == "sigmoid":
        slope = torch.sigmoid(logits) * torch.sigmoid(-logits)
        return per_logit * slope[:, None, :]
    probability = torch.softmax(logits, dim=-1)[:, None, :]
    return probability * (per_logit - (probability * per_logit).sum(dim=-1, keepdim=True))


def input_falls(
    model: AttentionModel, inputs: Inputs, scores: Mapping[str, Ragged]
) -> dict[str, Float[np.ndarray, "n S"]]:
    """``input_<way>_<score>``: how far the decided class's probability falls at each of the shares of T.

    Without the positions of highest score, and with them alone; NaN for texts of one position.
    """
    before = predict(model, inputs)
    chosen = predicted_class(before)
    found = {}
    for name, score in scores.items():
        rank = _ranks(score)
        for way, keeps_best in zip(ERASURE_WAYS, (False, True), strict=True):
            falls = [
                _of(before, chosen)
                - _of(predict(model, kept(inputs, rank, share, keeps_best)), chosen)
                for share in ERASED_SHARES
            ]
            found[f"input_{way}_{name}"] = np.where(
                score.lengths[:, None] > 1, np.stack(falls, axis=1), np.nan
            )
    return found


def kept(inputs: Inputs, rank: Ragged, share: float, keeps_best: bool) -> Inputs:
    """The texts without their best positions of a share of T, one at least, or with these alone."""
    best = rank.values < rank.spread(np.maximum(np.ceil(share * rank.lengths - 1e-9), 1))
    stays = rank.with_values(best if keeps_best else ~best)
    if inputs.sentences is None:
        return replace(inputs, ids=_where(inputs.ids, stays))
    words = inputs.ids.with_values(np.repeat(stays.values, inputs.sentences.values))
    return replace(inputs, ids=_where(inputs.ids, words), sentences=_where(inputs.sentences, stays))


def _where(rows: Ragged, stays: Ragged) -> Ragged:
    """The values that stay."""
    return Ragged.from_lengths(
        rows.values[stays.values], stays.with_values(stays.values.astype(np.int64)).sum()
    )


def _ranks(score: Ragged) -> Ragged:
    """0 for the position of highest score, 1 for the next, equal ones as they stand."""
    ranks = [np.argsort(np.argsort(-row, kind="stable"), kind="stable") for row in score]
    return score.with_values(np.concatenate(ranks) if ranks else np.zeros(0, np.int64))


def _of(prediction: Float[np.ndarray, "n K"], chosen: np.ndarray) -> Float[np.ndarray, " n"]:
    """The probability of each row's decided class."""
    if prediction.shape[1] == 1:
        return np.where(chosen == 1, prediction[:, 0], 1.0 - prediction[:, 0])
    return prediction[np.arange(len(chosen)), chosen]
