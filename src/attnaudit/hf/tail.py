"""The part of a model above the attended sum of its last layer, as an ONNX graph that is stored with a trace.

One position of the last layer, and what comes after it, depend on the other positions through the attended sums of the heads alone. The
graph takes these sums and the hidden state that the layer was given, side by side in one vector ``pooled`` (n, H·D + W), and returns
``logits`` (n, C).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnaudit.hf.capture import Attention, Mixture, forward
from attnaudit.hf.replay import States, logits_at_query
from attnaudit.hf.resume import Call, resumed

MOST_PARAMETERS = 1 << 25  # of a tail: a larger one, such as the output layer of a large vocabulary, is replayed by the model


class Tail(nn.Module):
    """``pooled -> logits`` by the modules of the model itself, from what one text left (`States`)."""

    def __init__(self, model: nn.Module, states: States, attention: int) -> None:
        super().__init__()
        self.model, self.states = model, states
        self.calls, self.first = states.calls[attention]
        self.index = attention - self.calls[self.first].attentions.start
        self.heads, _, self.width = states.values[attention].shape

    def forward(self, pooled: Float[Tensor, "n Q"]) -> Float[Tensor, "n C"]:
        split, number = self.heads * self.width, pooled.shape[0]
        mixture = Mixture(pooled[:, :split].reshape(-1, self.heads, 1, self.width))
        hidden = pooled[:, None, split:]
        position = self.states.query.position
        inputs = {name: value[:, position : position + 1].repeat(number, 1) for name, value in self.states.inputs.items()}

        def chosen(tensor: Tensor) -> Tensor:
            if tensor is self.calls[self.first].hidden:
                return hidden
            if tensor.dim() < 2 or len(tensor) != 1:
                return tensor
            return tensor[:, position : position + 1].repeat(number, *[1] * (tensor.dim() - 1))

        def exchange(found: Attention) -> Mixture | None:
            return mixture if found.index == self.index else None

        with resumed(self.calls, self.first, chosen):
            return logits_at_query(forward(self.model, inputs, exchange).output, self.states.query.task)


def write_tail_graph(tail: Tail, example: Float[Tensor, "n Q"], path: Path) -> None:
    """Export the tail as an ONNX graph in one file."""
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            tail, (example,), dynamo=True, verbose=False, input_names=["pooled"], output_names=["logits"],
            external_data=False, optimize=True,
        )  # fmt: skip
    assert program is not None
    program.save(str(path), external_data=False)


@contextmanager
def _quiet() -> Iterator[None]:
    level = logging.getLogger("torch.onnx").level
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.getLogger("torch.onnx").setLevel(level)
