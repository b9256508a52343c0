"""Importance by gradients of the tokens' embeddings."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from attnaudit.core.extras import require
from attnaudit.hf.importance.case import (
    OPERATION,
    Case,
    Graph,
    embeddings_as,
    moved_back,
    read_logits,
)
from attnaudit.hf.model import NO_TOKEN


def gradient_input(case: Case) -> Float[Tensor, "B T"]:
    """Compute ``|e_t · ∂ŷ/∂e_t|``.

    ŷ is the probability of the predicted output. The gradient also goes through attention weights.
    """
    return _times_input(case, case.graph)


def gradient(case: Case) -> Float[Tensor, "B T"]:
    """Compute ``Σ_c |e_t · ∂ŷ_c/∂e_t|`` over the classes, with every attention weight held fixed.

    For a language model only the predicted token counts, as there are too many outputs.

    References:
        Jain & Wallace 2019, Algorithm 1.
    """
    graph, classes = Graph(case, held=True), case.logits.shape[1]
    if case.ends is not None:
        return _times_input(case, graph)
    if classes == 2:
        return 2 * _times_input(case, graph)  # both are the same
    return torch.stack([_times_input(case, graph, output) for output in range(classes)]).sum(dim=0)


def _times_input(case: Case, graph: Graph, output: int | None = None) -> Float[Tensor, "B T"]:
    pairs = zip(graph.embedded, graph.slopes(output), strict=True)
    return _joined(case, [(leaf.detach() * slope).sum(dim=-1) for leaf, slope in pairs]).abs()


def _joined(case: Case, scores: list[Tensor]) -> Float[Tensor, "B T"]:
    """Add the scores of a decoder that is given the text again to those of the text."""
    total = scores[0] + (moved_back(scores[1]) if len(scores) > 1 else 0)
    return (total * case.mask).float()


def integrated_gradients(case: Case) -> Float[Tensor, "B T"]:
    """Return the absolute values of `attributions`."""
    return attributions(case).abs()


def attributions(case: Case) -> Float[Tensor, "B T"]:
    """Compute integrated gradients of the predicted output's probability, by captum.

    The path begins at the embedding of padding, or at 0 without one. Special tokens keep their own
    embedding, so that their attribution is 0.

    References:
        Sundararajan et al. 2017.
    """
    require("captum", f"{OPERATION}: integrated_gradients")
    # An optional dependency, which takes seconds to import.
    from captum.attr import IntegratedGradients

    embedded: list[Tensor] = []
    baseline: list[Tensor] = []
    pad, again = case.model.config.get_text_config().pad_token_id, case.decoder_reads_text
    predicted = case.prediction.argmax(dim=-1)

    def see(own: Tensor, module: nn.Module) -> Tensor:
        special = case.inputs["attention_mask"] == 0
        for row, marks in enumerate(case.texts.special):
            special[row, : len(marks)] = torch.from_numpy(marks).to(special.device)
        if embedded:  # of a decoder, one later
            special = functional.pad(special[:, :-1], (1, 0), value=True)
        begin = torch.zeros_like(own)
        if pad not in (None, NO_TOKEN):
            begin = module.forward(torch.full_like(case.inputs["input_ids"], pad))
        embedded.append(own.clone())
        baseline.append(torch.where(special[..., None], own, begin))
        return own

    def probability(*given: Tensor) -> Tensor:
        *leaves, rows = given
        left = iter(leaves)
        inputs = {name: value[rows] for name, value in case.inputs.items()}
        ends = None if case.ends is None else case.ends[rows]
        with embeddings_as(case.model, inputs, lambda *_: next(left).clone(), again):
            logits = read_logits(case.model, inputs, ends)
        return logits.float().softmax(dim=-1).gather(1, predicted[rows, None])[:, 0]

    with torch.no_grad(), embeddings_as(case.model, case.inputs, see, again):
        case.model(**case.inputs)
    found = IntegratedGradients(probability).attribute(
        tuple(embedded),
        tuple(baseline),
        additional_forward_args=(torch.arange(len(case.texts), device=case.mask.device),),
        n_steps=case.steps,
        internal_batch_size=max(case.rows_per_pass, len(case.texts)),
    )
    return _joined(case, [part.sum(dim=-1) for part in found])
