"""Leave-one-out, Algorithm 1 of Jain & Wallace 2019: delete each token, and run the model again.

It is exact, attention included, but without redundant work: an encoder names the algorithm that
knows which hidden states a deletion does not change (`EncoderSpec.leave_one_out`); by default,
`rerun` knows none. If positions are sentences, a sentence is deleted, and the vectors of the others
do not change.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.models.attention import LogOdds
from attnaudit.models.batch import Batch
from attnaudit.models.classifier import AttentionModel, Forward
from attnaudit.models.presets import ENCODERS, resolve
from attnaudit.tracing.leave_one_out.pooling import convolution_without_each, pointwise_without_each
from attnaudit.tracing.leave_one_out.recurrent import recurrent_without_each


def leave_one_out(model: AttentionModel, batch: Batch, done: Forward) -> Float[Tensor, "B L"]:
    """Measure how far the prediction moves without each token.

    Args:
        model: The model.
        batch: Its texts; questions and candidate answers do not change.
        done: The model's own pass over them.

    Returns:
        TVD from the prediction at each attended position; other positions hold no meaning. A text
        of one token leaves nothing to attend to: its prediction without it is that of the offset.
    """
    algorithm = resolve(ENCODERS[model.settings.encoder].leave_one_out, ALGORITHMS)
    # The algorithms know neither several heads nor attention that reads words.
    if done.alpha.ndim == 3 or isinstance(model.attention, LogOdds):
        algorithm = rerun
    predictions = model.probabilities(algorithm(model, batch, done).double())
    return model.distance(predictions, model.probabilities(done.logits.double())[:, None])


def rerun(model: AttentionModel, batch: Batch, done: Forward) -> Float[Tensor, "B L K"]:
    """Return the logits without the token at each attended position, 0 elsewhere.

    This takes a forward pass for each position.
    """
    attended, logits = batch.attended, []
    for position in range(batch.ids.shape[1]):
        there = attended[:, position]
        if not there.any():
            logits.append(torch.zeros(len(there), model.outputs, device=there.device))
            continue
        ids = torch.cat([batch.ids[:, :position], batch.ids[:, position + 1 :]], dim=1)
        shorter = replace(batch, ids=ids, lengths=batch.lengths - there.long())
        logits.append(model(shorter).logits)
    return torch.stack(logits, dim=1)


ALGORITHMS = {
    "rerun": rerun,
    "recurrent": recurrent_without_each,
    "convolution": convolution_without_each,
    "pointwise": pointwise_without_each,
}
