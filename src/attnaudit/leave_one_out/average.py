"""Leave-one-out of the average encoder in O(T): a deletion changes no other position's hidden state, nor its score."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attnaudit.leave_one_out.pooling import outside_window
from attnaudit.models.batch import Batch
from attnaudit.models.classifier import Classifier, Forward


def average_without_each(model: Classifier, batch: Batch, done: Forward) -> Float[Tensor, "B L K"]:
    """Logits without each token: the sums of attention pooling with that token's term left out."""
    scores = model.attention(done.hidden).masked_fill(~batch.attended, -float("inf"))
    return outside_window(scores, model.readout(done.hidden), radius=0).logits(model.output.bias)
