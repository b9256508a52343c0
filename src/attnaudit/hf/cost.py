"""Seconds of the passes that an audit of a transformer is made of, measured on one text."""

import time
from collections.abc import Sequence

import numpy as np
import torch

from attnaudit.hf.choose import Chosen
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.model import frozen, require_task
from attnaudit.hf.network import Replay
from attnaudit.hf.replay import replayed, states_of
from attnaudit.torch.capture import forward

COPIES = 16  # rows of a measured pass, about as many as experiments ask for at once


def pass_seconds(
    network: Replay, encoded: Encoded, chosen: Sequence[Chosen]
) -> tuple[float, list[tuple[float, bool]], int]:
    """Measure passes over the text of median length.

    Returns:
        The CPU seconds of a whole pass over a text, those of a replay of every attention and
        whether they grow with the length of texts, and the tokens of the text.
    """
    model, gate = network.model, network.gate
    row = int(np.argsort(encoded.ids.lengths)[len(encoded) // 2])

    def fastest(work):
        spent = []
        for _ in range(3):
            begun = time.process_time()
            work()
            spent.append(time.process_time() - begun)
        return min(spent) / COPIES

    with frozen(model), torch.no_grad():
        inputs = encoded.batch([row], model.device)
        copies = {name: value.repeat(COPIES, 1) for name, value in inputs.items()}
        whole, replays = fastest(lambda: forward(model, copies)), list[tuple[float, bool]]()
        states = states_of(model, inputs, require_task(model), gate.reads or 0)
        for one in chosen:
            sums, way = states.sums[one.number].repeat(COPIES, 1, 1), one.layer.way
            given = model, states, {one.number: sums}, way
            replays.append((fastest(lambda given=given: replayed(*given)), way != "position"))
    return whole, replays, int(encoded.ids.lengths[row])
