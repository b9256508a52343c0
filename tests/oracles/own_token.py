"""The share of a state that its own word accounts for, from the whole Jacobian, as Brunner et al. 2020 define it."""

from typing import Any

import numpy as np
import torch

from tests.oracles.importance import one_row


def naive_own_token(model, inputs, row, place):
    """The Frobenius norm of ∂h_t/∂x_t over the sum of those of all x_s, BOS and EOS among them."""
    batch = one_row(inputs, row)
    batch = batch.batch(np.array([0]))
    embedded = model.embed(batch).detach()

    def state(words):
        return model.encoder(words, batch.lengths)[0, place]

    jacobian: Any = torch.autograd.functional.jacobian(state, embedded)
    norms = jacobian[:, 0].square().sum(dim=(0, 2)).sqrt()
    return float(norms[place] / norms.sum())
