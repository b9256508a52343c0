"""Importance by gradients of the tokens' embeddings."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnaudit.core.extras import require
from attnaudit.hf.importance.case import OPERATION, Case, Graph, embeddings_as, read_logits
from attnaudit.hf.model import NO_TOKEN


def gradient_input(case: Case) -> Float[Tensor, "B T"]:
    """Compute ``|e_t · ∂ŷ/∂e_t|``.

    ŷ is the probability of the predicted output. The gradient also goes through attention weights.
    """
    return case.graph.times_input() * case.mask


def gradient(case: Case) -> Float[Tensor, "B T"]:
    """Compute ``Σ_c |e_t · ∂ŷ_c/∂e_t|`` over the classes, with every attention weight held fixed.

    For a language model only the predicted token counts, as there are too many outputs.

    References:
        Jain & Wallace 2019, Algorithm 1.
    """
    graph, classes = Graph(case, held=True), case.logits.shape[1]
    if case.ends is not None:
        return graph.times_input() * case.mask
    if classes == 2:
        return 2 * graph.times_input() * case.mask  # both are the same
    parts = [graph.times_input(output) for output in range(classes)]
    return torch.stack(parts).sum(dim=0) * case.mask


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

    pad = case.model.config.get_text_config().pad_token_id
    special, predicted = ~case.mask, case.prediction.argmax(dim=-1)
    special[case.mask] = torch.from_numpy(case.texts.special.values).to(special.device)
    path: list[Tensor] = []

    def see(own: Tensor, module: nn.Module) -> Tensor:
        begin = torch.zeros_like(own)
        if pad not in (None, NO_TOKEN):
            begin = module.forward(torch.full_like(case.inputs["input_ids"], pad))
        path.extend([torch.where(special[..., None], own, begin), own.clone()])
        return own

    def probability(embedded: Tensor, rows: Tensor) -> Tensor:
        inputs = {name: value[rows] for name, value in case.inputs.items()}
        ends = None if case.ends is None else case.ends[rows]
        with embeddings_as(case.model, inputs, lambda *_: embedded.clone()):
            logits = read_logits(case.model, inputs, ends)
        return logits.float().softmax(dim=-1).gather(1, predicted[rows, None])[:, 0]

    with torch.no_grad(), embeddings_as(case.model, case.inputs, see):
        case.model(**case.inputs)
    begin, end = path
    found = IntegratedGradients(probability).attribute(
        end,
        begin,
        additional_forward_args=(torch.arange(len(case.texts), device=case.mask.device),),
        n_steps=case.steps,
        internal_batch_size=max(case.rows_per_pass, len(case.texts)),
    )
    return found.sum(dim=-1) * case.mask
