"""Algorithm 1 of Jain & Wallace 2019 as the paper writes it: one text, one token, one forward pass at a time."""

from __future__ import annotations

import numpy as np
import torch

from attnaudit.models.batch import pad
from attnaudit.models.classifier import Classifier
from attnaudit.ragged import Ragged


def probabilities(model: Classifier, ids: list[int]) -> np.ndarray:
    """The prediction of one text by itself; a text of no token attends to nothing."""
    batch = pad(Ragged.from_rows([ids], np.int64), np.array([0]))
    with torch.no_grad():
        return model.probabilities(model(batch).logits.double())[0].numpy()


def naive_leave_one_out(model: Classifier, ids: list[int]) -> np.ndarray:
    """TVD between the prediction and that of the text without token t, for every t."""
    whole = probabilities(model, ids)
    gaps = [np.abs(whole - probabilities(model, ids[:t] + ids[t + 1 :])).sum() for t in range(len(ids))]
    return np.array(gaps) if model.classes == 2 else 0.5 * np.array(gaps)


def naive_gradient(model: Classifier, ids: list[int], *, detach_attention: bool) -> np.ndarray:
    """``Σ_c |Σ_w 1[x_tw = 1] ∂ŷ_c/∂x_tw|`` with the text as one-hot rows, attention held fixed or not, in float64."""
    model = model.double()
    batch = pad(Ragged.from_rows([ids], np.int64), np.array([0]))
    one_hot = torch.nn.functional.one_hot(batch.ids, len(model.vocabulary)).double().requires_grad_()
    logits = model.from_embedded(one_hot @ model.embedding.weight, batch, detach_attention=detach_attention).logits
    prediction = model.probabilities(logits)[0]
    total = np.zeros(len(ids))
    for c in range(len(prediction)):
        slope = torch.autograd.grad(prediction[c], one_hot, retain_graph=True)[0]
        total += (slope * one_hot.detach()).sum(-1)[0, 1:-1].abs().numpy()
    model.float()
    return total
