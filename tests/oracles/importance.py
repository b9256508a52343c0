"""Algorithm 1 of Jain & Wallace 2019 as the paper writes it: one text, one token, one forward pass at a time."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from attnaudit.core.ragged import Ragged
from attnaudit.models.batch import Inputs


def one_row(inputs, row):
    """A row by itself."""
    rows = np.array([row])
    parts: dict[str, Any] = {
        name: part.take(rows) if isinstance(part, Ragged) else part[rows]
        for name, part in vars(inputs).items()
        if part is not None
    }
    return Inputs(**parts)


def rows_of(inputs):
    """Every row by itself."""
    return [one_row(inputs, row) for row in range(len(inputs))]


def without(row, t):
    """The text with token ``t``, or sentence ``t``, deleted; the question stays."""
    if row.sentences is None:
        return replace(row, ids=Ragged.from_rows([np.delete(row.ids[0], t)], np.int64))
    parts = np.split(row.ids[0], np.cumsum(row.sentences[0])[:-1])
    left = [part for k, part in enumerate(parts) if k != t]
    words = np.concatenate(left) if left else np.zeros(0, np.int64)
    return Inputs(
        Ragged.from_rows([words], np.int64),
        sentences=Ragged.from_rows([np.delete(row.sentences[0], t)], np.int64),
    )


def probabilities(model, row):
    """The prediction of one text by itself; a text of no token attends to nothing."""
    with torch.no_grad():
        return model.probabilities(model(row.batch(np.array([0]))).logits.double())[0].numpy()


def naive_leave_one_out(model, row):
    """TVD between the prediction and that of the text without token t, for every t."""
    whole = probabilities(model, row)
    gaps = [
        np.abs(whole - probabilities(model, without(row, t))).sum()
        for t in range(len(row.positions[0]))
    ]
    return np.array(gaps) if len(whole) == 1 else 0.5 * np.array(gaps)


def naive_gradient(model, row, *, detach_attention, outputs="all"):
    """``Σ_c |Σ_w 1[x_tw = 1] ∂ŷ_c/∂x_tw|`` with the text as one-hot rows, attention held fixed or not, in float64.

    With ``outputs`` "predicted" the sum has one term, that of the predicted class. Where positions are sentences, the vector of a sentence
    stands in the place of a one-hot row.
    """
    model = model.double()
    batch = row.batch(np.array([0]))
    if row.sentences is None:
        one_hot = (
            torch.nn.functional.one_hot(batch.ids, len(model.vocabulary)).double().requires_grad_()
        )
        embedded = one_hot @ model.embedding.weight
    else:
        embedded = one_hot = model.embed(batch).detach().requires_grad_()
    done = model.from_embedded(embedded, batch)
    logits = (
        model.logits_from_attention(done.alpha.detach(), done.hidden, done.offset, batch)
        if detach_attention
        else done.logits
    )
    prediction = model.probabilities(logits)[0]
    total = np.zeros(len(row.positions[0]))
    for c in [int(prediction.argmax())] if outputs == "predicted" else range(len(prediction)):
        slope = torch.autograd.grad(prediction[c], one_hot, retain_graph=True)[0]
        total += (slope * one_hot.detach()).sum(-1)[0, 1:-1].abs().numpy()
    model.float()
    return total
