"""Importance by what attention moves: the norms of the vectors that a query receives, and the query without the value of a token."""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.core.errors import InputError
from attnaudit.hf.capture import Attention, forward
from attnaudit.hf.importance.case import OPERATION, Case
from attnaudit.hf.importance.projection import Projection


@torch.no_grad()
def norm(case: Case) -> Float[Tensor, "B T"]:
    """``‖Σ_h alpha_t · f_h(x_t)‖`` at the query, of the heads of the last attention together (Kobayashi et al. 2020).

    ``f_h(x_t)`` is the value of a token after the head's part of the output matrix. Where no such matrix is found in the model, the norm is
    that of the ``alpha_t · v_t`` of all heads, one after another.
    """
    last = case.attentions[-1]
    received = partial(_received, case, last)
    projection = case.graph.follow.projection(last)
    order = None if projection is None else projection.order(last)
    if projection is None or order is None:
        return received().norm(dim=(1, 3)) * case.mask
    return _projected(received(), projection, order, last).norm(dim=-1).float() * case.mask


@torch.no_grad()
def norms(case: Case) -> tuple[list[Float[Tensor, "B H _"]], list[bool]]:
    """``‖alpha_t · f_h(x_t)‖`` of every attention and head, at the query, and whether an output matrix was found for the attention.

    They are in the order of the gate's layers. Without a matrix the norm is that of ``alpha_t · v_t``.
    """
    out, known = [], []
    for attention in case.attentions:
        received = _received(case, attention)
        projection = case.graph.follow.projection(attention)
        order = None if projection is None else projection.order(attention)
        known.append(order is not None)
        if projection is None or order is None:
            out.append(received.norm(dim=-1).float())
            continue
        heads = torch.arange(received.shape[1], device=received.device)
        only = [received * (heads == head)[None, :, None, None] for head in heads]
        out.append(
            torch.stack(
                [
                    _projected(one, projection, order, attention).norm(dim=-1).float()
                    for one in only
                ],
                dim=1,
            )
        )
    return out, known


def _received(case: Case, attention: Attention) -> Float[Tensor, "B H K D"]:
    """``alpha_t · v_t`` at the query; in an encoder that a decoder reads, in the mean over its queries."""
    rows = case.rows_of(attention.index, attention.weights.shape[2])
    weights = torch.einsum(
        "bhqk,bq->bhk", attention.weights.float(), rows / rows.sum(dim=1, keepdim=True)
    )
    return weights[..., None].to(attention.values.dtype) * attention.values


def _projected(
    received: Float[Tensor, "B H K D"], projection: Projection, order: Tensor, attention: Attention
) -> Float[Tensor, "B K E"]:
    """The vectors after the output matrix, which reads them at the queries' positions, as many at a time as there are queries."""
    batch, heads, queries, _ = attention.weights.shape
    empty = torch.zeros(
        batch, heads, queries, received.shape[-1], dtype=received.dtype, device=received.device
    )
    bias = projection(empty).flatten(0, -2)
    parts = []
    for part in received.split(queries, dim=2):
        product = empty.clone()
        product[:, :, : part.shape[2]] = part
        moved = projection(product).flatten(0, -2) - bias
        parts.append(
            torch.empty_like(moved)
            .index_copy_(0, order, moved)
            .unflatten(0, (batch, queries))[:, : part.shape[2]]
        )
    return torch.cat(parts, dim=1)


def value_zeroing(case: Case) -> Float[Tensor, "B T"]:
    """How far the query's last hidden state turns when the value of a token is 0 in the last attention (Mohebbi et al. 2023).

    That is 1 minus the cosine of the states with and without it. All heads lose the value; no other token gets its weight. The last hidden
    state is that which the prediction reads, after the last normalisation where there is one.
    """
    usual = _states(forward(case.model, {**case.inputs, "output_hidden_states": True}).output)
    out = torch.zeros(case.mask.shape, device=case.mask.device)
    last = len(case.attentions) - 1
    for rows, tokens, inputs in case.repeated(case.mask.shape[1]):
        state = _states(
            forward(
                case.model,
                {**inputs, "output_hidden_states": True},
                partial(_without, last, tokens),
            ).output
        )
        queries = case.query[rows]
        before = usual[rows, queries]
        after = state[torch.arange(len(rows), device=rows.device), queries]
        out[rows, tokens] = 1 - torch.cosine_similarity(before.float(), after.float(), dim=-1)
    return (out * case.mask).clamp(min=0)


def _without(last: int, tokens: Tensor, attention: Attention) -> Tensor | None:
    """The weights without those on a token of each row: a weight of 0 and a value of 0 are the same."""
    if attention.index != last:
        return None
    weights = attention.weights.clone()
    weights[torch.arange(len(tokens), device=tokens.device), :, :, tokens] = 0
    return weights


def _states(output: object) -> Float[Tensor, "B Q E"]:
    """The last hidden states: of the decoder where there is one."""
    states = getattr(output, "decoder_hidden_states", None) or getattr(
        output, "hidden_states", None
    )
    if states is None:
        got, do = "a model that returns no hidden states", "omit value_zeroing"
        raise InputError(OPERATION, "value_zeroing", got, "those of its last layer", do)
    return states[-1]
