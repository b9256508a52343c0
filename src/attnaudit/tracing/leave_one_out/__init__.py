"""Leave-one-out, Algorithm 1 of Jain & Wallace 2019: delete each token in turn and run the model again, attention included.

Exact, but without redundant work: an encoder registers the algorithm that knows which hidden states a deletion does not change
(`EncoderSpec.leave_one_out`), by default `rerun`, which knows none. Where positions are sentences, a sentence is deleted, and the vectors
of the others do not change.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.models.attention import LogOdds
from attnaudit.models.batch import Batch
from attnaudit.models.classifier import AttentionModel, Forward
from attnaudit.models.presets import ENCODERS, resolved


def leave_one_out(model: AttentionModel, batch: Batch, done: Forward) -> Float[Tensor, "B L"]:
    """TVD between the prediction and the one without the token at each attended position; other positions hold no meaning.

    A text of one token leaves nothing to attend to: its prediction without it is that of the offset alone. The question and the candidate
    answers do not change. ``done`` is the model's own pass over ``batch``. A model with several heads is always rerun,
    and one whose attention reads words, not hidden states.
    """
    words_alone = isinstance(model.attention, LogOdds)
    without_each = (
        rerun
        if done.alpha.ndim == 3 or words_alone
        else resolved(ENCODERS[model.settings.encoder].leave_one_out)
    )
    logits = without_each(model, batch, done).double()
    return model.distance(
        model.probabilities(logits), model.probabilities(done.logits.double())[:, None]
    )


def rerun(model: AttentionModel, batch: Batch, done: Forward) -> Float[Tensor, "B L K"]:
    """The logits without the token at each attended position, by a forward pass for each position; 0 elsewhere."""
    attended, found = batch.attended, []
    for position in range(batch.ids.shape[1]):
        there = attended[:, position]
        if not there.any():
            found.append(torch.zeros(len(there), model.outputs, device=there.device))
            continue
        ids = torch.cat([batch.ids[:, :position], batch.ids[:, position + 1 :]], dim=1)
        found.append(model(replace(batch, ids=ids, lengths=batch.lengths - there.long())).logits)
    return torch.stack(found, dim=1)
