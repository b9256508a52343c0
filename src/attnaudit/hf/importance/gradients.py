"""Importance by gradients: of the tokens' embeddings, along a path, and of the attention weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.core.errors import InputError
from attnaudit.hf.capture import Attention, Exchange
from attnaudit.hf.importance.case import OPERATION, Case, moved_back, read_logits

Change = Callable[[Tensor, nn.Module], Tensor]


def gradient_input(case: Case) -> Float[Tensor, "B T"]:
    """``|e_t · ∂ŷ/∂e_t|`` of the probability ŷ of the predicted output and the embedding e_t, through the attention weights, too."""
    return _times_input(case, None)


def gradient(case: Case) -> Float[Tensor, "B T"]:
    """As `gradient_input`, with every attention weight held fixed (Jain & Wallace 2019, Algorithm 1)."""
    return _times_input(case, lambda attention: attention.weights.detach())


def _times_input(case: Case, exchange: Exchange | None) -> Float[Tensor, "B T"]:
    leaves: list[Tensor] = []

    def as_leaf(embedded: Tensor, module: nn.Module) -> Tensor:
        leaves.append(embedded.detach().requires_grad_())
        return leaves[-1].clone()  # a model may change its own embeddings in place

    with torch.enable_grad(), embeddings_as(case, case.inputs, as_leaf):
        total = case.probability(read_logits(case.model, case.inputs, case.ends, exchange)).sum()
        slopes = torch.autograd.grad(total, _found(case, leaves))
    return _joined(case, [(leaf.detach() * slope).sum(dim=-1) for leaf, slope in zip(leaves, slopes, strict=True)]).abs()


def _joined(case: Case, scores: list[Tensor]) -> Float[Tensor, "B T"]:
    """Scores at the tokens of the text: of the text, and of a decoder that is given it again."""
    total = scores[0] + (moved_back(scores[1]) if len(scores) > 1 else 0)
    return (total * case.mask).float()


@contextmanager
def embeddings_as(case: Case, inputs: Mapping[str, Tensor], change: Change) -> Iterator[None]:
    """Within, the embeddings (B, T, E) of the text go through ``change``, in the order in which the model asks its modules for them.

    A classifier with encoder and decoder asks twice: the decoder is given the text one position later.
    """
    ids, asked = inputs["input_ids"], [0]
    _ = case.predicted  # of a pass of its own, before this one

    def changed(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> Tensor | None:
        given = arguments[0] if arguments and isinstance(output, Tensor) else ids[:0]
        if given.shape == ids.shape and (torch.equal(given, ids) or (case.decoder_reads_text and asked[0])):
            again = asked[0] > 0
            asked[0] += 1
            return None if again and not case.decoder_reads_text else change(output, module)
        if given.shape == ids.T.shape and torch.equal(given, ids.T) and not asked[0]:
            asked[0] += 1
            return change(output.transpose(0, 1), module).transpose(0, 1)
        return None

    handles = [module.register_forward_hook(changed) for module in _embeddings(case.model)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _embeddings(model: Any) -> list[nn.Module]:
    """The modules that embed tokens: that of the model, those of its stacks, and others that share their weights."""
    own = [model.get_input_embeddings()]
    if model.config.is_encoder_decoder:
        own += [stack.embed_tokens for stack in (model.get_encoder(), model.get_decoder()) if hasattr(stack, "embed_tokens")]
    weights = [module.weight for module in own]
    others = [module for module in model.modules() if isinstance(module, nn.Embedding) and any(module.weight is one for one in weights)]
    return list({id(module): module for module in (*own, *others)}.values())


def integrated_gradients(case: Case) -> Float[Tensor, "B T"]:
    """`attributions` in absolute value."""
    return attributions(case)[0].abs()


def attributions(case: Case) -> tuple[Float[Tensor, "B T"], Float[Tensor, " B"]]:
    """Integrated gradients (Sundararajan et al. 2017) of the predicted output's probability, and the error of their sum.

    ``(e_t − b_t) · ∫ ∂ŷ/∂e_t (b + a (e − b)) da`` on the path from a baseline: the embedding of padding, or 0 where there is none; special
    tokens keep their own, so that theirs is 0. The integral is a Gauss–Legendre sum of ``case.steps`` points. The error is the difference
    between the sum over the tokens and ``ŷ(e) − ŷ(b)``, which the exact integral gives.
    """
    embedded, baseline = _ends_of_path(case)
    points, shares = (torch.from_numpy(part / 2).float().to(case.mask.device) for part in np.polynomial.legendre.leggauss(case.steps))
    totals = [torch.zeros_like(one) for one in embedded]
    for rows, steps, inputs in case.repeated(case.steps):
        slopes = _slopes(case, rows, inputs, embedded, baseline, 0.5 + points[steps])
        for total, slope in zip(totals, slopes, strict=True):
            total.index_add_(0, rows, slope * shares[steps, None, None])
    parts = [(total * (end - begin)).sum(dim=-1) for total, end, begin in zip(totals, embedded, baseline, strict=True)]
    found = _joined(case, parts)
    return found, (found.sum(dim=1) - _gained(case, baseline)).abs()


def _ends_of_path(case: Case) -> tuple[list[Tensor], list[Tensor]]:
    """The embeddings (B, T, E) that a text has, and those where the path begins."""
    embedded: list[Tensor] = []
    baseline: list[Tensor] = []
    pad = case.model.config.get_text_config().pad_token_id

    def seen(own: Tensor, module: nn.Module) -> Tensor:
        keep = case.special if not embedded else functional.pad(case.special[:, :-1], (1, 0), value=True)  # of a decoder, one later
        plain = torch.zeros_like(own) if pad is None else module.forward(torch.full_like(case.inputs["input_ids"], pad))
        embedded.append(own.clone())
        baseline.append(torch.where(keep[..., None], own, plain))
        return own

    with torch.no_grad(), embeddings_as(case, case.inputs, seen):
        case.model(**case.inputs)
    return _found(case, embedded), baseline


def _found(case: Case, embedded: list[Tensor]) -> list[Tensor]:
    """The embeddings of a text. Raises InputError where the model has not asked for them."""
    if not embedded:
        got = "a model that embeds its tokens in a way of its own"
        raise InputError(OPERATION, type(case.model).__name__, got, "embeddings of input_ids", "choose measures without gradients")
    return embedded


def _slopes(
    case: Case, rows: Tensor, inputs: dict[str, Tensor], embedded: list[Tensor], baseline: list[Tensor], share: Float[Tensor, " m"]
) -> tuple[Tensor, ...]:
    """The gradients (m, T, E) at some points of the paths of some texts."""
    pairs = zip(embedded, baseline, strict=True)
    leaves = [(begin[rows] + share[:, None, None] * (end - begin)[rows]).requires_grad_() for end, begin in pairs]
    left = iter(leaves)
    with torch.enable_grad(), embeddings_as(case, inputs, lambda *_: next(left).clone()):
        logits = read_logits(case.model, inputs, case.end_of(rows))
        total = logits.float().softmax(dim=-1).gather(1, case.predicted[rows, None]).sum()
        return torch.autograd.grad(total, leaves)


def _gained(case: Case, baseline: list[Tensor]) -> Float[Tensor, " B"]:
    """How much more probable the predicted output is at the end of the path than at its beginning."""
    left = iter(baseline)
    with torch.no_grad(), embeddings_as(case, case.inputs, lambda *_: next(left).clone()):
        begin = case.probability(read_logits(case.model, case.inputs, case.ends))
    return case.prediction.gather(1, case.predicted[:, None])[:, 0] - begin


def alpha_gradients(case: Case, chosen: Collection[int]) -> dict[int, Float[Tensor, "B H _"]]:
    """``∂ŷ/∂alpha`` of the attentions ``chosen``, by their number, at the query that the prediction reads, signed.

    ŷ is the probability of the predicted output; what follows an attention, later attention included, takes part. In an encoder that is
    read through a decoder there is no such query: the weights on a key are moved in all queries at once. Padding has 0. All are of one
    backward pass.
    """
    leaves: dict[int, Tensor] = {}
    _ = case.predicted, case.query  # of passes of their own, before this one

    def with_leaf(attention: Attention) -> Tensor | None:
        index, weights = attention.index, attention.weights
        if index not in chosen:
            return None
        leaves[index] = torch.zeros_like(weights[:, :, :1]).requires_grad_()
        return weights + case.rows_of(index, weights.shape[2])[:, None, :, None] * leaves[index]

    with torch.enable_grad():
        logits = read_logits(case.model, case.inputs, case.ends, with_leaf)
        slopes = torch.autograd.grad(case.probability(logits).sum(), list(leaves.values()))
    return {index: slope[:, :, 0].float() * case.keys_of(index)[:, None] for index, slope in zip(leaves, slopes, strict=True)}
