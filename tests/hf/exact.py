"""What must hold of a model that passed the gate: all ways to its predictions agree."""

import numpy as np
import torch
from torch.nn import functional

from attnaudit.hf.layers import Probe
from attnaudit.hf.model import tvd
from attnaudit.hf.replay import replayed, states_of
from attnaudit.hf.tail import write_tail
from attnaudit.torch.capture import forward
from attnaudit.trace.tails import GRAPH_FILE
from tests.hf.encoding import random_texts


def assert_exact_under_any_attention(model, gate, folder):
    """On another text than the gate's, under five attentions of all heads of every layer.

    Replays by sums, the stored graph of the last layer, and the model itself by weights, with
    padding and without, give the same predictions.
    """
    assert gate.task is not None
    assert gate.reads is not None
    texts = random_texts(model, seed=3)
    inputs = texts.batch([int(texts.read.ids.lengths.argmax())])
    seen = forward(model, inputs)
    states = states_of(model, inputs, gate.task, gate.reads)
    probe, last, graph = Probe.of(model), len(gate.layers) - 1, None
    if gate.layers[last].way == "position":
        short = [states_of(model, probe.alone(k), gate.task, gate.reads) for k in (0, 1)]
        graph = write_tail(model, short, last, folder / GRAPH_FILE)
    for number, layer in enumerate(gate.layers):
        if not layer.way:
            continue
        own = seen.attentions[number]
        drawn = dirichlet(5, own)
        expected = whole(model, inputs, gate.task, states.position, {number: drawn})
        sums = torch.einsum("nhk,hkd->nhd", drawn, own.values[0])
        assert tvd(states.logits.expand(5, -1), expected) > 1e-4
        passes = [expected]
        if gate.batching == "any":
            padded = _padded(model, inputs)
            passes.append(whole(model, padded, gate.task, states.position, {number: drawn}))
        found = [replayed(model, states, {number: sums}, layer.way)]
        if graph is not None and number == last:
            pooled = torch.cat([sums.flatten(1), states.hidden(number).expand(5, -1)], dim=1)
            logits = graph(pooled.numpy(), np.zeros(len(pooled), np.int64))
            found.append(torch.from_numpy(logits))
        assert max(tvd(one, other) for one in found for other in passes) <= 1e-5


def dirichlet(number, attention):
    """Random weights (N, H, K) for all heads of an attention."""
    heads, _, keys = attention.weights.shape[1:]
    return torch.distributions.Dirichlet(torch.ones(keys)).sample((number, heads))


def whole(model, inputs, task, position, weights):
    """Logits with other weights (N, H, K) of a query, by N passes of the whole model.

    The oracle of all replays. Weights may be of fewer keys than the pass has, which are padding.
    """

    def exchange(found):
        if found.index not in weights:
            return None
        own, new = found.weights.clone(), weights[found.index]
        own[:, :, position] = functional.pad(new, (0, own.shape[-1] - new.shape[-1]))
        return own

    number = len(next(iter(weights.values())))
    copies = {name: value.repeat(number, 1) for name, value in inputs.items()}
    logits = forward(model, copies, exchange).output.logits
    return logits if task == "classification" else logits[:, position]


def _padded(model, inputs):
    """A text with three tokens of padding behind it."""
    fillers = {"input_ids": model.config.pad_token_id, "attention_mask": 0}
    return {
        name: functional.pad(value, (0, 3), value=fillers[name]) if name in fillers else value
        for name, value in inputs.items()
    }
