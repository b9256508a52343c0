"""What must hold of a model that has passed the gate: every way to its predictions under another attention gives the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from attnaudit.hf.capture import Attention, forward
from attnaudit.hf.gate import Gate
from attnaudit.hf.probe import probe_of
from attnaudit.hf.replay import Query, replayed, states_at, tvd, whole
from attnaudit.hf.tail import write_tail
from attnaudit.trace.tails import GRAPH_FILE
from tests.hf.encoding import random_texts


def assert_exact_under_any_attention(model: PreTrainedModel, gate: Gate, folder: Path) -> None:
    """On another text than the gate's, under five attentions of all heads of every layer: replays by sums, the stored graph of the last
    layer, and the model itself by weights, with padding and without, give the same predictions."""
    assert gate.task is not None
    assert gate.reads is not None
    texts = random_texts(model, seed=3)
    row = int((texts.ids if texts.written is None else texts.written).lengths.argmax())
    inputs = texts.batch([row])
    seen = forward(model, inputs)
    states = states_at(model, inputs, gate.task, gate.reads)
    probe = probe_of(model)
    last = len(gate.layers) - 1
    graph = None
    if gate.layers[last].way == "position":
        graph = write_tail(
            model,
            [states_at(model, probe.alone(k), gate.task, gate.reads) for k in (0, 1)],
            last,
            folder / GRAPH_FILE,
        )
    for number, layer in enumerate(gate.layers):
        if not layer.way:
            continue
        own = seen.attentions[number]
        drawn = torch.distributions.Dirichlet(torch.ones(own.weights.shape[-1])).sample(
            (5, own.weights.shape[1])
        )
        expected = whole(model, inputs, states.query, {number: drawn})
        sums = torch.einsum("nhk,hkd->nhd", drawn, own.values[0])
        assert tvd(states.logits.expand(5, -1), expected) > 1e-4
        passes = [
            expected,
            *(
                [padded(model, gate, inputs, states.query, number, drawn)]
                if gate.batching == "any"
                else []
            ),
        ]
        found = [replayed(model, states, {number: sums}, layer.way)]
        if graph is not None and number == last:
            calls, first = states.calls[number]
            hidden = calls[first].hidden[:, states.query.position].expand(5, -1)
            pooled = torch.cat([sums.flatten(1), hidden], dim=1).numpy()
            found.append(torch.from_numpy(graph(pooled, np.zeros(len(pooled), np.int64))))
        assert max(tvd(one, other) for one in found for other in passes) <= 1e-5


def padded(model: Any, gate: Gate, inputs: Any, query: Query, number: int, drawn: Tensor) -> Tensor:
    """The logits with weights ``drawn`` (N, H, K) of the query, of a text that three tokens of padding follow."""
    pad = model.config.pad_token_id
    copies = {name: value.repeat(len(drawn), 1) for name, value in inputs.items()}
    for name, filler in (("input_ids", pad), ("attention_mask", 0)):
        copies[name] = functional.pad(copies[name], (0, 3), value=filler)

    def exchange(found: Attention) -> Tensor | None:
        if found.index != number:
            return None
        weights = found.weights.clone()
        weights[:, :, query.position] = functional.pad(
            drawn, (0, weights.shape[-1] - drawn.shape[-1])
        )
        return weights

    logits = forward(model, copies, exchange).output.logits
    return logits if gate.task == "classification" else logits[:, query.position]
