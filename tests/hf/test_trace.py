"""Traces of transformers: what they hold is the model's own, and their tails are the model."""

import gc
import weakref
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged, concatenate
from attnaudit.experiments.adversary import some_classes
from attnaudit.experiments.permutation import Permutation
from attnaudit.experiments.through_tail import Outputs
from attnaudit.hf.choose import choose_layers
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.gate import Gate, check_model
from attnaudit.hf.importance import defined_measures
from attnaudit.hf.importance.case import Graph
from attnaudit.hf.model import logits_at_query
from attnaudit.hf.network import Replay
from attnaudit.hf.trace import SINK, collect_shards
from attnaudit.stats.measures import tvd
from attnaudit.torch.capture import forward
from attnaudit.trace import Trace, write_shards
from attnaudit.trace.tails import GRAPH_FILE
from tests.hf.classes import some_slow, tiny
from tests.hf.encoding import random_texts
from tests.traces import gaps, random_attention

GRAPHS = ["BertForSequenceClassification", "GPT2LMHeadModel", "ModernBertForSequenceClassification"]
REPLAYED = [
    "BertForSequenceClassification",
    "Gemma2ForCausalLM",
    "GptOssForCausalLM",
    "GPT2LMHeadModel",
    "GPT2ForSequenceClassification",
    "GraniteForCausalLM",
    "LlamaForCausalLM",
    "LlamaForSequenceClassification",
    "MarianMTModel",
    "MobileBertForSequenceClassification",
    "T5ForConditionalGeneration",
    "XLNetForSequenceClassification",
]
FEW = ("BertForSequenceClassification", "LlamaForCausalLM", "MarianMTModel")
WITH_CROSS = ("MarianMTModel", "T5ForConditionalGeneration")
# Models that change logits behind the output layer are read in full.
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


def shards_of(model, gate, texts, folder, layers="last", cross=False, **options):
    config = model.config
    classes = config.num_labels if gate.task == "classification" else None
    metadata = {
        "model": {"name": gate.model, "fingerprint": Replay(model, gate).fingerprint},
        "gate": gate.to_json(),
    }
    return collect_shards(
        model,
        texts,
        gate,
        choose_layers(gate, layers, cross=cross),
        folder,
        class_names=[f"c{k}" for k in range(classes or config.get_text_config().vocab_size)],
        metadata=metadata,
        **{"scores": ("gradient", "loo"), **options},
    )


def collected(model, gate, texts, folder, *how, **options):
    """Write the trace into a folder."""
    write_shards(folder, shards_of(model, gate, texts, folder, *how, **options))
    return folder


@dataclass(frozen=True)
class Traced:
    """A model, what was checked of it, texts and their trace."""

    model: Any
    gate: Gate
    texts: Encoded
    trace: Trace

    def passed(self, rows, alpha):
        """Predict by a pass of the whole model with the weights of rows of one text and query."""
        assert self.gate.task is not None
        table = self.trace.table[rows]
        places = list(table.select("stack", "layer", "head", "query").rows())
        layers = [(one.stack, one.layer) for one in self.gate.layers]

        def exchange(found):
            weights = found.weights.clone()
            for row, (stack, layer, head, query) in zip(rows, places, strict=True):
                if (stack, layer) == layers[found.index]:
                    keys = placed(self.trace, row, alpha[row], weights.shape[3])
                    weights[0, head, query] = keys
            return weights

        seen = forward(self.model, self.texts.batch([table["instance"][0]]), exchange)
        return logits_at_query(seen.output, self.gate.task)[0].double().softmax(dim=-1).numpy()

    def naive(self, alpha):
        """Predictions of passes in each of which one row has other weights."""
        return np.stack([self.passed([row], alpha) for row in range(len(self.trace))])

    def difference(self):
        """Largest TVD between the readout and the whole model under random attention."""
        alphas = [random_attention(self.trace.alpha, seed) for seed in range(2)]
        rows = np.tile(np.arange(len(self.trace)), len(alphas))
        read = self.trace.readout.take(rows)(concatenate(alphas))
        return float(tvd(read, np.concatenate([*map(self.naive, alphas)])).max())

    def difference_of_some_classes(self, monkeypatch):
        """Largest TVD between what a search reads and the whole readout; None if it reads all."""
        monkeypatch.setattr(some_classes, "READ", 60)
        trace, alpha = self.trace, random_attention(self.trace.alpha)
        some = some_classes.of_some_classes(Outputs.of(trace.readout, trace.alpha))
        if some is None:
            return None
        classes, weight = some_classes.representatives(trace.readout(trace.alpha), 60)
        expected = weight * np.take_along_axis(trace.readout(alpha), classes, axis=1)
        return float(tvd(some.readout(alpha), expected / expected.sum(axis=1, keepdims=True)).max())


def traced(model, folder, layers="all", texts=None, **options):
    gate = check_model(model)
    texts = random_texts(model, 3) if texts is None else texts
    collected(model, gate, texts, folder, layers, **{"scores": (), **options})
    return Traced(model, gate, texts, Trace.read(folder, Replay(model, gate)))


def placed(trace, row, alpha, size):
    """The weights of a row at the keys that its query sees, without that of a sink."""
    keys = torch.from_numpy(alpha[: len(alpha) - bool(trace.array("sink")[row])]).float()
    first = int(trace.array("first_key")[row])
    return functional.pad(keys, (first, size - first - len(keys)))


def lengthened(texts):
    """Texts of 20 tokens, more than those of the checks have."""
    columns = {
        name: Ragged.from_rows([np.tile(row, 5)[:20] for row in getattr(texts, name)])
        for name in ("ids", "word_id")
    }
    return replace(texts, **columns, tokens=[["t"] * 20] * len(texts))


def own_predictions(case):
    texts = [case.texts.batch([row]) for row in case.trace.instance.tolist()]
    return [case.model(**one).logits.softmax(dim=-1)[0].tolist() for one in texts]


@pytest.fixture(scope="module")
def with_graph(tmp_path_factory):
    model = tiny("BertForSequenceClassification")
    folder, texts = tmp_path_factory.mktemp("trace"), random_texts(model)
    return traced(model, folder, "last", texts, scores=("gradient", "loo"))


@pytest.mark.parametrize("name", some_slow(GRAPHS, FEW))
def test_a_stored_graph_is_the_model_under_any_attention(name, tmp_path):
    case = traced(tiny(name), tmp_path, "last")
    trace, readout = Trace.read(tmp_path), case.trace.readout
    assert (trace.metadata["tail"], trace.metadata["schema"]) == ("onnx", 2)
    place = str(Path(torch.__file__).parents[1]).encode()
    assert place not in (tmp_path / GRAPH_FILE).read_bytes(), "paths of this machine"
    assert case.difference() <= 1e-5
    alpha = random_attention(trace.alpha)
    sums = alpha.with_values(alpha.values[:, None] * readout.contribution.values).sum()
    assert np.abs(readout.of_sums(sums, np.arange(len(trace))) - readout(alpha)).max() <= 1e-6


@pytest.mark.parametrize("name", some_slow(REPLAYED, FEW))
def test_a_replayed_trace_is_the_model_under_any_attention(name, tmp_path, monkeypatch):
    model = tiny(name, **CHANGED_LATER.get(name, {}))
    if hasattr(model, "final_logits_bias"):  # which is zeros before training
        model.final_logits_bias.copy_(torch.linspace(-1, 1, model.final_logits_bias.numel()))
    for cross in (False, True)[: 1 + (name in WITH_CROSS)]:
        case = traced(model, tmp_path / str(cross), cross=cross)
        assert case.trace.metadata["tail"] == "replay"
        assert case.difference() <= 1e-5
        if case.gate.task != "classification":
            found = case.difference_of_some_classes(monkeypatch)
            assert (found is not None) == (name in BY_CLASS)
            assert found is None or found <= 1e-5


@pytest.mark.parametrize("bug", [False, True])
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "LlamaForSequenceClassification"])
def test_a_text_that_the_model_treats_otherwise_is_replayed_whole(name, bug, tmp_path, monkeypatch):
    """A model that scales its logits by the length of a text is not what short replays give."""
    model = tiny(name)
    honest = model.forward

    @wraps(honest)
    def scaled(input_ids, *more, **options):
        output = honest(input_ids, *more, **options)
        if input_ids.shape[1] > 16:
            output.logits = 0.3 * output.logits
        return output

    model.forward = scaled
    case = traced(model, tmp_path, texts=lengthened(random_texts(model, 3)))
    if not bug:
        assert case.difference() <= 1e-5
        return
    monkeypatch.setattr("attnaudit.hf.network.way_of_text", lambda *given: given[-1])
    with pytest.raises(ValueError, match="keys and values are not kept"):
        case.difference()


@pytest.mark.parametrize("layers", ["last", "all"])
def test_only_words_are_shuffled_in_the_model_itself(layers, tmp_path):
    """Special tokens keep the weights that they have in the model."""
    model = tiny("BertForSequenceClassification")
    texts = random_texts(model, 3)
    texts.word_id.values[texts.ids.offsets[:-1]] = -1
    texts.word_id.values[texts.ids.offsets[1:] - 1] = -1
    case = traced(model, tmp_path, layers, texts)
    trace = case.trace
    words = ~trace.ragged("special").values.astype(bool)
    of_part, own = trace.readout.of_part(trace.alpha, words)
    other = own.with_values(own.values[::-1].copy())
    alpha = trace.alpha.with_values(trace.alpha.values.copy())
    alpha.values[words] = other.values
    expected = case.naive(alpha)
    assert tvd(of_part(other), expected).max() <= 1e-5
    assert tvd(trace.prediction, expected).max() > 1e-4
    assert Permutation()(trace)["median_delta_y_words"].null_count() == 0


ROPE = {"rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [9.0] * 4}
LONG_ROPE = {
    "original_max_position_embeddings": 16,
    "rope_parameters": {"rope_type": "longrope", **ROPE},
}


@pytest.mark.parametrize(
    ("name", "settings", "lengths"),
    [
        # The model reads all keys, the cache keeps 15.
        ("LlamaForCausalLM", {"sliding_window": 16}, (16, 22)),
        # With one token less, keys are rotated otherwise.
        ("Phi3ForCausalLM", LONG_ROPE, (17, 17)),
        pytest.param(
            *("MistralForSequenceClassification", {"sliding_window": 16}, (16, 22)),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_keys_that_a_cache_does_not_have_are_computed_again(name, settings, lengths, tmp_path):
    """The texts that a model is checked on, of up to 13 tokens, show none of these."""
    model = tiny(name, **settings)
    case = traced(model, tmp_path, texts=random_texts(model, 3, lengths=lengths))
    assert case.gate.layers[0].way == "step"
    assert case.difference() <= 1e-5


WINDOWS = [
    ("MistralForCausalLM", {"sliding_window": 4}, "sdpa"),
    ("ModernBertForSequenceClassification", {"local_attention": 8}, "sdpa"),
    ("GptOssForCausalLM", {"sliding_window": 4}, "eager"),
    pytest.param(
        *("MistralForSequenceClassification", {"sliding_window": 4}, "eager"),
        marks=pytest.mark.slow,
    ),
    pytest.param("Gemma3ForCausalLM", {"sliding_window": 4}, "eager", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "settings", "implementation"), WINDOWS)
def test_a_row_has_the_tokens_that_a_window_leaves(name, settings, implementation, tmp_path):
    """A token that a mask hides from the query can have no weight under any attention."""
    model = tiny(name, **settings)
    model.set_attn_implementation(implementation)
    case = traced(model, tmp_path, texts=random_texts(model, 3, lengths=(10, 14)))
    trace, texts = case.trace, case.texts
    kinds = getattr(model.config, "layer_types", ["sliding"] * len(case.gate.layers))
    width = settings.get("sliding_window", settings.get("local_attention", 0) // 2 + 1)
    rows = trace.table.select("instance", "layer", "head", "query", "sink").rows()
    for row, (instance, layer, head, query, sink) in enumerate(rows):
        tokens = texts.tokens[instance]
        reach = width if "sliding" in kinds[layer] else len(tokens)
        seen = [token for place, token in enumerate(tokens) if abs(place - query) < reach]
        assert trace.tokens(row) == seen + [SINK] * sink
        # A sink takes attention and gives nothing.
        assert not sink or not trace.ragged("readout")[row][-1].any()
        assert not sink or trace.cell("special", row)[-1]
        own = forward(model, texts.batch([instance])).attentions[layer].weights[0, head, query]
        assert torch.equal(placed(trace, row, trace.alpha[row], len(tokens)) > 0, own > 0)
    assert case.difference() <= 1e-5


@pytest.mark.parametrize(
    ("name", "times"),
    [("MobileBertForSequenceClassification", 3.0), ("T5ForConditionalGeneration", 30.0)],
)
def test_scores_that_differ_as_much_as_by_a_mask_hide_nothing(name, times, tmp_path):
    """Those of these classes have no bound; unlike a mask's, they are not alike in all heads."""
    model = tiny(name)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if path.endswith(("query.weight", "key.weight", ".q.weight", ".k.weight")):
                parameter.mul_(times)
    case = traced(model, tmp_path, texts=random_texts(model, 3, lengths=(10, 14)))
    lengths = case.texts.read.ids.lengths
    assert case.trace.alpha.lengths.tolist() == lengths[case.trace.instance].tolist()


def test_a_query_that_sees_tokens_with_others_between_them_is_refused(tmp_path):
    model = tiny("MistralForCausalLM", sliding_window=4)
    gate, texts = check_model(model), random_texts(model, 2, lengths=(10, 14))
    seen = torch.arange(14) % 3 != 1
    honest = model.model.layers[0].self_attn.forward

    def strided(*arguments, attention_mask, **options):
        lowest = torch.finfo(torch.float32).min
        fill = False if attention_mask.dtype == torch.bool else lowest
        mask = attention_mask.masked_fill(~seen[: attention_mask.shape[-1]], fill)
        return honest(*arguments, attention_mask=mask, **options)

    model.model.layers[0].self_attn.forward = strided
    with pytest.raises(InputError, match=r"in layer 0 the query sees .* with others between them"):
        collected(model, gate, texts, tmp_path, "all", scores=())


LAST = ["LlamaForSequenceClassification", "GPT2ForSequenceClassification"]


@pytest.mark.slow
@pytest.mark.parametrize("name", LAST)
def test_padding_tokens_that_end_a_text_are_not_read(name, tmp_path):
    """A tokenizer may append [EOS] and pad with it: classifiers read the last token before."""
    model = tiny(name)
    texts = random_texts(model, 4)
    shorter = replace(texts.up_to(texts.ids.lengths - np.array([0, 1, 2, 0])), label=texts.label)
    for row, ended in ((1, 1), (2, 2)):
        stop = texts.ids.offsets[row + 1]
        texts.ids.values[stop - ended : stop] = model.config.pad_token_id
    case = traced(model, tmp_path, texts=texts)
    np.testing.assert_allclose(case.trace.prediction, own_predictions(case), atol=1e-6)
    assert case.trace.alpha.lengths.max() == shorter.ids.lengths.max()
    assert replace(case, texts=shorter).difference() <= 1e-5


@pytest.mark.parametrize("name", LAST)
def test_a_classifier_without_a_padding_token_reads_the_last_token_of_each_text(name, tmp_path):
    """As these classes are by default; they refuse to read two texts at once."""
    model = tiny(name, pad_token_id=None)
    texts = random_texts(model, 3, lengths=(4, 6))
    assert len(set(texts.ids.lengths)) == 2
    case = traced(model, tmp_path, texts=texts, scores=defined_measures(model, "all"))
    assert case.gate.batching == "of one length"
    assert model.config.pad_token_id is None
    np.testing.assert_allclose(case.trace.prediction, own_predictions(case), atol=1e-6)
    assert case.difference() <= 1e-5


def test_texts_that_only_differ_in_their_types_are_replayed_apart(tmp_path):
    model = tiny("BertForSequenceClassification", type_vocab_size=2)
    torch.nn.init.normal_(model.get_parameter("bert.embeddings.token_type_embeddings.weight"))
    texts = random_texts(model, 1).take(np.array([0, 0]))
    types = texts.ids.with_values(np.repeat([0, 1], texts.ids.lengths))
    texts = replace(texts, type_ids=types, instance=np.arange(2), split=["test"] * 2)
    assert traced(model, tmp_path, texts=texts).difference() <= 1e-5


@pytest.mark.slow
def test_a_trace_does_not_depend_on_batches_or_shards(with_graph, tmp_path):
    together, options = with_graph.trace, {"budget": 1, "shard_texts": 2}
    case = traced(
        with_graph.model, tmp_path, "last", with_graph.texts, scores=("gradient", "loo"), **options
    )
    names = ("alpha", "readout", "gradient", "loo", "alpha_gradient")
    assert max(gaps(together, case.trace, names)) <= 1e-5
    assert np.abs(together.prediction - case.trace.prediction).max() <= 1e-6
    assert together.table["tokens"].equals(case.trace.table["tokens"])
    # A graph is loaded once for all shards.
    assert len({id(shard.tail) for shard in list(Trace.shards(tmp_path))}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BertForSequenceClassification", "MarianMTModel"])
def test_one_shard_is_in_memory_at_a_time(name, tmp_path):
    model = tiny(name)
    shards = []  # weak references
    alive = []
    gate = check_model(model)
    made = shards_of(model, gate, random_texts(model, 6), tmp_path, shard_texts=2)
    gc.collect()
    gc.freeze()  # what lives by now is not looked at again
    try:
        for shard in made:
            shards.append(weakref.ref(shard))
            gc.collect()
            graphs = sum(type(one) is Graph for one in gc.get_objects())
            alive.append((sum(reference() is not None for reference in shards), graphs))
    finally:
        gc.unfreeze()
    assert len(alive) == 3
    assert max(count for count, _ in alive) <= 2
    assert max(count for _, count in alive) == 0


@pytest.mark.parametrize(
    ("kind", "layers"), [("no attention", "all"), ("an error", "all"), ("an error", "last")]
)
def test_a_model_that_is_another_for_longer_texts_is_refused_with_one_line(kind, layers, tmp_path):
    """The texts of the checks are shorter: they say nothing of it."""
    model = tiny("BertForSequenceClassification")
    attention = model.get_submodule("bert.encoder.layer.1.attention.self")
    honest = attention.forward

    def lies(hidden, *more, **options):
        if hidden.shape[1] <= 16:
            return honest(hidden, *more, **options)
        if kind == "an error":
            raise RuntimeError("sizes do not match\nat all")
        return hidden, None

    attention.forward = lies
    gate, texts = check_model(model), random_texts(model, 1)
    collected(model, gate, texts, tmp_path / "short", "all")
    with pytest.raises(InputError, match="it fails on texts of up to 20 tokens"):
        collected(model, gate, lengthened(texts), tmp_path / "long", layers)
