"""The part of a model above the attended sum of its last layer, as an ONNX graph that is stored with a trace.

One position of the last layer, and what comes after it, depend on the other positions through the attended sums of the heads alone. The
graph takes these sums and the hidden state that the layer was given, side by side in one vector ``pooled`` (n, H·D + W), and returns
``logits`` (n, C).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnaudit.core.files import atomic
from attnaudit.hf.capture import Attention, Mixture, forward
from attnaudit.hf.replay import EXACT, TRIALS, States, logits_at_query, replayed, tvd
from attnaudit.hf.resume import resumed
from attnaudit.trace.tails import ROWS, GraphTail

MOST_PARAMETERS = (
    1 << 25
)  # of a tail: a larger one, such as the output layer of a large vocabulary, is replayed by the model


class Tail(nn.Module):
    """``pooled -> logits`` by the modules of the model itself, from what one text left (`States`)."""

    def __init__(self, model: nn.Module, states: States, attention: int) -> None:
        super().__init__()
        self.model, self.states = model, states
        self.calls, self.first = states.calls[attention]
        self.index = attention - self.calls[self.first].attentions.start
        self.heads, self.width = states.sums[attention].shape
        self.taken = self.heads * self.width + self.calls[self.first].hidden.shape[-1]

    def forward(self, pooled: Float[Tensor, "n Q"]) -> Float[Tensor, "n C"]:
        split, number = self.heads * self.width, pooled.shape[0]
        mixture = Mixture(pooled[:, :split].reshape(-1, self.heads, 1, self.width))
        hidden = pooled[:, None, split:]
        position = self.states.query.position
        inputs = {
            name: value[:, position : position + 1].repeat(number, 1)
            for name, value in self.states.inputs.items()
        }

        def chosen(tensor: Tensor) -> Tensor:
            if tensor is self.calls[self.first].hidden:
                return hidden
            if tensor.dim() < 2 or len(tensor) != 1:
                return tensor
            return tensor[:, position : position + 1].repeat(number, *[1] * (tensor.dim() - 1))

        def exchange(found: Attention) -> Mixture | None:
            return mixture if found.index == self.index else None

        with resumed(self.calls, self.first, chosen):
            return logits_at_query(
                forward(self.model, inputs, exchange).output, self.states.query.task
            )


def write_tail(
    model: nn.Module, texts: Sequence[States], attention: int, path: Path
) -> GraphTail | None:
    """The graph of the tail after an attention, written to ``path``; None, and no file, where there is none.

    It is made from the first of the ``texts`` and tried on all of them: a model may bring something of a text past its last layer, and a
    graph would take this of the first one for all.
    """
    tail = Tail(model, texts[0], attention)
    if not write_tail_graph(tail, torch.zeros(ROWS, tail.taken), path):
        return None
    graph = GraphTail.of(path)
    if all(_gap(graph, model, states, attention) <= EXACT for states in texts):
        return graph
    path.unlink()
    return None


def _gap(graph: GraphTail, model: nn.Module, states: States, attention: int) -> float:
    """How far the predictions of a graph and of the model differ (TVD), with other attended sums of all heads."""
    own = states.sums[attention]
    drawn = own + own.std() * torch.randn(
        (TRIALS, *own.shape), generator=torch.Generator().manual_seed(0)
    ).to(own)
    calls, first = states.calls[attention]
    hidden = calls[first].hidden[:, states.query.position].expand(TRIALS, -1)
    pooled = torch.cat([drawn.flatten(1), hidden], dim=1).cpu().numpy()
    found = graph(pooled, np.arange(TRIALS))
    return tvd(
        torch.from_numpy(found), replayed(model, states, {attention: drawn}, "position").cpu()
    )


def write_tail_graph(tail: Tail, example: Float[Tensor, "n Q"], path: Path) -> bool:
    """Export the tail as an ONNX graph of n rows in one file; False, and no file, where a function of the model has no such form."""
    with _quiet(), _without_stack_traces(), torch.no_grad():
        try:
            program = torch.onnx.export(
                tail, (example,), dynamo=True, verbose=False, input_names=["pooled"], output_names=["logits"], external_data=False,
            )  # fmt: skip
        except torch.onnx.errors.OnnxExporterError:
            return False
    assert program is not None
    with atomic(path) as temporary:
        program.save(str(temporary), external_data=False)
    return True


@contextmanager
def _without_stack_traces() -> Iterator[None]:
    """Within, no node of a graph is given the lines of source that made it: paths of this machine, which say nothing to others."""
    config = getattr(torch.fx, "config", None)  # not in torch 2.6
    before = getattr(config, "do_not_emit_stack_traces", None)
    try:
        if before is not None:
            setattr(config, "do_not_emit_stack_traces", True)  # noqa: B010  (pyright knows no such attribute)
        yield
    finally:
        if before is not None:
            setattr(config, "do_not_emit_stack_traces", before)  # noqa: B010


@contextmanager
def _quiet() -> Iterator[None]:
    """Within, the exporter tells nothing: what it cannot export is replayed."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
