"""Leave-one-out, Algorithm 1 of Jain & Wallace 2019: delete each token and run the model again.

Results are exact, including the attention, but nothing is computed twice. Each encoder names an
algorithm that knows which hidden states a deletion leaves unchanged (`EncoderSpec.leave_one_out`).
The default, `rerun`, assumes none. If positions are sentences, a sentence is deleted, and the
vectors of the others stay the same.
"""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.models.attention import LogOdds
from attnaudit.models.batch import Batch
from attnaudit.models.classifier import AttentionModel, Forward
from attnaudit.models.presets import ENCODERS, resolve
from attnaudit.stats.measures import Activation
from attnaudit.tracing.leave_one_out.pooling import pooling_without_each
from attnaudit.tracing.leave_one_out.recurrent import recurrent_without_each


def leave_one_out(model: AttentionModel, batch: Batch, done: Forward) -> Float[Tensor, "B L"]:
    """Measure how far the prediction moves without each token.

    Args:
        model: The model.
        batch: The texts; questions and candidate answers stay as they are.
        done: The model's forward pass over the batch.

    Returns:
        TVD from the prediction for each attended position; other entries have no meaning. Without
        its only token, a text has nothing to attend to, and the offset decides its prediction.
    """
    algorithm = resolve(ENCODERS[model.settings.encoder].leave_one_out, ALGORITHMS)
    # The faster algorithms recompute scores of one head from hidden states. They cover neither
    # several heads nor scores of words, and pool the weights of a softmax.
    attention = model.attention
    if done.alpha.ndim == 3 or isinstance(attention, LogOdds) or attention.hard:
        algorithm = rerun
    return change(algorithm(model, batch, done), done.logits, model.activation)


def change(
    without: Float[Tensor, "B L K"], own: Float[Tensor, "B K"], activation: Activation
) -> Float[Tensor, "B L"]:
    """Return the TVD between predictions with and without each token.

    Args:
        without: Logits without each token.
        own: Logits of the whole text.
        activation: ``sigmoid`` or ``softmax``.
    """
    # In float64, because the change may be far below the rounding of float32 probabilities.
    logits, own = without.double(), own.double()[:, None]
    if activation == "sigmoid":
        # σ(−x) rather than 1 − σ(x), which cancels for large x.
        side = torch.where(own > 0.0, -1.0, 1.0)
        total = (torch.sigmoid(side * logits) - torch.sigmoid(side * own)).abs().sum(dim=-1)
        # A single output counts in full, as class 0 changes as much as class 1.
        return total if own.shape[-1] == 1 else 0.5 * total
    gap = logits.softmax(dim=-1) - own.softmax(dim=-1)
    # Sum the changes of the other classes: near 1, the change of the predicted one is rounded away.
    others = gap.scatter(-1, own.argmax(dim=-1, keepdim=True).expand_as(gap[..., :1]), 0.0)
    return torch.maximum(others.clamp_min(0.0).sum(dim=-1), -others.clamp_max(0.0).sum(dim=-1))


def rerun(model: AttentionModel, batch: Batch, done: Forward) -> Float[Tensor, "B L K"]:
    """Compute the logits without each token, with one forward pass per position.

    Args:
        model: The model.
        batch: The texts.
        done: The model's forward pass, which this algorithm does not need.

    Returns:
        The logits without the token at each attended position, 0 elsewhere.
    """
    attended, logits = batch.attended, []
    for position in range(batch.ids.shape[1]):
        # The position is deleted from every text of the batch. Texts that have BOS, EOS or padding
        # there get logits without meaning, which no caller reads.
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
    "convolution": pooling_without_each,
    "pointwise": pooling_without_each,
}
