"""Leave-one-out of the average encoder in O(T): a deletion changes no other position's hidden state, nor its score."""

from __future__ import annotations

from attnaudit.models.batch import Batch
from attnaudit.models.classifier import AttentionModel, Forward
from attnaudit.tracing.leave_one_out.pooling import Pool, outside_window


def average_without_each(model: AttentionModel, batch: Batch, done: Forward) -> Pool:
    """The pools without each token: the sums of attention pooling with that token's term left out, ``(B, L)``."""
    query = None if done.asked.query is None else done.asked.query[:, None]
    scores = model.attention(done.hidden, query).masked_fill(~batch.attended, -float("inf"))
    return outside_window(scores, model.head.readout(done.hidden), radius=0)
