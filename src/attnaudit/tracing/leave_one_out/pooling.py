"""Attention pooling without some of its terms: sums of ``exp(score)`` and ``exp(score) · readout``.

With these sums, leave-one-out takes O(T) for encoders of single tokens and O(T · kernel) for the
CNN. Let ``R`` be half the widest kernel. Deleting ``t`` changes the ``R`` positions on either side.
All others keep their hidden state and enter as sums from the left and from the right. A convolution
is a sum over its window of one linear map per offset. So each token goes through these maps once,
and a changed window is a sum of finished pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnaudit.models.batch import Batch
from attnaudit.models.classifier import AttentionModel, Forward

# A pool with a smaller mass, relative to the largest term of its row, is recomputed. Terms near the
# smallest normal float64, 2e-308, have lost digits; in a larger mass they do not count.
UNDERFLOW = 1e-280


@dataclass(frozen=True)
class Pool:
    """``Σ exp(score)`` and ``Σ exp(score) · readout`` in float64, scaled by ``exp(−peak)``."""

    peak: Float[Tensor, "*n"]
    mass: Float[Tensor, "*n"]
    moment: Float[Tensor, "*n K"]

    def __add__(self, other: Pool) -> Pool:
        # Both are scaled to the larger peak, so no exponential overflows.
        peak = torch.maximum(self.peak, other.peak)
        mine, theirs = weight(self.peak - peak), weight(other.peak - peak)
        return Pool(
            peak,
            self.mass * mine + other.mass * theirs,
            self.moment * mine[..., None] + other.moment * theirs[..., None],
        )

    def readout(self) -> Float[Tensor, "*n K"]:
        """Return the pooled readout; 0 for pools without terms."""
        empty = self.mass == 0
        pooled = self.moment / torch.where(empty, 1.0, self.mass)[..., None]
        return torch.where(empty[..., None], 0.0, pooled)

    def add_term(self, scores: Float[Tensor, "*n"], readouts: Float[Tensor, "*n K"]) -> None:
        """Add one term to every pool in place; a score of −∞ adds nothing.

        Peaks must be finite, as those of `empty_pool` are.

        Args:
            scores: Score of each term.
            readouts: Readout of each term.
        """
        # With an infinite peak, −∞ − (−∞) would be NaN; hence the lowest number in `empty_pool`.
        peak = torch.maximum(self.peak, scores)
        kept, term = torch.exp(self.peak - peak), torch.exp(scores - peak)
        self.mass.mul_(kept).add_(term)
        self.moment.mul_(kept[..., None]).addcmul_(readouts, term[..., None])
        self.peak.copy_(peak)

    def __getitem__(self, places: slice) -> Pool:
        """Return a view of some of the pools."""
        return Pool(self.peak[places], self.mass[places], self.moment[places])


def empty_pool(shape: tuple[int, ...], outputs: int, device: torch.device) -> Pool:
    """Return pools without terms, to be filled by `Pool.add_term`.

    Args:
        shape: Shape of the pools.
        outputs: Width of a readout.
        device: Device of the tensors.

    Returns:
        The pools; their peak is the lowest finite number.
    """
    lowest = torch.finfo(torch.float64).min
    peak = torch.full(shape, lowest, dtype=torch.float64, device=device)
    moment = torch.zeros(*shape, outputs, dtype=torch.float64, device=device)
    return Pool(peak, torch.zeros_like(peak), moment)


def weight(gap: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """Return ``exp(gap)``; a gap between two peaks of −∞, which is NaN, gives 0."""
    return torch.exp(torch.nan_to_num(gap, nan=-torch.inf, neginf=-torch.inf))


def pool_of_terms(scores: Float[Tensor, "*n S"], readouts: Float[Tensor, "*n S K"]) -> Pool:
    """Pool over the last axis of scores.

    Args:
        scores: Score of each term; −∞ adds nothing.
        readouts: Readout of each term.

    Returns:
        One pool per entry of the other axes.
    """
    scores, readouts = scores.double(), readouts.double()
    peak = scores.amax(dim=-1)
    terms = weight(scores - peak[..., None])
    return Pool(peak, terms.sum(dim=-1), (terms[..., None] * readouts).sum(dim=-2))


def outside_window(
    scores: Float[Tensor, "B L"], readouts: Float[Tensor, "B L K"], radius: int
) -> Pool:
    """Pool, for each position, the terms at positions more than ``radius`` away.

    Args:
        scores: Score of each position; −∞ for positions without a term.
        readouts: Readout of each position.
        radius: Largest distance of the positions that are excluded.

    Returns:
        One pool per position.
    """
    scores, readouts = scores.double(), readouts.double()
    peak = scores.amax(dim=1, keepdim=True)
    terms = weight(scores - peak)
    # Sums from both ends are added. Subtracting the window from a total would cancel when the
    # window holds nearly all of the weight.
    stacked = torch.cat([terms[..., None], terms[..., None] * readouts], dim=-1)
    left, right = stacked.cumsum(dim=1), stacked.flip(1).cumsum(dim=1).flip(1)
    far = torch.zeros_like(stacked)
    step = radius + 1
    far[:, step:] += left[:, :-step]
    far[:, :-step] += right[:, step:]
    pool = Pool(peak.expand_as(scores).clone(), far[..., 0], far[..., 1:])
    # Terms are scaled by the row's largest score. If that is in the window, the others may all
    # underflow, so these few pools are recomputed with a scale of their own.
    weak = (pool.mass < UNDERFLOW).nonzero()
    if len(weak):
        row, place = weak.T
        distance = (torch.arange(scores.shape[1], device=scores.device) - place[:, None]).abs()
        outside = scores[row].masked_fill(distance <= radius, -torch.inf)
        again = pool_of_terms(outside, readouts[row])
        pool.peak[row, place], pool.mass[row, place] = again.peak, again.mass
        pool.moment[row, place] = again.moment
    return pool


def attention_scores(model: AttentionModel, batch: Batch, done: Forward) -> Float[Tensor, "B L"]:
    """Return the model's score of each attended position.

    Args:
        model: A model with one head and scores of hidden states.
        batch: The texts.
        done: The model's forward pass over them.

    Returns:
        The scores, −∞ at other positions.
    """
    query = None if done.question_terms.query is None else done.question_terms.query[:, None]
    return model.attention(done.hidden, query).masked_fill(~batch.attended, -float("inf"))


def logits_of_pools(
    model: AttentionModel, batch: Batch, done: Forward, pools: Pool
) -> Float[Tensor, "B L K"]:
    """Return the logits of one pool per position, in float64.

    Args:
        model: The model.
        batch: The texts, for their candidates.
        done: The model's forward pass, for its offset.
        pools: Pools of shape ``(B, L)``.

    Returns:
        The logits.
    """
    return model.logits(pools.readout() + done.question_terms.offset[:, None].double(), batch)


def pointwise_without_each(
    model: AttentionModel, batch: Batch, done: Forward
) -> Float[Tensor, "B L K"]:
    """Compute the logits without each token, in O(T), for an encoder of single tokens.

    A deletion changes no other hidden state and no other score.

    Args:
        model: The model.
        batch: The texts.
        done: The model's forward pass over them.

    Returns:
        The logits.
    """
    scores, readouts = attention_scores(model, batch, done), model.head.readout(done.hidden)
    pools = outside_window(scores, readouts, radius=0)
    return logits_of_pools(model, batch, done, pools)


def convolution_without_each(
    model: AttentionModel, batch: Batch, done: Forward
) -> Float[Tensor, "B L K"]:
    """Compute the logits without each token, in O(T · kernel), for convolutions.

    Args:
        model: The model.
        batch: The texts.
        done: The model's forward pass over them.

    Returns:
        The logits.
    """
    radius, query = max(model.settings.kernels) // 2, done.question_terms.query
    scores, readouts = attention_scores(model, batch, done), model.head.readout(done.hidden)
    pools = outside_window(scores, readouts, radius)
    # With kernels of width 1 no other position sees the deleted token.
    if radius:
        query = None if query is None else query[:, None, None]
        hidden = changed_hidden(model, done.embedded, radius)
        there = neighbours(batch.attended, radius)
        near_scores = model.attention(hidden, query).masked_fill(~there, -float("inf"))
        pools += pool_of_terms(near_scores, model.head.readout(hidden))
    return logits_of_pools(model, batch, done, pools)


def changed_hidden(
    model: AttentionModel, embedded: Float[Tensor, "B L E"], radius: int
) -> Float[Tensor, "B L S m"]:
    """Compute the hidden states of the neighbours of each position once that is deleted.

    Args:
        model: A model with convolutions.
        embedded: Embedded tokens.
        radius: Half the widest kernel.

    Returns:
        States of the ``S = 2 · radius`` neighbours of each position, from left to right.
    """
    width = embedded.shape[1]
    parts = []
    for convolution in model.encoder.convolutions:
        kernel = convolution.kernel_size[0]
        pieces = torch.einsum("ble,hek->bklh", embedded, convolution.weight)
        # A changed window reaches up to 2 · radius positions away, past the ends of the text.
        pieces = torch.nn.functional.pad(pieces, (0, 0, 2 * radius, 2 * radius))
        neighbour = []
        for offset in [*range(-radius, 0), *range(1, radius + 1)]:
            starts = [seen_from(offset, tap - kernel // 2) + 2 * radius for tap in range(kernel)]
            neighbour.append(
                sum(pieces[:, k, start : start + width] for k, start in enumerate(starts))
                + convolution.bias
            )
        parts.append(torch.stack(neighbour, dim=2))
    return torch.relu(torch.cat(parts, dim=-1))


def seen_from(offset: int, step: int) -> int:
    """Return the position that is ``step`` away from another once position 0 is deleted.

    Args:
        offset: Position before the deletion, not 0.
        step: Distance after the deletion, with its sign.

    Returns:
        The position before the deletion.
    """
    position = offset + step
    crossed = (offset < 0 <= position) or (position <= 0 < offset)
    return position + (1 if offset < 0 else -1) if crossed else position


def neighbours(attended: Bool[Tensor, "B L"], radius: int) -> Bool[Tensor, "B L S"]:
    """Mark which neighbours of each position are attended.

    Args:
        attended: Mask of the attended positions.
        radius: Largest distance of a neighbour.

    Returns:
        A mask of the ``S = 2 · radius`` neighbours, from left to right.
    """
    width = attended.shape[1]
    padded = torch.nn.functional.pad(attended, (radius, radius))
    offsets = [*range(-radius, 0), *range(1, radius + 1)]
    return torch.stack(
        [padded[:, radius + offset : radius + offset + width] for offset in offsets], dim=2
    )
