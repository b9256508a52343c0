"""All heads of all layers at once, as passes of the whole model give them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attnaudit.experiments import joint
from attnaudit.experiments.joint import Joint
from attnaudit.hf.gate import check_model
from attnaudit.hf.network import Replay
from attnaudit.trace import Trace
from tests.hf.classes import tiny
from tests.hf.encoding import random_texts
from tests.hf.test_trace import collected
from tests.oracles.joint import NaiveHeads

HEADS, TEXTS, SHUFFLES, SWEEPS = 4, 4, 3, 2


@pytest.mark.parametrize("name", ["BertForSequenceClassification", "GPT2LMHeadModel"])
def test_all_layers_at_once_are_passes_of_the_whole_model(name: str, tmp_path: Path) -> None:
    model = tiny(name)
    gate, texts = check_model(model), random_texts(model, TEXTS)
    trace = Trace.read(collected(model, gate, texts, tmp_path, layers="all", scores=()), Replay(model, gate))
    table = Joint(shuffles=SHUFFLES, sweeps=SWEEPS)(trace)
    drawn = [[row.copy() for row in shuffled] for shuffled in joint._shuffled(trace, 0, SHUFFLES)]
    for text in range(TEXTS):
        rows = np.flatnonzero(trace.instance == text)

        def of_layers(alpha: list[np.ndarray], rows: np.ndarray = rows) -> list[np.ndarray]:
            return [np.stack([alpha[row] for row in rows if trace.array("layer")[row] == layer]) for layer in (0, 1)]

        naive = NaiveHeads(model, texts.batch([text]), int(trace.array("query")[rows[0]]), HEADS)
        own = of_layers(list(trace.alpha))
        assert naive.change(own) <= 1e-6
        uniform = [np.full_like(weights, 1 / weights.shape[1]) for weights in own]
        shuffled = [of_layers(alpha) for alpha in drawn]
        changes = [naive.change(weights) for weights in shuffled]
        worst = [naive.by_turns(weights, layer, SWEEPS) for layer, weights in enumerate(own)]
        found = table[rows]
        assert found["layers_uniform"].to_numpy() == pytest.approx(naive.change(uniform), abs=1e-5)
        assert found["layers_shuffled"].to_numpy() == pytest.approx(np.median(changes), abs=1e-5)
        largest = max(naive.change(worst), *changes, naive.change(uniform), float(found["joint_max_delta_y"].to_numpy().max()))
        assert found["layers_max_delta_y"].to_numpy() == pytest.approx(largest, abs=1e-5)
        by_layer = bool(found["joint_flips"].any())
        assert found["layers_flips"].unique().to_list() == [by_layer or any(map(naive.flips, [uniform, worst, *shuffled]))]
