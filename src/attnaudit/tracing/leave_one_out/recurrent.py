"""Leave-one-out of the bidirectional encoders: states before a deletion are shared, the runs after it advance together.

Deleting ``t`` leaves the forward states before ``t`` and the backward states after ``t`` as they were. In one direction, then, the
only new work is to carry the state of ``t − 1`` over the tokens after ``t``. All deletions read the same token at the same step: the
run of every ``t < s`` takes one step at token ``s`` in one matrix product, whose input projection is computed once per token. The
other direction is the same on the mirrored text, and attention pooling adds the two up.

A step of a layer is written out, in place. ``tanh x = 2σ(2x) − 1``, so that one sigmoid serves all gates; on a CPU it takes a fifth of the
tanh's time.
"""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.models.batch import Batch
from attnaudit.models.classifier import AttentionModel, Forward
from attnaudit.models.encoders import rearrange, reversal
from attnaudit.models.product import prepared, product, whole_blocks
from attnaudit.tracing.leave_one_out.pooling import Pool, empty_pool, logits_of_pools


def recurrent_without_each(
    model: AttentionModel, batch: Batch, done: Forward
) -> Float[Tensor, "B L K"]:
    """The logits without each token."""
    half = model.settings.hidden
    ahead, behind = slice(0, half), slice(half, 2 * half)
    mirror = reversal(batch.lengths, done.embedded.shape[1])
    query = done.question_terms.query
    later = _terms_after(
        model,
        query,
        model.encoder.forward_rnn,
        ahead,
        behind,
        done.embedded,
        done.hidden,
        batch.attended,
    )
    earlier = _terms_after(
        model,
        query,
        model.encoder.backward_rnn,
        behind,
        ahead,
        rearrange(done.embedded, mirror),
        rearrange(done.hidden, mirror),
        batch.attended.gather(1, mirror),
    )
    natural = Pool(
        earlier.peak.gather(1, mirror),
        earlier.mass.gather(1, mirror),
        rearrange(earlier.moment, mirror),
    )
    return logits_of_pools(model, batch, done, later + natural)


def _terms_after(
    model: AttentionModel,
    query: Tensor | None,
    layer: nn.LSTM | nn.GRU,
    mine: slice,
    others: slice,
    embedded: Float[Tensor, "B L E"],
    hidden: Float[Tensor, "B L m"],
    attended: Bool[Tensor, "B L"],
) -> Pool:
    """For every position, deleted, the pool of the attended positions after it in the reading direction of ``layer``.

    ``mine`` are the units of ``h`` that this direction computes anew, ``others`` those that stay as in ``hidden``.
    """
    rows, width, _ = embedded.shape
    cell = LstmCell(layer, embedded) if isinstance(layer, nn.LSTM) else GruCell(layer, embedded)
    recurrent = prepared(cell.recurrent)
    score = model.attention.scorer(mine, query)
    fixed = model.attention.project(
        hidden[..., others], None if query is None else query[:, None], others
    ).transpose(0, 1)
    fixed_readout = model.head.readout(hidden[..., others], others).transpose(0, 1)
    runs = torch.zeros(
        cell.memories, whole_blocks(width * rows), layer.hidden_size, device=embedded.device
    )
    memory = runs[:, : width * rows].view(
        cell.memories, width, rows, -1
    )  # slot 0 reads everything, slot t skips token t
    state = memory[0]
    pool = empty_pool((width, rows), fixed_readout.shape[-1], embedded.device)
    for step in range(width - 1):
        if step > 0:
            memory[:, step] = memory[:, 0]
        active = max(step, 1)
        cell.advance(
            product(runs[0], active * rows, recurrent).view(active, rows, -1),
            step,
            memory[:, :active],
        )
        if step > 1:
            scores = (
                score(runs[0], step, fixed[step])[1:]
                .double()
                .masked_fill_(~attended[:, step], -torch.inf)
            )
            readouts = (model.head.readout(state[1:step], mine) + fixed_readout[step]).double()
            pool[1:step].add_term(scores, readouts)
    return Pool(pool.peak.T, pool.mass.T, pool.moment.transpose(0, 1))


class LstmCell:
    """``recurrent``: weights on the state; ``memories``: the state and the doubled cell; all of the gate that ends in tanh is doubled."""

    memories = 2

    def __init__(self, layer: nn.LSTM, embedded: Float[Tensor, "B L E"]) -> None:
        bias = parameter(layer, "bias_ih") + parameter(layer, "bias_hh")
        inputs, self.recurrent = (
            functional.linear(embedded, parameter(layer, "weight_ih"), bias),
            parameter(layer, "weight_hh").clone(),
        )
        new = slice(2 * layer.hidden_size, 3 * layer.hidden_size)
        inputs[..., new] *= 2.0
        self.recurrent[new] *= 2.0
        self.inputs = inputs.transpose(0, 1)

    def advance(
        self, gates: Float[Tensor, "S B G"], step: int, memory: Float[Tensor, "M S B H"]
    ) -> None:
        """``gates`` is the product of the state with `recurrent`."""
        state, twice_cell = memory
        enter, keep, new, show = gates.add_(self.inputs[step]).sigmoid_().chunk(4, dim=-1)
        twice_cell.mul_(keep).addcmul_(enter, new, value=4.0).sub_(enter, alpha=2.0)
        torch.lerp(-show, show, torch.sigmoid(twice_cell, out=state), out=state)


class GruCell:
    """``recurrent`` are the weights on the state, the only one of the ``memories``; those of the gate that ends in tanh are doubled."""

    memories = 1

    def __init__(self, layer: nn.GRU, embedded: Float[Tensor, "B L E"]) -> None:
        inputs, self.recurrent = (
            functional.linear(embedded, parameter(layer, "weight_ih")),
            parameter(layer, "weight_hh").clone(),
        )
        self.new, bias = (
            slice(2 * layer.hidden_size, 3 * layer.hidden_size),
            parameter(layer, "bias_hh").clone(),
        )
        inputs += parameter(layer, "bias_ih")
        inputs[..., : self.new.start] += bias[: self.new.start]
        inputs[..., self.new] *= 2.0
        self.recurrent[self.new] *= 2.0
        self.bias, self.inputs = 2.0 * bias[self.new], inputs.transpose(0, 1)

    def advance(
        self, gates: Float[Tensor, "S B G"], step: int, memory: Float[Tensor, "M S B H"]
    ) -> None:
        """``gates`` is the product of the state with `recurrent`."""
        (state,), inputs = memory, self.inputs[step]
        twice_new = gates[..., self.new].add_(self.bias)
        reset, keep = (
            gates[..., : self.new.start]
            .add_(inputs[..., : self.new.start])
            .sigmoid_()
            .chunk(2, dim=-1)
        )
        new = twice_new.mul_(reset).add_(inputs[..., self.new]).sigmoid_().mul_(2.0).sub_(1.0)
        torch.lerp(new, state, keep, out=state)


def parameter(layer: nn.LSTM | nn.GRU, name: str) -> Tensor:
    return cast(Tensor, getattr(layer, f"{name}_l0"))
