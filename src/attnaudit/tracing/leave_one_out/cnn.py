"""Leave-one-out of the CNN in O(T · kernel): a deletion changes only the hidden states whose window spans it.

With radius ``R`` (half the widest kernel) the deletion of ``t`` changes the ``R`` positions on either side; all others keep their
hidden state and enter as sums from the left and the right. A convolution is a sum over its window of one linear map per offset, so
each token goes through those maps once, and a changed window is a sum of finished pieces.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnaudit.models.batch import Batch
from attnaudit.models.classifier import AttentionModel, Forward
from attnaudit.tracing.leave_one_out.pooling import attention_scores, logits_of_pools, outside_window, pool_of_terms


def cnn_without_each(model: AttentionModel, batch: Batch, done: Forward) -> Float[Tensor, "B L K"]:
    """The logits without each token."""
    radius = max(model.settings.kernels) // 2
    pools = outside_window(attention_scores(model, batch, done), model.head.readout(done.hidden), radius)
    if radius:  # else nothing but the token itself sees it
        query = None if done.question_terms.query is None else done.question_terms.query[:, None, None]
        hidden = changed_hidden(model, done.embedded, radius)
        there = neighbours(batch.attended, radius)
        near_scores = model.attention(hidden, query).masked_fill(~there, -float("inf"))
        pools += pool_of_terms(near_scores, model.head.readout(hidden))
    return logits_of_pools(model, batch, done, pools)


def changed_hidden(model: AttentionModel, embedded: Float[Tensor, "B L E"], radius: int) -> Float[Tensor, "B L S m"]:
    """Hidden states of the ``S = 2 · radius`` neighbours of every position once that position is deleted, left ones first."""
    width = embedded.shape[1]
    parts = []
    for convolution in model.encoder.convolutions:
        kernel = convolution.kernel_size[0]
        pieces = torch.einsum("ble,hek->bklh", embedded, convolution.weight)
        pieces = torch.nn.functional.pad(pieces, (0, 0, 2 * radius, 2 * radius))
        neighbour = []
        for offset in [*range(-radius, 0), *range(1, radius + 1)]:
            starts = [seen_from(offset, tap - kernel // 2) + 2 * radius for tap in range(kernel)]
            neighbour.append(sum(pieces[:, k, start : start + width] for k, start in enumerate(starts)) + convolution.bias)
        parts.append(torch.stack(neighbour, dim=2))
    return torch.relu(torch.cat(parts, dim=-1))


def seen_from(offset: int, step: int) -> int:
    """Where position ``offset``, relative to the deleted one, finds its neighbour ``step`` positions away once 0 is deleted."""
    position = offset + step
    crossed = (offset < 0 <= position) or (position <= 0 < offset)
    return position + (1 if offset < 0 else -1) if crossed else position


def neighbours(attended: Bool[Tensor, "B L"], radius: int) -> Bool[Tensor, "B L S"]:
    """Whether the neighbours at −radius … −1, 1 … radius are attended positions."""
    width = attended.shape[1]
    padded = torch.nn.functional.pad(attended, (radius, radius))
    offsets = [*range(-radius, 0), *range(1, radius + 1)]
    return torch.stack([padded[:, radius + offset : radius + offset + width] for offset in offsets], dim=2)
