"""The part of a model above the attended sum of its last layer, as an ONNX graph.

One position of the last layer, and what comes after it, depend on the other positions only through
the attended sums of the heads. The graph takes these sums and the layer's hidden input, side by
side in one vector ``pooled`` (n, H·D + W), and returns ``logits`` (n, C).
"""

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnaudit.core import TraceError, atomic
from attnaudit.hf.model import tvd
from attnaudit.hf.replay import EXACT, TRIALS, States, replayed
from attnaudit.trace.tails import ROWS, GraphTail

# A larger output layer, such as that of a large vocabulary, is replayed by the model.
MOST_PARAMETERS = 1 << 25


class Tail(nn.Module):
    """The tail by the modules of the model itself, with what one text left."""

    def __init__(self, model: nn.Module, states: States, attention: int) -> None:
        super().__init__()
        self.model, self.states, self.attention = model, states, attention
        self.sums = states.sums[attention]
        self.size = self.sums.numel() + states.hidden(attention).shape[-1]

    def forward(self, pooled: Float[Tensor, "n Q"]) -> Float[Tensor, "n C"]:
        """Return the logits."""
        split = self.sums.numel()
        changes = {self.attention: pooled[:, :split].reshape(-1, *self.sums.shape)}
        return replayed(self.model, self.states, changes, "position", pooled[:, split:])


def write_tail(
    model: nn.Module, texts: Sequence[States], attention: int, path: Path
) -> GraphTail | None:
    """Write the graph of the tail after an attention, or return None.

    It is made from the first text and tried on all of them: a model may bring something of a text
    past its last layer, and a graph would take that of the first text for all.

    Args:
        model: The model.
        texts: Passes of some texts.
        attention: Number of the attention.
        path: File of the graph.
    """
    tail = Tail(model, texts[0], attention)
    if not write_graph(tail, path):
        return None
    graph = GraphTail.of(path)
    for states in texts:
        own = states.sums[attention]
        noise = torch.randn((TRIALS, *own.shape), generator=torch.Generator().manual_seed(0))
        sums, hidden = own + own.std() * noise.to(own), states.hidden(attention).expand(TRIALS, -1)
        pooled = torch.cat([sums.flatten(1), hidden], dim=1).cpu().numpy()
        expected = replayed(model, states, {attention: sums}, "position", hidden).cpu()
        try:
            logits = graph(pooled, np.arange(TRIALS))
        except TraceError:  # something of the model is not allowed in a stored graph
            logits = np.full(expected.shape, np.nan)
        if not tvd(torch.from_numpy(logits), expected) <= EXACT:
            path.unlink()
            return None
    return graph


def write_graph(tail: Tail, path: Path) -> bool:
    """Export a tail; return False, without a file, if a function of the model has no ONNX form."""
    example = torch.zeros(ROWS, tail.size)
    silenced = logging.root.manager.disable
    logging.disable()  # the exporter's log is of no use to a reader of ours
    try:
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):
            program = torch.onnx.export(
                tail,
                (example,),
                dynamo=True,
                verbose=False,
                input_names=["pooled"],
                output_names=["logits"],
                external_data=False,
            )
    except torch.onnx.errors.OnnxExporterError:
        return False
    finally:
        logging.disable(silenced)
    assert program is not None
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # traces of calls, with the paths of this machine
    with atomic(path) as temporary:
        program.save(str(temporary), external_data=False)
    return True
