"""Share of a hidden state that its own word accounts for: 1 if the encoder mixes no positions.

Source: hidden token attribution of Brunner et al. 2020, §5.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64

from attnaudit.core.random import below, stream_keys
from attnaudit.corpora.corpus import Split, keyed
from attnaudit.models.classifier import AttentionModel
from attnaudit.tracing.texts import frozen

PURPOSE = "own token"
TEXTS, PROJECTIONS = 200, 16  # a second or two for a BiLSTM and sentences
BUDGET = 4_096  # padded positions of a batch


def own_token(
    model: AttentionModel,
    split: Split,
    seed: int,
    texts: int = TEXTS,
    projections: int = PROJECTIONS,
) -> dict[str, list[Any]]:
    """Estimate ``‖∂h_t/∂x_t‖ / Σ_s ‖∂h_t/∂x_s‖`` at one position of some texts.

    Norms are Frobenius norms. For a standard normal vector ``v`` the expectation of
    ``‖vᵀ ∂h_t/∂x_s‖²`` is the squared norm, so no whole Jacobian is computed.

    Args:
        model: The model.
        split: The texts. Those examined, and their positions, are drawn by instance.
        seed: Seed of the texts, positions and projections.
        texts: Number of texts.
        projections: Number of vectors ``v``.

    Returns:
        ``instance`` and ``own_token`` of each text, null where the state depends on no word.
    """
    draw = stream_keys(seed, PURPOSE, split.instance)
    rows = np.lexsort((split.instance, draw))[:texts]
    inputs, share = model.inputs(split.take(rows)), np.empty(len(rows))
    place = 1 + below(draw[rows], 0, inputs.positions.lengths)  # after BOS
    device = next(model.parameters()).device
    with frozen(model):
        for part in inputs.batches_by_length(BUDGET):
            batch, each = inputs.batch(part, device), torch.arange(len(part), device=device)
            at = torch.from_numpy(place[part]).to(device)
            embedded = model.embed(batch).detach().requires_grad_()
            squares = torch.zeros(embedded.shape[:2], dtype=torch.float64, device=device)
            with torch.enable_grad():
                states = model.encoder(embedded, batch.lengths)[each, at]
                normal = _normal(seed, split.instance[rows[part]], (projections, states.shape[1]))
                for vectors in torch.from_numpy(normal).to(states).movedim(1, 0):
                    (slope,) = torch.autograd.grad(
                        (states * vectors).sum(), embedded, retain_graph=True
                    )
                    squares += slope.double().square().sum(dim=-1)
            size = squares.sqrt() * batch.inside
            share[part] = (size[each, at] / size.sum(dim=1)).cpu().numpy()
    known = [None if np.isnan(one) else one for one in share.tolist()]
    return {"instance": split.instance[rows].tolist(), "own_token": known}


def _normal(
    seed: int, instance: Int64[np.ndarray, " n"], shape: tuple[int, int]
) -> Float[np.ndarray, "n k m"]:
    """Draw the projections of each text, the same in any batch."""
    streams = (keyed(seed, PURPOSE, str(one)) for one in instance.tolist())
    return np.stack([stream.standard_normal(shape, np.float32) for stream in streams])
