"""An alternative attention of a transformer: by the stored graph, by replay, and by a whole pass.

    python -m benchmarks.transformer_replay

Models of the sizes of BERT-base and GPT-2 small with random weights. Every side computes many
alternatives at once, in batches, with one thread, so the ratios are what to quote. The second table
is of the search for the ε-max JSD through the last layer of models of width 768 with weights so
large that attention matters, all heads of texts of 20 tokens. Print two Markdown tables.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

# Of torch and of the stored graph; read when they are imported.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.hf.gate import check_model
from attnaudit.hf.network import replay_of
from attnaudit.hf.replay import replayed, states_of
from attnaudit.hf.tail import write_tail
from attnaudit.torch.capture import forward
from attnaudit.trace import Trace
from attnaudit.trace.tails import GRAPH_FILE, GraphTail
from benchmarks.output import print_header, print_row
from tests.hf.encoding import random_texts
from tests.hf.exact import dirichlet, whole
from tests.hf.test_trace import collected

ALTERNATIVES, OF_WHOLE = 512, 8
TOKENS, TEXTS = 20, 16  # of the search
COLUMNS = (
    *("model", "attention", "way", "whole model (ms)", "ours (ms)", "ratio"),
    "largest difference (TVD)",
)
COLUMNS_OF_SEARCH = (
    *("adversary of", "classes", "rows", "CPU (ms a row)", "wall (ms a row)"),
    *("ε-max JSD, mean", "largest Δŷ"),
)


def fastest(work: Callable[[], Any], times: int = 3) -> float:
    """Return the shortest wall time of a call, without the first."""
    work()
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


def ways_of(name: str, model: Any, tokens: int, layers: Iterable[int]) -> Iterator[list[str]]:
    """Measure each way to the prediction under other attention of a layer."""
    gate = check_model(model)
    assert gate.task is not None
    assert gate.reads is not None
    inputs = {
        "input_ids": torch.randint(5, 1000, (1, tokens)),
        "attention_mask": torch.ones(1, tokens, dtype=torch.long),
    }
    seen = forward(model, inputs)
    states = states_of(model, inputs, gate.task, gate.reads)
    for layer in layers:
        drawn = dirichlet(ALTERNATIVES, seen.attentions[layer])
        given = model, inputs, gate.task, states.position, {layer: drawn[:OF_WHOLE]}
        expected = whole(*given)
        slow = fastest(lambda given=given: whole(*given), 2) / OF_WHOLE
        sums = torch.einsum("nhk,hkd->nhd", drawn, seen.attentions[layer].values[0])
        way = gate.layers[layer].way
        calls: dict[str, Callable[[], Tensor]] = {
            f"replay: {way}": lambda layer=layer, sums=sums, way=way: replayed(
                model, states, {layer: sums}, way
            )
        }
        with tempfile.TemporaryDirectory() as folder:
            graph = None
            if way == "position":
                graph = write_tail(model, [states], layer, Path(folder, GRAPH_FILE))
            if graph is not None:
                hidden = states.hidden(layer).expand(ALTERNATIVES, -1)
                pooled = torch.cat([sums.flatten(1), hidden], dim=1).double().numpy()
                rows = np.zeros(len(pooled), np.int64)
                calls["stored graph"] = lambda graph=graph, pooled=pooled, rows=rows: (
                    torch.from_numpy(graph(pooled, rows))
                )
            for title, call in calls.items():
                fast, found = fastest(call) / ALTERNATIVES, call()[:OF_WHOLE]
                gap = (found.double().softmax(-1) - expected.double().softmax(-1)).abs().sum(-1)
                figures = f"{1e3 * slow:.1f}", f"{1e3 * fast:.3f}", f"{slow / fast:,.0f}"
                yield [name, f"layer {layer}", title, *figures, f"{float(gap.max()) / 2:.0e}"]


def search_row(model: Any) -> list[str]:
    """Measure the adversary's search through the last layer."""
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, 0, 0.3 * (32 / weight.shape[-1]) ** 0.5)
    trace, experiment = last_layer(model), Adversary()
    experiment(trace.take(np.arange(3)))  # compiles
    begun, began = time.process_time(), time.perf_counter()
    table = experiment(trace)
    spent = time.process_time() - begun, time.perf_counter() - began
    return [
        *(type(model).__name__, f"{len(trace.class_names):,}", f"{len(trace)}"),
        *(f"{1e3 * seconds / len(trace):.1f}" for seconds in spent),
        *(f"{table['emax_jsd'].to_numpy().mean():.4f}", f"{table['delta_y'].max():.6f}"),
    ]


def last_layer(model: Any) -> Trace:
    """Collect all heads of the last layer, on texts of random tokens."""
    replay, texts = replay_of(model), random_texts(model, TEXTS, lengths=(TOKENS, TOKENS))
    with tempfile.TemporaryDirectory() as folder:
        collected(model, replay.gate, texts, Path(folder), scores=())
        trace = Trace.read(folder, replay)
        if isinstance(trace.tail, GraphTail):
            trace.readout(trace.alpha)  # loads the graph while the folder is there
        return trace


def main() -> None:
    """Print both tables."""
    torch.manual_seed(0)
    print_header(COLUMNS)
    bert = BertForSequenceClassification(BertConfig(vocab_size=2000)).eval()
    gpt = GPT2LMHeadModel(GPT2Config()).eval()
    for name, model, tokens, layers in (
        ("BERT-base", bert, 64, (11, 10)),
        ("GPT-2 small", gpt, 128, (0, 6, 11)),
    ):
        for row in ways_of(f"{name}, T = {tokens}", model, tokens, layers):
            print_row(row)
    print()
    print_header(COLUMNS_OF_SEARCH)
    classes = dict(enumerate("abc"))
    config = BertConfig(vocab_size=2000, id2label=classes, num_hidden_layers=2)
    for model in (BertForSequenceClassification(config), GPT2LMHeadModel(GPT2Config(n_layer=2))):
        print_row(search_row(model.eval()))


if __name__ == "__main__":
    main()
