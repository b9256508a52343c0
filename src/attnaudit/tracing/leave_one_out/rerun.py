"""Leave-one-out by running everything again: for models in which a deletion leaves no hidden state as it was."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.models.batch import Batch
from attnaudit.models.classifier import AttentionModel


def logits_without_each(model: AttentionModel, batch: Batch) -> Float[Tensor, "B L K"]:
    """The logits without the token at each attended position, a pass forward for each place; 0 elsewhere."""
    attended, found = batch.attended, []
    for place in range(batch.ids.shape[1]):
        there = attended[:, place]
        if not there.any():
            found.append(torch.zeros(len(there), model.outputs, device=there.device))
            continue
        ids = torch.cat([batch.ids[:, :place], batch.ids[:, place + 1 :]], dim=1)
        found.append(model(replace(batch, ids=ids, lengths=batch.lengths - there.long())).logits)
    return torch.stack(found, dim=1)
