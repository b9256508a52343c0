"""An alternative attention of a transformer: by the stored graph, by replay, and by a pass of the whole model; and the adversary's search.

    python benchmarks/transformer_replay.py

Models of the sizes of BERT-base and GPT-2 small with random weights. Every side computes many alternatives at once, in batches, in this
run and with one thread, so that the ratios are what to quote; seconds are of this machine. The search for the ε-max JSD is through the
last layer of models of width 768 whose weights are large enough that attention matters, all heads of texts of 20 tokens. Prints two
markdown tables.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = (
    "1"  # of torch and of the stored graph; compiled kernels take all cores
)

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.hf.capture import forward
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.gate import check_model
from attnaudit.hf.network import Replay
from attnaudit.hf.replay import Query, replayed, states_of, whole
from attnaudit.hf.tail import Tail, write_tail_graph
from attnaudit.hf.trace import choose_layers, collect_shards
from attnaudit.trace import Trace, write_shards
from attnaudit.trace.tails import GRAPH_FILE, ROWS, GraphTail
from benchmarks.output import print_header, print_row

TOKENS_OF_BERT, TOKENS_OF_GPT, ALTERNATIVES, OF_WHOLE = 64, 128, 512, 8
TOKENS, TEXTS = 20, 16  # of the search
COLUMNS = (
    *("model", "attention", "way", "whole model (ms)", "ours (ms)", "ratio"),
    "largest difference (TVD)",
)
COLUMNS_OF_SEARCH = (
    *("adversary of", "classes", "rows", "CPU (ms a row)", "wall (ms a row)"),
    *("ε-max JSD, mean", "largest Δŷ"),
)


def seconds(work: Callable[[], Any], times: int = 3) -> float:
    """The least wall time of a call."""
    work()
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


def main() -> None:
    torch.manual_seed(0)
    rows = [*_of_bert(), *_of_gpt()]
    print_header(COLUMNS)
    for name, layer, way, slow, fast, gap in rows:
        figures = f"{1e3 * slow:.1f}", f"{1e3 * fast:.3f}", f"{slow / fast:,.0f}", f"{gap:.0e}"
        print_row([name, layer, way, *figures])
    print()
    print_header(COLUMNS_OF_SEARCH)
    for model in (
        BertForSequenceClassification(
            BertConfig(vocab_size=2000, id2label={0: "a", 1: "b", 2: "c"}, num_hidden_layers=2)
        ),
        GPT2LMHeadModel(GPT2Config(n_layer=2)),
    ):
        print_row(_searched(model.eval()))


def _of_bert() -> list[tuple[str, str, str, float, float, float]]:
    model = BertForSequenceClassification(BertConfig(vocab_size=2000)).eval()
    states, changes, slow, expected = _case(model, 11, TOKENS_OF_BERT, Query("classification", 0))
    tail = Tail(model, states, 11)
    calls, first = states.calls[11]
    hidden = calls[first].hidden[0, 0].expand(ALTERNATIVES, -1)
    pooled = torch.cat([changes[11].flatten(1), hidden], dim=1).numpy().astype(np.float64)
    with tempfile.TemporaryDirectory() as folder:
        write_tail_graph(tail, torch.zeros(ROWS, tail.taken), Path(folder) / GRAPH_FILE)
        graph = GraphTail.of(Path(folder) / GRAPH_FILE)
        rows = np.zeros(len(pooled), np.int64)
        fast = seconds(lambda: graph(pooled, rows)) / ALTERNATIVES
        gap = _gap(torch.from_numpy(graph(pooled, rows)[:OF_WHOLE]), expected)
    name = f"BERT-base, T = {TOKENS_OF_BERT}"
    below, of_below, slow_below, expected_below = _case(
        model, 10, TOKENS_OF_BERT, Query("classification", 0)
    )
    return [
        (name, "last layer", "stored graph", slow, fast, gap),
        _by(model, states, changes, "position", name, "last layer", slow, expected),
        *(
            _by(model, below, of_below, way, name, "layer 10", slow_below, expected_below)
            for way in ("last two", "upper")
        ),
    ]


def _of_gpt() -> list[tuple[str, str, str, float, float, float]]:
    model = GPT2LMHeadModel(GPT2Config()).eval()
    found = []
    for layer in range(model.config.n_layer):
        states, changes, slow, expected = _case(
            model, layer, TOKENS_OF_GPT, Query("causal-lm", TOKENS_OF_GPT - 1)
        )
        way = "position" if layer == model.config.n_layer - 1 else "step"
        found.append(
            _by(
                model,
                states,
                changes,
                way,
                f"GPT-2 small, T = {TOKENS_OF_GPT}",
                f"layer {layer}",
                slow,
                expected,
            )
        )
    return found


def _case(
    model: Any, layer: int, tokens: int, query: Query
) -> tuple[Any, dict[int, torch.Tensor], float, torch.Tensor]:
    """States, attended sums of alternatives, seconds of the whole model for each, and its logits for the first of them."""
    check_model(model)
    inputs = {
        "input_ids": torch.randint(5, 1000, (1, tokens)),
        "attention_mask": torch.ones(1, tokens, dtype=torch.long),
    }
    seen = forward(model, inputs)
    own = seen.attentions[layer]
    drawn = torch.distributions.Dirichlet(torch.ones(tokens)).sample(
        (ALTERNATIVES, own.weights.shape[1])
    )
    weights = {layer: drawn[:OF_WHOLE]}
    slow = seconds(lambda: whole(model, inputs, query, weights), times=2) / OF_WHOLE
    sums = {layer: torch.einsum("nhk,hkd->nhd", drawn, own.values[0])}
    return states_of(model, inputs, query, seen), sums, slow, whole(model, inputs, query, weights)


def _by(
    model: Any,
    states: Any,
    changes: Any,
    way: str,
    name: str,
    layer: str,
    slow: float,
    expected: torch.Tensor,
) -> tuple[Any, ...]:
    fast = seconds(lambda: replayed(model, states, changes, way)) / ALTERNATIVES
    return (
        name,
        layer,
        f"replay: {way}",
        slow,
        fast,
        _gap(replayed(model, states, changes, way)[:OF_WHOLE], expected),
    )


def _searched(model: Any) -> list[str]:
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, 0, 0.3 * (32 / weight.shape[-1]) ** 0.5)
    trace = _trace(model)
    experiment = Adversary()
    experiment(trace.take(np.arange(3)))  # compile
    begun, began = time.process_time(), time.perf_counter()
    table = experiment(trace)
    spent, passed = (
        1e3 * seconds / len(trace)
        for seconds in (time.process_time() - begun, time.perf_counter() - began)
    )
    found, moved = table["emax_jsd"].to_numpy().mean(), table["delta_y"].to_numpy().max()
    name, classes = type(model).__name__, len(trace.class_names)
    return [
        name,
        f"{classes:,}",
        f"{len(trace)}",
        f"{spent:.1f}",
        f"{passed:.1f}",
        f"{found:.4f}",
        f"{moved:.6f}",
    ]


def _trace(model: Any) -> Trace:
    """All heads of the last layer, on texts of random tokens."""
    gate, number = check_model(model), TEXTS
    ids = Ragged.from_lengths(
        np.random.default_rng(0).integers(5, 1000, number * TOKENS), np.full(number, TOKENS)
    )
    pieces = [[f"t{token}" for token in row] for row in ids]
    texts = Encoded(
        ids=ids, type_ids=None, special=ids.with_values(np.zeros(len(ids.values), bool)),
        word_id=ids.with_values(np.arange(len(ids.values), dtype=np.int32)), tokens=pieces, words=pieces, instance=np.arange(number),
        label=None, split=["test"] * number, cut=0, pad=1, nothing=1,
    )  # fmt: skip
    outputs = model.config.num_labels if gate.task == "classification" else model.config.vocab_size
    metadata = {
        "model": {"name": gate.model, "fingerprint": Replay(model, gate).fingerprint},
        "gate": gate.to_json(),
    }
    names = [f"c{k}" for k in range(outputs)]
    with tempfile.TemporaryDirectory() as folder:
        shards = collect_shards(
            model,
            texts,
            gate,
            choose_layers(gate),
            Path(folder),
            class_names=names,
            scores=(),
            metadata=metadata,
        )
        write_shards(Path(folder), shards)
        trace = Trace.read(folder, Replay(model, gate))
        if isinstance(trace.tail, GraphTail):
            trace.readout(trace.alpha)  # The graph is loaded while the folder is there.
        return trace


def _gap(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(
        (found.double().softmax(-1) - expected.double().softmax(-1)).abs().sum(-1).max() / 2
    )


if __name__ == "__main__":
    main()
