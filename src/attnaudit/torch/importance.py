"""Gradient and leave-one-out of a torch module, by the formulas of our own classifiers."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.core import describe_error
from attnaudit.corpora.remarks import WARNING
from attnaudit.stats.measures import Activation
from attnaudit.torch.arguments import TokenArguments, named
from attnaudit.torch.pooling import LINEAR, PoolingNetwork, inside
from attnaudit.tracing.importance import sum_over_outputs
from attnaudit.tracing.leave_one_out import change

# A shorter text may show that its arguments were not understood.
FAILURES = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AssertionError)
NOTHING_KNOWN = (
    f"{WARNING}without gradient, loo and replaced words: no argument of the network, such as ids "
    "or word vectors, has one value for each token, wherever it stands"
)


def measure_importance(
    network: PoolingNetwork, parts: Sequence[Any], arguments: TokenArguments, activation: Activation
) -> tuple[list[dict[str, Float[Tensor, "B T"]]], list[str]]:
    """Measure the importance of all tokens.

    Returns:
        Columns of each batch, and why one is left out.
    """
    columns: list[dict[str, Tensor]] = [{} for _ in parts]
    notes = list[str]()
    if not arguments.tables:
        return columns, [NOTHING_KNOWN]
    for name, measure in {"gradient": gradient, "loo": leave_one_out}.items():
        try:
            found = [measure(network, part, arguments, activation) for part in parts]
        except FAILURES as error:
            notes.append(f"{WARNING}without {name}: {describe_error(error)}".partition("\n")[0])
        else:
            for own, values in zip(columns, found, strict=True):
                own[name] = values
    return columns, notes


def gradient(
    network: PoolingNetwork, part: Any, arguments: TokenArguments, activation: Activation
) -> Float[Tensor, "B T"]:
    """Compute ``Σ_c |e_t · ∂ŷ_c/∂e_t|`` with all attention held fixed.

    ``e_t`` is the token's word vector, among the arguments or as an embedding of its id; if it has
    several, they are one vector.
    """
    inputs, ids = named(network.net, part.batch.inputs), dict[str, Tensor]()
    embedded = list[Tensor]()
    for name in arguments.tables:
        if inputs[name].is_floating_point():
            inputs[name] = inputs[name].detach().clone().requires_grad_()
            embedded.append(inputs[name])
        else:
            ids[name] = inputs[name]
    logits, of_ids = network.run_held(inputs, ids)
    for name in ids.keys() - of_ids.keys():
        raise ValueError(f"no embedding has the argument {name} as its input")
    for vectors in of_ids.values():
        embedded += vectors
    texts, size = part.alpha.shape[0], part.alpha.shape[2]
    per_logit = torch.zeros(texts, size, logits.shape[1])
    for output in range(logits.shape[1]):
        # A text's logit only depends on its own tokens.
        slopes = torch.autograd.grad(
            logits[:, output].sum(), embedded, retain_graph=True, allow_unused=True
        )
        for vectors, slope in zip(embedded, slopes, strict=True):
            if slope is not None:
                times_input = (slope * vectors.detach()).reshape(*slope.shape[:2], -1).sum(dim=-1)
                per_logit[..., output] += times_input.cpu()[:, :size]
    return sum_over_outputs(per_logit, part.ran.output, activation)


def leave_one_out(
    network: PoolingNetwork, part: Any, arguments: TokenArguments, activation: Activation
) -> Float[Tensor, "B T"]:
    """Delete each token and run the module again.

    Without its only token, a text has no attention: its sum is 0.
    """
    lengths = part.batch.lengths
    logits = part.ran.output[:, None].repeat(1, part.alpha.shape[2], 1)
    single = lengths == 1
    if single.any():
        nothing = torch.where(single[:, None, None], 0.0, part.alpha)
        logits[single, 0] = network.run(part.batch.inputs, nothing).output[single]
    for place in range(int(lengths.max()) if lengths.max() > 1 else 0):
        shortened = ~single & (lengths > place)
        ran = network.run(arguments.without(part.batch, place, shortened))
        weights = ran.weights[0]
        behind = ~inside(lengths - shortened.long(), weights.shape[2])
        if (weights * behind[:, None]).max() > LINEAR:
            raise ValueError("the module gives padding weight when a text is one token shorter")
        logits[shortened, place] = ran.output[shortened]
    return change(logits, part.ran.output, activation)
