"""Traces of transformers: their readout is the model under any attention, whatever the batch, stored as a graph or replayed."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch.nn import functional

from attnaudit.core.errors import InputError, TraceError
from attnaudit.core.ragged import Ragged, concatenate
from attnaudit.experiments.adversary import some_classes
from attnaudit.experiments.permutation import Permutation
from attnaudit.experiments.through_tail import Outputs
from attnaudit.hf.capture import Pass, forward
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.gate import Gate, check_model
from attnaudit.hf.importance import MEASURES
from attnaudit.hf.importance.case import Graph
from attnaudit.hf.network import Replay
from attnaudit.hf.trace import SINK, choose_layers, collect_shards, windows
from attnaudit.stats.measures import tvd
from attnaudit.trace import Trace, write_shards
from attnaudit.trace.tails import GRAPH_FILE
from tests.hf.classes import AUDITED, tiny
from tests.hf.encoding import random_texts
from tests.hf.exact import whole

GRAPHS = ["BertForSequenceClassification", "GPT2LMHeadModel", "ModernBertForSequenceClassification"]
REPLAYED = [
    "BartForSequenceClassification", "BertForSequenceClassification", "Gemma2ForCausalLM", "GptOssForCausalLM", "GPT2LMHeadModel",
    "GPT2ForSequenceClassification", "GraniteForCausalLM", "LlamaForCausalLM", "LlamaForSequenceClassification", "MarianMTModel",
    "MobileBertForSequenceClassification", "T5ForConditionalGeneration", "XLNetForSequenceClassification",
]  # fmt: skip
WITH_CROSS = [name for name in REPLAYED if name.startswith(("Bart", "Marian", "T5"))]
BY_CLASS = [
    "GptOssForCausalLM",
    "GPT2LMHeadModel",
    "LlamaForCausalLM",
    "MarianMTModel",
    "T5ForConditionalGeneration",
]
CHANGED_LATER = {
    "Gemma2ForCausalLM": {"final_logit_softcapping": 0.1},
    "GraniteForCausalLM": {"logits_scaling": 8.0},
}


def collected(
    model: Any, gate: Gate, texts: Encoded, folder: Path, layers: Any = "last", cross: bool = False, **options: Any
) -> Path:  # fmt: skip
    """A folder with the trace."""
    outputs = (
        model.config.num_labels
        if gate.task == "classification"
        else model.config.get_text_config().vocab_size
    )
    metadata = {
        "model": {"name": gate.model, "fingerprint": Replay(model, gate).fingerprint},
        "gate": gate.to_json(),
    }
    names, chosen = [f"c{k}" for k in range(outputs)], choose_layers(gate, layers, cross=cross)
    shards = collect_shards(
        model,
        texts,
        gate,
        chosen,
        folder,
        class_names=names,
        metadata=metadata,
        **{"scores": ("gradient", "loo"), **options},
    )
    write_shards(folder, shards)
    return folder


def naive(model: Any, gate: Gate, texts: Encoded, trace: Trace, alphas: list[Ragged]) -> np.ndarray:
    """The predictions of passes of the whole model for every row, its weights alone replaced by each of the ``alphas`` (A, n, C)."""
    assert gate.task is not None
    found = np.empty((len(alphas), *trace.prediction.shape))
    own: dict[int, Pass] = {}
    places: dict[tuple[int, str, int, int], list[int]] = {}
    for row, stack in enumerate(trace.table["stack"].to_list()):
        instance, layer, query = (
            int(trace.array(name)[row]) for name in ("instance", "layer", "query")
        )
        places.setdefault((instance, stack, layer, query), []).append(row)
    for (instance, stack, layer, query), rows in places.items():
        inputs = texts.batch([instance])
        if instance not in own:
            own[instance] = forward(model, inputs)
        number = next(
            k for k, one in enumerate(gate.layers) if (one.stack, one.layer) == (stack, layer)
        )
        weights = (
            own[instance]
            .attentions[number]
            .weights[:, :, query]
            .repeat(len(alphas) * len(rows), 1, 1)
        )
        each = [(k, row) for k in range(len(alphas)) for row in rows]
        for one, (k, row) in zip(weights, each, strict=True):
            one[int(trace.array("head")[row])] = placed(
                trace, row, alphas[k][row], weights.shape[2]
            )
        together = (
            [weights]
            if gate.batching == "any" and model.config.pad_token_id is not None
            else weights.split(1)
        )
        logits = torch.cat(
            [whole(model, inputs, gate.task, query, {number: part}) for part in together]
        )
        for (k, row), prediction in zip(each, logits.double().softmax(dim=-1).numpy(), strict=True):
            found[k, row] = prediction
    return found


def placed(trace: Trace, row: int, alpha: np.ndarray, size: int) -> torch.Tensor:
    """The weights of a row, without that of a sink, at the keys that its query sees, of ``size``."""
    keys = torch.from_numpy(alpha[: len(alpha) - bool(trace.array("sink")[row])]).float()
    first = int(trace.array("first_key")[row])
    return functional.pad(keys, (first, size - first - len(keys)))


def drawn(alpha: Ragged, seed: int = 0) -> Ragged:
    values = alpha.with_values(np.random.default_rng(seed).random(len(alpha.values)) ** 3)
    return values.with_values(values.values / values.spread(values.sum()))


def differences(model: Any, gate: Gate, texts: Encoded, trace: Trace) -> float:
    """The largest TVD between the trace's readout and the whole model, under three random attentions of every row."""
    alphas = [drawn(trace.alpha, seed) for seed in range(3)]
    read = trace.readout.take(np.tile(np.arange(len(trace)), 3))(concatenate(alphas))
    return float(
        np.abs(read - np.concatenate(naive(model, gate, texts, trace, alphas))).sum(axis=1).max()
        / 2
    )


@pytest.fixture(scope="module")
def with_graph(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Gate, Encoded, Trace]:
    """A model, what was checked of it, four texts and their trace with a stored graph."""
    model = tiny("BertForSequenceClassification")
    gate, texts = check_model(model), random_texts(model)
    return (
        model,
        gate,
        texts,
        Trace.read(collected(model, gate, texts, tmp_path_factory.mktemp("trace"))),
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_a_stored_graph_is_the_model_under_any_attention(name: str, tmp_path: Path) -> None:
    model = tiny(name)
    gate, texts = check_model(model), random_texts(model, 3)
    trace = Trace.read(collected(model, gate, texts, tmp_path))
    assert trace.metadata["tail"] == "onnx"
    assert trace.metadata["schema"] == 2
    assert (
        str(Path(torch.__file__).parents[1]).encode() not in (tmp_path / GRAPH_FILE).read_bytes()
    ), "paths of this machine"
    assert differences(model, gate, texts, trace) <= 1e-5
    alpha, readout = drawn(trace.alpha), trace.readout
    sums = alpha.with_values(alpha.values[:, None] * readout.contribution.values).sum()
    assert np.abs(readout.of_sums(sums, np.arange(len(trace))) - readout(alpha)).max() <= 1e-6


@pytest.mark.parametrize(
    ("name", "cross"),
    [*((name, False) for name in REPLAYED), *((name, True) for name in WITH_CROSS)],
)
def test_a_replayed_trace_is_the_model_under_any_attention(
    name: str, cross: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = tiny(name, **CHANGED_LATER.get(name, {}))
    if hasattr(model, "final_logits_bias"):  # which is zeros before training
        model.final_logits_bias.copy_(torch.linspace(-1, 1, model.final_logits_bias.numel()))
    gate, texts = check_model(model), random_texts(model, 3)
    folder = collected(model, gate, texts, tmp_path, "all", cross, scores=())
    trace = Trace.read(folder, Replay(model, gate))
    assert trace.metadata["tail"] == "replay"
    assert differences(model, gate, texts, trace) <= 1e-5

    if gate.task != "classification":
        monkeypatch.setattr(some_classes, "READ", 60)
        found = by_some_classes(trace)
        assert (found is not None) == (name in BY_CLASS), (
            "models that change logits behind the output layer are read in full"
        )
        assert found is None or found <= 1e-5


@pytest.mark.parametrize("bug", [False, True])
@pytest.mark.parametrize(
    "name", ["BertForSequenceClassification", "LlamaForCausalLM", "LlamaForSequenceClassification"]
)
def test_a_text_that_the_model_treats_otherwise_is_replayed_whole(
    name: str, bug: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that scales its logits by the length of a text is, for longer ones, not what its short replays give."""
    model: Any = tiny(name)
    honest = model.forward

    @wraps(honest)
    def forward(input_ids: torch.Tensor, *more: Any, **options: Any) -> Any:
        output = honest(input_ids, *more, **options)
        if input_ids.shape[1] > 16:
            output.logits = 0.3 * output.logits
        return output

    model.forward = forward
    gate, texts = check_model(model), random_texts(model, 3)
    columns = {
        name: Ragged.from_rows([np.tile(row, 5)[:20] for row in getattr(texts, name)])
        for name in ("ids", "word_id")
    }
    texts = replace(texts, **columns, tokens=[["t"] * 20] * 3)
    trace = Trace.read(
        collected(model, gate, texts, tmp_path, "all", scores=()), Replay(model, gate)
    )
    if bug:
        monkeypatch.setattr(
            "attnaudit.hf.network.way_of_text", lambda model, states, attentions, way: way
        )
    assert (differences(model, gate, texts, trace) <= 1e-5) == (not bug)
    monkeypatch.setattr(some_classes, "READ", 60)
    found = None if gate.task == "classification" else by_some_classes(trace)
    assert found is None or found <= 1e-5


@pytest.mark.parametrize("layers", ["last", "all"])
def test_words_alone_are_shuffled_in_the_model_itself(layers: str, tmp_path: Path) -> None:
    """Behind a graph and by replay, special tokens keep the weights that they have in the model."""
    model = tiny("BertForSequenceClassification")
    gate, texts = check_model(model), random_texts(model, 3)
    texts.word_id.values[texts.ids.offsets[:-1]] = -1
    texts.word_id.values[texts.ids.offsets[1:] - 1] = -1
    trace = Trace.read(collected(model, gate, texts, tmp_path, layers), Replay(model, gate))
    words = ~trace.ragged("special").values.astype(bool)
    of_part, own = trace.readout.of_part(trace.alpha, words)
    other = own.with_values(own.values[::-1].copy())
    alpha = trace.alpha.with_values(trace.alpha.values.copy())
    alpha.values[words] = other.values
    expected = naive(model, gate, texts, trace, [alpha])[0]
    assert tvd(of_part(other), expected).max() <= 1e-5
    assert tvd(trace.prediction, expected).max() > 1e-4
    assert Permutation()(trace)["median_delta_y_words"].null_count() == 0


def by_some_classes(trace: Trace) -> float | None:
    """The largest TVD between what the search reads under random attention and those classes of the whole readout; None if it reads all."""
    some = some_classes.of_some_classes(Outputs.of(trace.readout, trace.alpha))
    if some is None:
        return None
    classes, weight = some_classes.representatives(trace.readout(trace.alpha), some_classes.READ)
    expected = weight * np.take_along_axis(trace.readout(drawn(trace.alpha)), classes, axis=1)
    return float(
        tvd(some.readout(drawn(trace.alpha)), expected / expected.sum(axis=1, keepdims=True)).max()
    )


LONG_ROPE = {
    "original_max_position_embeddings": 16,
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "short_factor": [1.0] * 4,
        "long_factor": [9.0] * 4,
    },
}


@pytest.mark.parametrize(
    ("name", "settings", "lengths"),
    [
        (
            "LlamaForSequenceClassification",
            {"sliding_window": 16},
            (16, 22),
        ),  # the model reads all keys, the cache keeps 15
        ("LlamaForCausalLM", {"sliding_window": 16}, (16, 22)),
        ("Phi3ForCausalLM", LONG_ROPE, (17, 17)),  # with one token less, keys are rotated otherwise
        ("MistralForSequenceClassification", {"sliding_window": 16}, (16, 22)),
    ],
)
def test_keys_that_a_cache_does_not_have_are_computed_again(
    name: str,
    settings: dict[str, Any],
    lengths: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The texts that a model is checked on, of up to 13 tokens, show none of these."""
    model: Any = tiny(name, **settings)
    gate, texts = check_model(model), random_texts(model, 3, lengths=lengths)
    assert gate.layers[0].way == "step"
    trace = Trace.read(
        collected(model, gate, texts, tmp_path, "all", scores=()), Replay(model, gate)
    )
    assert differences(model, gate, texts, trace) <= 1e-5
    if gate.task != "classification":
        monkeypatch.setattr(some_classes, "READ", 60)
        found = by_some_classes(trace)
        assert found is not None
        assert found <= 1e-5


WINDOWS: list[tuple[str, dict[str, Any]]] = [
    *(
        (name, {"sliding_window": 4})
        for name in ("MistralForCausalLM", "MistralForSequenceClassification", "GptOssForCausalLM")
    ),
    ("Gemma3ForCausalLM", {"sliding_window": 4}),
    ("ModernBertForSequenceClassification", {"local_attention": 8}),
]


@pytest.mark.parametrize(("implementation", "layers"), [("sdpa", "last"), ("eager", "all")])
@pytest.mark.parametrize(("name", "settings"), WINDOWS)
def test_a_row_has_the_tokens_that_a_window_leaves(
    name: str, settings: dict[str, Any], implementation: str, layers: str, tmp_path: Path
) -> None:
    """What a mask hides from the query can have no weight under any attention of the model."""
    model: Any = tiny(name, **settings)
    model.set_attn_implementation(implementation if name != "GptOssForCausalLM" else "eager")
    gate, texts = check_model(model), random_texts(model, 3, lengths=(10, 14))
    chosen = choose_layers(gate, layers)
    trace = Trace.read(collected(model, gate, texts, tmp_path, layers), Replay(model, gate))
    windowed = (
        ["sliding" in kind for kind in model.config.layer_types]
        if hasattr(model.config, "layer_types")
        else [True] * len(gate.layers)
    )
    assert any(windowed)
    for row in range(len(trace)):
        instance, layer, head = (
            int(trace.array(name)[row]) for name in ("instance", "layer", "head")
        )
        tokens, query = texts.tokens[instance], int(trace.array("query")[row])
        reach = (
            settings.get("sliding_window", settings.get("local_attention", 0) // 2 + 1)
            if windowed[layer]
            else len(tokens)
        )
        seen = [token for place, token in enumerate(tokens) if abs(place - query) < reach]
        assert trace.tokens(row)[: len(seen)] == seen
        assert len(trace.tokens(row)) == len(seen) + bool(trace.array("sink")[row])
        own = forward(model, texts.batch([instance])).attentions[layer].weights[0, head, query]
        assert torch.equal(placed(trace, row, trace.alpha[row], len(tokens)) > 0, own > 0)
    assert differences(model, gate, texts, trace) <= 1e-5
    noted = "".join(windows(model, gate, chosen, texts))
    assert ("sees 4 of 1" in noted or "sees 5 of 1" in noted) == any(
        windowed[one.layer.layer] for one in chosen
    )


@pytest.mark.parametrize(
    ("name", "times"),
    [("MobileBertForSequenceClassification", 3.0), ("T5ForConditionalGeneration", 30.0)],
)
def test_scores_that_differ_as_much_as_by_a_mask_hide_nothing(
    name: str, times: float, tmp_path: Path
) -> None:
    """Those of these classes are not bounded, and unlike those of a mask are not alike in all heads."""
    model: Any = tiny(name)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if path.endswith(("query.weight", "key.weight", ".q.weight", ".k.weight")):
                parameter.mul_(times)
    gate, texts = check_model(model), random_texts(model, 3, lengths=(10, 14))
    trace = Trace.read(
        collected(model, gate, texts, tmp_path, "all", scores=()), Replay(model, gate)
    )
    lengths = texts.read.ids.lengths
    assert trace.alpha.lengths.tolist() == lengths[trace.instance].tolist()
    assert windows(model, gate, choose_layers(gate, "all"), texts) == []


def test_a_query_that_sees_tokens_with_others_between_them_is_refused(tmp_path: Path) -> None:
    model: Any = tiny("MistralForCausalLM", sliding_window=4)
    gate, texts = check_model(model), random_texts(model, 2, lengths=(10, 14))
    seen = torch.arange(14) % 3 != 1
    honest = model.model.layers[0].self_attn.forward

    def strided(*arguments: Any, attention_mask: torch.Tensor, **options: Any) -> Any:
        hidden = ~seen[: attention_mask.shape[-1]]
        mask = attention_mask.masked_fill(
            hidden,
            False if attention_mask.dtype == torch.bool else torch.finfo(attention_mask.dtype).min,
        )
        return honest(*arguments, attention_mask=mask, **options)

    model.model.layers[0].self_attn.forward = strided
    with pytest.raises(
        InputError,
        match=r"in layer 0 the query sees \d tokens with others between them .*; expected one stretch of tokens",
    ):
        collected(model, gate, texts, tmp_path, "all", scores=())


@pytest.mark.parametrize(
    "name", ["LlamaForSequenceClassification", "GPT2ForSequenceClassification"]
)
def test_padding_tokens_that_end_a_text_are_not_read(name: str, tmp_path: Path) -> None:
    """As where a tokenizer appends [EOS] and pads with it: these classifiers read the last token that is none."""
    model: Any = tiny(name)
    gate, texts = check_model(model), random_texts(model, 4)
    shorter = replace(texts.up_to(texts.ids.lengths - np.array([0, 1, 2, 0])), label=texts.label)
    for row, ended in ((1, 1), (2, 2)):
        texts.ids.values[texts.ids.offsets[row + 1] - ended : texts.ids.offsets[row + 1]] = (
            model.config.pad_token_id
        )
    trace = Trace.read(
        collected(model, gate, texts, tmp_path, "all", scores=()), Replay(model, gate)
    )
    assert trace.alpha.lengths.max() == shorter.ids.lengths.max()
    own = [
        model(**texts.batch([row])).logits.softmax(dim=-1)[0].tolist()
        for row in trace.instance.tolist()
    ]
    np.testing.assert_allclose(trace.prediction, own, atol=1e-6)
    assert differences(model, gate, shorter, trace) <= 1e-5


@pytest.mark.parametrize(
    "name", ["LlamaForSequenceClassification", "GPT2ForSequenceClassification"]
)
@pytest.mark.parametrize("layers", ["last", "all"])
def test_a_classifier_without_a_padding_token_reads_the_last_token_of_each_text(
    name: str, layers: str, tmp_path: Path
) -> None:
    """As these classes are by default; they refuse to read two texts at once."""
    model: Any = tiny(name, pad_token_id=None)
    gate, texts = check_model(model), random_texts(model, 3, lengths=(4, 6))
    assert gate.batching == "of one length"
    assert len(set(texts.ids.lengths)) == 2
    trace = Trace.read(
        collected(model, gate, texts, tmp_path, layers, scores=tuple(MEASURES)), Replay(model, gate)
    )
    assert model.config.pad_token_id is None
    own = [
        model(**texts.batch([row])).logits.softmax(dim=-1)[0].tolist()
        for row in trace.instance.tolist()
    ]
    np.testing.assert_allclose(trace.prediction, own, atol=1e-6)
    assert differences(model, gate, texts, trace) <= 1e-5


def test_texts_that_differ_in_their_types_alone_are_replayed_apart(tmp_path: Path) -> None:
    model = tiny("BertForSequenceClassification", type_vocab_size=2)
    torch.nn.init.normal_(model.get_parameter("bert.embeddings.token_type_embeddings.weight"))
    gate, texts = check_model(model), random_texts(model, 1).take(np.array([0, 0]))
    types = texts.ids.with_values(np.repeat([0, 1], texts.ids.lengths))
    texts = replace(texts, type_ids=types, instance=np.arange(2), split=["test"] * 2)
    trace = Trace.read(
        collected(model, gate, texts, tmp_path, "all", scores=()), Replay(model, gate)
    )
    assert trace.metadata["tail"] == "replay"
    assert differences(model, gate, texts, trace) <= 1e-5


def test_a_trace_does_not_depend_on_batches_or_shards(
    with_graph: tuple[Any, Gate, Encoded, Trace], tmp_path: Path
) -> None:
    model, gate, texts, together = with_graph
    alone = Trace.read(collected(model, gate, texts, tmp_path, budget=1, shard_texts=2))
    for name in ("alpha", "readout", "gradient", "loo", "alpha_gradient"):
        assert np.abs(together.ragged(name).values - alone.ragged(name).values).max() <= 1e-5
    assert np.abs(together.prediction - alone.prediction).max() <= 1e-6
    assert together.table["tokens"].equals(alone.table["tokens"])
    assert (
        len({id(shard.tail) for shard in list(Trace.shards(tmp_path))}) == 1
    )  # a graph is loaded once for all shards


@pytest.mark.parametrize("name", ["BertForSequenceClassification", "MarianMTModel"])
def test_one_shard_is_in_memory_at_a_time_and_one_batch_in_a_pass(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny(name)
    gate, texts = check_model(model), random_texts(model, 6)
    shards: list[Any] = []  # weak references
    alive: list[tuple[int, int]] = []
    positions: list[int] = []

    def run(model: Any, inputs: Any, *more: Any, **options: Any) -> Any:
        sizes = [ids.numel() for name, ids in inputs.items() if name.endswith("input_ids")]
        positions.append(sum(sizes))
        return forward(model, inputs, *more, **options)

    monkeypatch.setattr("attnaudit.hf.importance.case.forward", run)
    monkeypatch.setattr("attnaudit.hf.resume.forward", run)
    outputs = 3 if name.startswith("Bert") else 99
    made = collect_shards(
        model,
        texts,
        gate,
        choose_layers(gate),
        tmp_path,
        class_names=[str(k) for k in range(outputs)],
        scores=("gradient", "loo"),
        budget=60,
        shard_texts=2,
    )
    gc.collect()
    gc.freeze()  # what lives by now is not looked at again
    try:
        for shard in made:
            shards.append(weakref.ref(shard))
            gc.collect()
            graphs = [one for one in gc.get_objects() if type(one) is Graph]
            alive.append((sum(reference() is not None for reference in shards), len(graphs)))
            del graphs
    finally:
        gc.unfreeze()
    assert len(alive) == 3
    assert max(count for count, _ in alive) <= 2
    assert max(count for _, count in alive) == 0
    assert max(positions) <= 60


def test_predictions_through_a_graph_do_not_depend_on_the_other_rows(
    with_graph: tuple[Any, Gate, Encoded, Trace],
) -> None:
    *_, trace = with_graph
    alpha, order = drawn(trace.alpha), np.random.default_rng(0).permutation(len(trace))
    assert np.array_equal(trace.readout.take(order)(alpha.take(order)), trace.readout(alpha)[order])
    assert np.array_equal(
        trace.readout.take(order[:1])(alpha.take(order[:1])), trace.readout(alpha)[order[:1]]
    )


def test_slopes_are_those_of_the_probability_by_each_weight(
    with_graph: tuple[Any, Gate, Encoded, Trace],
) -> None:
    *_, trace = with_graph
    step, decided = 1e-2, trace.prediction.argmax(axis=1)
    slopes = trace.ragged("alpha_gradient")
    for position in range(3):
        moved = [trace.alpha.with_values(trace.alpha.values.copy()) for _ in range(2)]
        for one, sign in zip(moved, (1, -1), strict=True):
            one.values[one.offsets[:-1] + position] += sign * step
        up, down = (trace.readout(one)[np.arange(len(trace)), decided] for one in moved)
        found = slopes.values[slopes.offsets[:-1] + position]
        assert np.abs((up - down) / (2 * step) - found).max() <= 2e-3 * max(
            1.0, np.abs(found).max()
        )


def test_a_sink_is_a_token_that_takes_attention_and_gives_nothing(tmp_path: Path) -> None:
    model = tiny("GptOssForCausalLM")
    gate = check_model(model)
    trace = Trace.read(
        collected(model, gate, random_texts(model, 2), tmp_path, "all"), Replay(model, gate)
    )
    assert all(trace.tokens(row)[-1] == SINK for row in range(len(trace)))
    assert all(trace.cell("special", row)[-1] for row in range(len(trace)))
    assert not trace.ragged("readout").values[trace.alpha.offsets[1:] - 1].any()
    assert trace.table["sink"].to_list() == [True] * len(trace)


def test_a_replayed_trace_needs_its_own_model(tmp_path: Path) -> None:
    model = tiny("BertForSequenceClassification")
    gate = check_model(model)
    folder = collected(model, gate, random_texts(model, 2), tmp_path, "all", scores=())
    with pytest.raises(
        TraceError,
        match=r"tail 'replay' and no model; expected its model.*attnaudit audit TRACE --replay MODEL_DIR",
    ):
        Trace.read(folder)
    with torch.no_grad():
        model.get_parameter("classifier.bias").add_(1.0)
    with pytest.raises(
        TraceError,
        match=r"a model with the fingerprint .* expected the model .* that the trace was collected from",
    ):
        Trace.read(folder, Replay(model, gate))


@pytest.mark.parametrize(
    ("layers", "heads", "message"),
    [
        ([2], "all", "layer 2: no such layer of encoder attention; expected 0 to 1, last or all"),
        ("last", [4], "head 4: layer 1 has 4 heads; expected 0 to 3, or all"),
        (1, "all", r"collect: layers: 1; expected last, all or a list of numbers, as \[0, 3\]"),
        ("first", "all", "collect: layers: 'first'; expected last, all or a list of numbers"),
        ([], "all", r"collect: layers: \[\]; expected last, all or a list of numbers"),
        ("last", [], r"collect: heads: \[\]; expected all or a list of numbers"),
        ("last", "some", "collect: heads: 'some'; expected all or a list of numbers"),
    ],
)
def test_layers_and_heads_that_a_model_lacks_are_refused(
    layers: Any, heads: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        choose_layers(check_model(tiny("BertForSequenceClassification")), layers, heads)


def test_layers_and_heads_may_be_arrays() -> None:
    layers, heads = np.array([1]), np.array([0, 2])
    (chosen,) = choose_layers(
        check_model(tiny("BertForSequenceClassification")), cast("Any", layers), cast("Any", heads)
    )
    assert (chosen.layer.layer, chosen.heads) == (1, (0, 2))


def test_cross_attention_needs_an_encoder_and_a_decoder() -> None:
    with pytest.raises(InputError, match="no cross-attention"):
        choose_layers(check_model(tiny("LlamaForCausalLM")), cross=True)


@pytest.mark.parametrize(
    ("kind", "layers"),
    [
        ("no attention", "all"),
        ("attention that nothing reads", "all"),
        ("an error", "all"),
        ("an error", "last"),
    ],
)
def test_a_model_that_is_another_for_longer_texts_is_refused_with_one_line(
    kind: str, layers: str, tmp_path: Path
) -> None:
    """The texts of the checks are shorter: they say nothing of it."""
    model = tiny("BertForSequenceClassification")
    attention: Any = model.get_submodule("bert.encoder.layer.1.attention.self")
    honest = attention.forward

    def lies(hidden: torch.Tensor, *more: Any, **options: Any) -> Any:
        if hidden.shape[1] <= 16:
            return honest(hidden, *more, **options)
        if kind == "an error":
            raise RuntimeError("sizes do not match\nat all")
        return (
            hidden,
            *(
                honest(hidden, *more, **options)[1:]
                if kind == "attention that nothing reads"
                else (None,)
            ),
        )

    attention.forward = lies
    gate, texts = check_model(model), random_texts(model, 3)
    long = texts.take(np.array([0]))
    columns = {
        name: Ragged.from_rows([np.tile(getattr(long, name)[0], 5)[:20]])
        for name in ("ids", "word_id")
    }
    long = replace(long, **columns, tokens=[["t"] * 20])
    collected(model, gate, texts, tmp_path / "short", "all")
    with pytest.raises(
        InputError, match=r"it fails on texts of up to 20 tokens .*; expected a model that treats"
    ) as error:
        collected(model, gate, long, tmp_path / "long", layers)
    assert "\n" not in str(error.value)


def test_the_classes_here_are_audited() -> None:
    assert {*GRAPHS, *REPLAYED} <= AUDITED.keys()
