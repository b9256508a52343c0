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
from attnaudit.models.product import product, whole_blocks


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
    recurrent, inputs = weights_for_advance(lstm, embedded)
    score = model.attention.scorer(mine, query)
    fixed = model.attention.project(hidden[..., others], None if query is None else query[:, None], others).transpose(0, 1)
    fixed_readout = model.head.readout(hidden[..., others], others).transpose(0, 1)
    runs = torch.zeros(2, whole_blocks(width * rows), lstm.hidden_size, device=embedded.device)
    state, cell = runs[:, : width * rows].view(2, width, rows, -1)  # slot 0 reads everything, slot t skips token t
    pool = empty_pool((width, rows), fixed_readout.shape[-1], embedded.device)
    for step in range(width - 1):
        if step > 0:
            state[step], cell[step] = state[0], cell[0]
        active = max(step, 1)
        gates = product(runs[0], active * rows, recurrent).view(active, rows, -1)
        advance(gates.add_(inputs[step]), state[:active], cell[:active])
        if step > 1:
            scores = score(runs[0], step, fixed[step])[1:].double().masked_fill_(~attended[:, step], -torch.inf)
            readouts = (model.head.readout(state[1:step], mine) + fixed_readout[step]).double()
            pool[1:step].add_term(scores, readouts)
    return Pool(pool.peak.T, pool.mass.T, pool.moment.transpose(0, 1))


def weights_for_advance(lstm: nn.LSTM, embedded: Float[Tensor, "B L E"]) -> tuple[Float[Tensor, "G H"], Float[Tensor, "L B G"]]:
    """The recurrent weights and the projected tokens; those of the gate that ends in tanh are doubled."""
    bias = parameter(lstm, "bias_ih") + parameter(lstm, "bias_hh")
    inputs, recurrent = functional.linear(embedded, parameter(lstm, "weight_ih"), bias), parameter(lstm, "weight_hh").clone()
    new = slice(2 * lstm.hidden_size, 3 * lstm.hidden_size)
    inputs[..., new] *= 2.0
    recurrent[new] *= 2.0
    return recurrent, inputs.transpose(0, 1)


def parameter(lstm: nn.LSTM, name: str) -> Tensor:
    return cast(Tensor, getattr(lstm, f"{name}_l0"))


def advance(gates: Float[Tensor, "S B G"], state: Float[Tensor, "S B H"], twice_cell: Float[Tensor, "S B H"]) -> None:
    """One LSTM step of all runs, in place, from the sums in ``gates`` (`weights_for_advance`).

    ``tanh x = 2σ(2x) − 1``, so that one sigmoid serves all gates; on a CPU it takes a fifth of the tanh's time. The cell is kept doubled.
    """
    enter, keep, new, show = gates.sigmoid_().chunk(4, dim=-1)
    twice_cell.mul_(keep).addcmul_(enter, new, value=4.0).sub_(enter, alpha=2.0)
    torch.lerp(-show, show, torch.sigmoid(twice_cell, out=state), out=state)
