"""Leave-one-out of the BiLSTM: states before a deletion are shared, the runs after it advance together.

Deleting ``t`` leaves the forward states before ``t`` and the backward states after ``t`` as they were. In one direction, then, the
only new work is to carry the state of ``t − 1`` over the tokens after ``t``. All deletions read the same token at the same step: the
run of every ``t < s`` takes one step at token ``s`` in one matrix product, whose input projection is computed once per token. The
other direction is the same on the mirrored text, and attention pooling adds the two up.
"""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.leave_one_out.pooling import Pool, empty_pool
from attnaudit.models.batch import Batch
from attnaudit.models.encoders import rearrange, reversal
from attnaudit.models.model import AttentionModel, Forward


def bilstm_without_each(model: AttentionModel, batch: Batch, done: Forward) -> Pool:
    """The pools without each token, ``(B, L)``."""
    half = model.settings.hidden
    ahead, behind = slice(0, half), slice(half, 2 * half)
    embedded = model.embedding(batch.ids)
    mirror = reversal(batch.lengths, embedded.shape[1])
    query = done.asked.query
    later = _terms_after(model, query, model.encoder.forward_lstm, ahead, behind, embedded, done.hidden, batch.attended)
    earlier = _terms_after(
        model, query, model.encoder.backward_lstm, behind, ahead,
        rearrange(embedded, mirror), rearrange(done.hidden, mirror), batch.attended.gather(1, mirror),
    )  # fmt: skip
    natural = Pool(earlier.peak.gather(1, mirror), earlier.mass.gather(1, mirror), rearrange(earlier.moment, mirror))
    return later + natural


def _terms_after(
    model: AttentionModel, query: Tensor | None, lstm: nn.LSTM, mine: slice, others: slice, embedded: Float[Tensor, "B L E"],
    hidden: Float[Tensor, "B L m"], attended: Bool[Tensor, "B L"],
) -> Pool:  # fmt: skip
    """For every position, deleted, the pool of the attended positions after it in the reading direction of ``lstm``.

    ``mine`` are the units of ``h`` that this direction computes anew, ``others`` those that stay as in ``hidden``.
    """
    rows, width, _ = embedded.shape
    inputs = functional.linear(embedded, parameter(lstm, "weight_ih"), parameter(lstm, "bias_ih") + parameter(lstm, "bias_hh")).transpose(
        0, 1
    )
    recurrent = parameter(lstm, "weight_hh").T
    fixed = model.attention.project(hidden[..., others], None if query is None else query[:, None], others).transpose(0, 1)
    fixed_readout = model.head.readout(hidden[..., others], others).transpose(0, 1)
    state = torch.zeros(width, rows, lstm.hidden_size, device=embedded.device)  # slot 0 reads everything, slot t skips token t
    cell = torch.zeros_like(state)
    pool = empty_pool((width, rows), fixed_readout.shape[-1], embedded.device)
    for step in range(width - 1):
        if step > 0:
            state[step], cell[step] = state[0], cell[0]
        active = max(step, 1)
        advance(recurrent, state[:active], cell[:active], inputs[step])
        if step < 2:
            continue
        scores = model.attention.finish(model.attention.project(state[1:step], query, mine) + fixed[step], query)
        scores = scores.double().masked_fill(~attended[:, step], -torch.inf)
        readouts = (model.head.readout(state[1:step], mine) + fixed_readout[step]).double()
        _add_term(pool, step, scores, readouts)
    return Pool(pool.peak.T, pool.mass.T, pool.moment.transpose(0, 1))


def parameter(lstm: nn.LSTM, name: str) -> Tensor:
    return cast(Tensor, getattr(lstm, f"{name}_l0"))


def advance(
    recurrent: Float[Tensor, "H G"], state: Float[Tensor, "S B H"], cell: Float[Tensor, "S B H"], inputs: Float[Tensor, "B G"]
) -> None:
    """One LSTM step of all runs, in place; ``inputs`` is the projected token that they all read."""
    gates = torch.matmul(state, recurrent).add_(inputs)
    enter, keep, new, show = gates.chunk(4, dim=-1)
    cell.mul_(keep.sigmoid_()).addcmul_(enter.sigmoid_(), new.tanh_())
    torch.mul(show.sigmoid_(), torch.tanh(cell), out=state)


def _add_term(pool: Pool, step: int, scores: Float[Tensor, "S B"], readouts: Float[Tensor, "S B K"]) -> None:
    """Add the term of token ``step`` to the pools of the deletions 1 … step − 1, in place."""
    ones = torch.where(torch.isneginf(scores), 0.0, 1.0).double()
    term = Pool(scores, ones, readouts * ones[..., None])
    total = Pool(pool.peak[1:step], pool.mass[1:step], pool.moment[1:step]) + term
    pool.peak[1:step], pool.mass[1:step], pool.moment[1:step] = total.peak, total.mass, total.moment
