"""Leave-one-out of the bidirectional encoders: states before a deletion are shared, the runs after it advance together.

Deleting ``t`` leaves the forward states before ``t`` and the backward states after ``t`` as they were. In one direction, then, the
only new work is to carry the state of ``t − 1`` over the tokens after ``t``. All deletions read the same token at the same step: the
run of every ``t < s`` takes one step at token ``s`` in one matrix product, whose input projection is computed once per token. The
other direction is the same on the mirrored text, and attention pooling adds the two up.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnaudit.models.batch import Batch
from attnaudit.models.classifier import AttentionModel, Forward
from attnaudit.models.encoders import rearrange, reversal
from attnaudit.models.product import product, whole_blocks
from attnaudit.tracing.leave_one_out.cells import cell_of
from attnaudit.tracing.leave_one_out.pooling import Pool, empty_pool


def recurrent_without_each(model: AttentionModel, batch: Batch, done: Forward) -> Pool:
    """The pools without each token, ``(B, L)``."""
    half = model.settings.hidden
    ahead, behind = slice(0, half), slice(half, 2 * half)
    mirror = reversal(batch.lengths, done.embedded.shape[1])
    query = done.asked.query
    later = _terms_after(model, query, model.encoder.forward_rnn, ahead, behind, done.embedded, done.hidden, batch.attended)
    earlier = _terms_after(
        model, query, model.encoder.backward_rnn, behind, ahead,
        rearrange(done.embedded, mirror), rearrange(done.hidden, mirror), batch.attended.gather(1, mirror),
    )  # fmt: skip
    natural = Pool(earlier.peak.gather(1, mirror), earlier.mass.gather(1, mirror), rearrange(earlier.moment, mirror))
    return later + natural


def _terms_after(
    model: AttentionModel, query: Tensor | None, layer: nn.LSTM | nn.GRU, mine: slice, others: slice, embedded: Float[Tensor, "B L E"],
    hidden: Float[Tensor, "B L m"], attended: Bool[Tensor, "B L"],
) -> Pool:  # fmt: skip
    """For every position, deleted, the pool of the attended positions after it in the reading direction of ``layer``.

    ``mine`` are the units of ``h`` that this direction computes anew, ``others`` those that stay as in ``hidden``.
    """
    rows, width, _ = embedded.shape
    cell = cell_of(layer, embedded)
    score = model.attention.scorer(mine, query)
    fixed = model.attention.project(hidden[..., others], None if query is None else query[:, None], others).transpose(0, 1)
    fixed_readout = model.head.readout(hidden[..., others], others).transpose(0, 1)
    runs = torch.zeros(cell.memories, whole_blocks(width * rows), layer.hidden_size, device=embedded.device)
    memory = runs[:, : width * rows].view(cell.memories, width, rows, -1)  # slot 0 reads everything, slot t skips token t
    state = memory[0]
    pool = empty_pool((width, rows), fixed_readout.shape[-1], embedded.device)
    for step in range(width - 1):
        if step > 0:
            memory[:, step] = memory[:, 0]
        active = max(step, 1)
        cell.advance(product(runs[0], active * rows, cell.recurrent).view(active, rows, -1), step, memory[:, :active])
        if step > 1:
            scores = score(runs[0], step, fixed[step])[1:].double().masked_fill_(~attended[:, step], -torch.inf)
            readouts = (model.head.readout(state[1:step], mine) + fixed_readout[step]).double()
            pool[1:step].add_term(scores, readouts)
    return Pool(pool.peak.T, pool.mass.T, pool.moment.transpose(0, 1))
