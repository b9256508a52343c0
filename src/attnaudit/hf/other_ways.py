"""Whether attention is the only way in which the tokens of a text reach a prediction.

Convolutions and state-space layers mix tokens too, and a class can hide a second attention whose weights are not read. All of these still
act when the weights are replaced. With every token made to attend to itself alone, what is left of the other tokens came by such a way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attnaudit.hf.capture import Attention, forward
from attnaudit.hf.layers import Layer


def other_ways(
    model: Any, inputs: Mapping[str, Tensor], layers: tuple[Layer, ...], task: str, reads: int
) -> float:
    """How far the logits of a text (1, T) move, relative to the largest, when other tokens take the place of its own.

    ``reads`` is the query that the prediction is read from. In all ``layers`` a token attends to itself alone, and to the first of another
    stack; the first token, and those that the query stands for, stay as they are.
    """

    def itself(attention: Attention) -> Tensor:
        queries, keys = attention.weights.shape[-2:]
        within = layers[attention.index].stack != "cross" and queries == keys
        to = torch.arange(keys) if within else torch.zeros(queries, dtype=torch.int64)
        return (
            torch.nn.functional.one_hot(to, keys).to(attention.weights).expand_as(attention.weights)
        )

    one, other = (
        _predicted(forward(model, texts, itself).output.logits, task)
        for texts in (inputs, _exchanged(model, inputs, task, reads))
    )
    return float((one - other).abs().max() / one.abs().max())


def _exchanged(
    model: Any, inputs: Mapping[str, Tensor], task: str, reads: int
) -> dict[str, Tensor]:
    """The inputs with other tokens in place of all but the first, those that the query stands for, and the token of the end."""
    found = {name: ids.clone() for name, ids in inputs.items()}
    drawn = inputs["input_ids"][0, 1:-1]  # without the special tokens of its ends
    for (ids,) in (found[name] for name in found if name.endswith("input_ids")):
        kept = {0, reads % len(ids)}
        if model.config.is_encoder_decoder:
            kept.add(len(ids) - 1)  # a classifier looks for the token of the end
            if task == "classification":
                kept.add((reads - 1) % len(ids))  # which its decoder is given at the query
        for place in set(range(len(ids))) - kept:
            ids[place] = drawn[drawn != ids[place]][0]
    return found


def _predicted(logits: Tensor, task: str) -> Tensor:
    """The logits of the prediction: those of the last token where every token has some."""
    return logits if task == "classification" else logits[:, -1]
