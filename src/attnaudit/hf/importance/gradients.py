"""Importance by gradients: of the tokens' embeddings, along a path, and of the attention weights."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.core.errors import InputError
from attnaudit.hf.capture import NO_TOKEN
from attnaudit.hf.importance.backward import embeddings_as, read_logits
from attnaudit.hf.importance.case import OPERATION, Case, moved_back


def gradient_input(case: Case) -> Float[Tensor, "B T"]:
    """``|e_t · ∂ŷ/∂e_t|`` of the probability ŷ of the predicted output and the embedding e_t, through the attention weights, too."""
    return _times_input(case, held=False)


def gradient(case: Case) -> Float[Tensor, "B T"]:
    """``Σ_c |e_t · ∂ŷ_c/∂e_t|`` over the classes, with every attention weight held fixed (Jain & Wallace 2019, Algorithm 1).

    Of a language model that of the predicted token alone, as there are too many outputs.
    """
    classes = case.logits.shape[1]
    if case.ends is not None:
        return _times_input(case, held=True)
    if classes == 2:
        return 2 * _times_input(case, held=True)  # both are the same
    return torch.stack([_times_input(case, True, output) for output in range(classes)]).sum(dim=0)


def _times_input(case: Case, held: bool, output: int | None = None) -> Float[Tensor, "B T"]:
    pairs = zip(
        _found(case, case.graph.embedded), case.graph.of_embeddings(held, output), strict=True
    )
    return _joined(case, [(leaf.detach() * slope).sum(dim=-1) for leaf, slope in pairs]).abs()


def _joined(case: Case, scores: list[Tensor]) -> Float[Tensor, "B T"]:
    """Scores at the tokens of the text: of the text, and of a decoder that is given it again."""
    total = scores[0] + (moved_back(scores[1]) if len(scores) > 1 else 0)
    return (total * case.mask).float()


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
    points, shares = (
        torch.from_numpy(part / 2).float().to(case.mask.device)
        for part in np.polynomial.legendre.leggauss(case.steps)
    )
    totals = [torch.zeros_like(one) for one in embedded]
    for rows, steps, inputs in case.repeated(case.steps):
        slopes = _slopes(case, rows, inputs, embedded, baseline, 0.5 + points[steps])
        for total, slope in zip(totals, slopes, strict=True):
            total.index_add_(0, rows, slope * shares[steps, None, None])
    parts = [
        (total * (end - begin)).sum(dim=-1)
        for total, end, begin in zip(totals, embedded, baseline, strict=True)
    ]
    found = _joined(case, parts)
    return found, (found.sum(dim=1) - _gained(case, baseline)).abs()


def _ends_of_path(case: Case) -> tuple[list[Tensor], list[Tensor]]:
    """The embeddings (B, T, E) that a text has, and those where the path begins."""
    embedded: list[Tensor] = []
    baseline: list[Tensor] = []
    pad = case.model.config.get_text_config().pad_token_id

    def seen(own: Tensor, module: nn.Module) -> Tensor:
        keep = (
            case.special
            if not embedded
            else functional.pad(case.special[:, :-1], (1, 0), value=True)
        )  # of a decoder, one later
        plain = (
            torch.zeros_like(own)
            if pad in (None, NO_TOKEN)
            else module.forward(torch.full_like(case.inputs["input_ids"], pad))
        )
        embedded.append(own.clone())
        baseline.append(torch.where(keep[..., None], own, plain))
        return own

    with torch.no_grad(), embeddings_as(case.model, case.inputs, seen, case.decoder_reads_text):
        case.model(**case.inputs)
    return _found(case, embedded), baseline


def _found(case: Case, embedded: list[Tensor]) -> list[Tensor]:
    """The embeddings of a text. Raises InputError where the model has not asked for them."""
    if not embedded:
        got = "a model that embeds its tokens in a way of its own"
        raise InputError(
            OPERATION,
            type(case.model).__name__,
            got,
            "embeddings of input_ids",
            "choose measures without gradients",
        )
    return embedded


def _slopes(
    case: Case,
    rows: Tensor,
    inputs: dict[str, Tensor],
    embedded: list[Tensor],
    baseline: list[Tensor],
    share: Float[Tensor, " m"],
) -> tuple[Tensor, ...]:
    """The gradients (m, T, E) at some points of the paths of some texts."""
    pairs = zip(embedded, baseline, strict=True)
    leaves = [
        (begin[rows] + share[:, None, None] * (end - begin)[rows]).requires_grad_()
        for end, begin in pairs
    ]
    left = iter(leaves)
    with (
        torch.enable_grad(),
        embeddings_as(case.model, inputs, lambda *_: next(left).clone(), case.decoder_reads_text),
    ):
        logits = read_logits(case.model, inputs, case.end_of(rows))
        total = logits.float().softmax(dim=-1).gather(1, case.predicted[rows, None]).sum()
        return torch.autograd.grad(total, leaves)


def _gained(case: Case, baseline: list[Tensor]) -> Float[Tensor, " B"]:
    """How much more probable the predicted output is at the end of the path than at its beginning."""
    left = iter(baseline)
    with (
        torch.no_grad(),
        embeddings_as(
            case.model, case.inputs, lambda *_: next(left).clone(), case.decoder_reads_text
        ),
    ):
        begin = case.probability(read_logits(case.model, case.inputs, case.ends))
    return case.prediction.gather(1, case.predicted[:, None])[:, 0] - begin


def alpha_gradients(case: Case, chosen: Collection[int]) -> dict[int, Float[Tensor, "B H _"]]:
    """``∂ŷ/∂alpha`` of the attentions ``chosen``, by their number, at the query that the prediction reads, signed.

    ŷ is the probability of the predicted output; what follows an attention, later attention included, takes part. In an encoder that is
    read through a decoder there is no such query: the weights on a key are moved in all queries at once. Padding has 0. All are of one
    backward pass.
    """
    slopes = case.graph.of_weights(chosen)
    return {
        index: _at_query(case, index, slope).float() * case.keys_of(index)[:, None]
        for index, slope in slopes.items()
    }


def _at_query(case: Case, index: int, slope: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H K"]:
    return torch.einsum("bhqk,bq->bhk", slope, case.rows_of(index, slope.shape[2]).to(slope))
