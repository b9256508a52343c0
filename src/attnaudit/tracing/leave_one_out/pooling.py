"""Attention pooling when some of its terms are excluded or replaced: sums of ``exp(score)`` and ``exp(score) · readout``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.models.batch import Batch
from attnaudit.models.classifier import AttentionModel, Forward

UNDERFLOW = 1e-280


@dataclass(frozen=True)
class Pool:
    """``Σ exp(score)`` and ``Σ exp(score) · readout``, both scaled by ``exp(−peak)``; in float64."""

    peak: Float[Tensor, "*n"]
    mass: Float[Tensor, "*n"]
    moment: Float[Tensor, "*n K"]

    def __add__(self, other: Pool) -> Pool:
        peak = torch.maximum(self.peak, other.peak)
        mine, theirs = weight(self.peak - peak), weight(other.peak - peak)
        return Pool(peak, self.mass * mine + other.mass * theirs, self.moment * mine[..., None] + other.moment * theirs[..., None])

    def readout(self) -> Float[Tensor, "*n K"]:
        """The pooled readout; 0 where nothing was pooled."""
        empty = self.mass == 0
        pooled = self.moment / torch.where(empty, 1.0, self.mass)[..., None]
        return torch.where(empty[..., None], 0.0, pooled)

    def add_term(self, scores: Float[Tensor, "*n"], readouts: Float[Tensor, "*n K"]) -> None:
        """Take one more term into every pool, in place; a score of −∞ is none. The peak must be finite, as in `empty_pool`."""
        peak = torch.maximum(self.peak, scores)
        kept, term = torch.exp(self.peak - peak), torch.exp(scores - peak)
        self.mass.mul_(kept).add_(term)
        self.moment.mul_(kept[..., None]).addcmul_(readouts, term[..., None])
        self.peak.copy_(peak)

    def __getitem__(self, places: slice) -> Pool:
        """A view of some of the pools."""
        return Pool(self.peak[places], self.mass[places], self.moment[places])


def empty_pool(shape: tuple[int, ...], outputs: int, device: torch.device) -> Pool:
    """A pool of nothing; its peak is the lowest number there is."""
    peak = torch.full(shape, torch.finfo(torch.float64).min, dtype=torch.float64, device=device)
    return Pool(peak, torch.zeros_like(peak), torch.zeros(*shape, outputs, dtype=torch.float64, device=device))


def weight(gap: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """``exp(gap)``, and 0 where both peaks are −∞."""
    return torch.exp(torch.nan_to_num(gap, nan=-torch.inf, neginf=-torch.inf))


def pool_of_terms(scores: Float[Tensor, "*n S"], readouts: Float[Tensor, "*n S K"]) -> Pool:
    """The pool of the last axis; a score of −∞ is no term."""
    scores, readouts = scores.double(), readouts.double()
    peak = scores.amax(dim=-1)
    terms = weight(scores - peak[..., None])
    return Pool(peak, terms.sum(dim=-1), (terms[..., None] * readouts).sum(dim=-2))


def outside_window(scores: Float[Tensor, "B L"], readouts: Float[Tensor, "B L K"], radius: int) -> Pool:
    """For every position the pool of all others that are more than ``radius`` away.

    Sums from the left and from the right instead of a total less the window, so that nothing cancels. They are scaled by the largest score
    of the row: where that lies in the window and all others underflow, the pool is recomputed.
    """
    scores, readouts = scores.double(), readouts.double()
    peak = scores.amax(dim=1, keepdim=True)
    terms = weight(scores - peak)
    stacked = torch.cat([terms[..., None], terms[..., None] * readouts], dim=-1)
    left, right = stacked.cumsum(dim=1), stacked.flip(1).cumsum(dim=1).flip(1)
    far = torch.zeros_like(stacked)
    step = radius + 1
    far[:, step:] += left[:, :-step]
    far[:, :-step] += right[:, step:]
    pool = Pool(peak.expand_as(scores).clone(), far[..., 0], far[..., 1:])
    weak = (pool.mass < UNDERFLOW).nonzero()
    if len(weak):
        row, place = weak.T
        distance = (torch.arange(scores.shape[1], device=scores.device) - place[:, None]).abs()
        again = pool_of_terms(scores[row].masked_fill(distance <= radius, -torch.inf), readouts[row])
        pool.peak[row, place], pool.mass[row, place], pool.moment[row, place] = again.peak, again.mass, again.moment
    return pool


def attention_scores(model: AttentionModel, batch: Batch, done: Forward) -> Float[Tensor, "B L"]:
    """The score of every attended position in the model's own pass, −∞ elsewhere."""
    query = None if done.question_terms.query is None else done.question_terms.query[:, None]
    return model.attention(done.hidden, query).masked_fill(~batch.attended, -float("inf"))


def logits_of_pools(model: AttentionModel, batch: Batch, done: Forward, pools: Pool) -> Float[Tensor, "B L K"]:
    """The logits of a pool for each position, ``(B, L)``, in float64."""
    return model.logits(pools.readout() + done.question_terms.offset[:, None].double(), batch)
