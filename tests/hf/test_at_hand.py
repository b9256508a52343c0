"""The model of a trace in Python: what an audit takes as `replay`, and that it is the model that the trace was collected from."""

import json
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import attnaudit
from attnaudit.core.errors import InputError
from attnaudit.hf import Replay, check_model, collect
from attnaudit.trace.tails import GraphTail
from tests.hf.classes import tiny
from tests.hf.tokenizing import small, tokenizer

FEW: dict[str, Any] = {"layers": "all", "heads": [0], "scores": ("gradient",)}


@pytest.fixture(scope="module")
def model() -> Any:
    return small("GPT2LMHeadModel")


@pytest.fixture(scope="module")
def trace(model):
    made = collect(model, tokenizer("bytes", ""), ["the baker", "a mill"], **FEW)
    assert isinstance(made.tail, Replay)
    return made


@contextmanager
def trained_further(model):
    weight = next(model.parameters())
    before = weight.detach().clone()
    with torch.no_grad():
        weight += 0.01
        try:
            yield
        finally:
            weight.copy_(before)


def table(trace, replay: Any = None):
    return attnaudit.audit(trace, "permutation", replay=replay)["permutation"].table


@pytest.mark.slow
def test_a_model_its_folder_or_a_replay_is_taken(model, trace, tmp_path):
    trace.write(tmp_path / "trace")
    model.save_pretrained(tmp_path / "model")
    expected = table(trace)
    own = tmp_path / "model"
    for replay in (model, own, str(own), Replay(model, check_model(model))):
        assert table(tmp_path / "trace", replay).equals(expected)
        assert table(trace, replay).equals(expected)


def test_a_model_that_was_trained_further_is_refused(model, trace):
    known = Replay(model, check_model(model))
    table(trace, known)
    with trained_further(model):
        for replay in (None, model, known):
            where = "replay" if replay is known else "the model that the trace holds"
            with pytest.raises(InputError, match=f"audit: {where}: a model with the fingerprint"):
                table(trace, replay)
    table(trace)


def test_a_model_that_computes_otherwise_since_is_refused(model, trace):
    """A hook changes neither weights nor configuration."""
    layer = model.get_output_embeddings()
    with layer.register_forward_hook(lambda module, given, logits: logits * 2.0):
        for replay in (None, model):
            with pytest.raises(InputError, match=r"instance 0: .* 0\.\d+ \(TVD\) .* with a hook"):
                table(trace, replay)
    table(trace)


@pytest.mark.slow
def test_a_trace_with_a_graph_needs_no_model_and_takes_no_other(trace):
    model = small("DistilBertForSequenceClassification")
    stored = collect(model, tokenizer("wordpiece"), ["the baker"], scores=("gradient",))
    assert isinstance(stored.tail, GraphTail)
    with trained_further(model):
        expected = table(stored)  # what the graph says
        with pytest.raises(InputError, match="replay: a model with the fingerprint"):
            table(stored, model)
    assert table(stored, model).equals(expected)


@pytest.mark.slow
@pytest.mark.parametrize("layers", ["last", "all"])
def test_the_same_weights_in_another_configuration_are_another_model(layers, tmp_path):
    model = small()
    made = collect(
        model, tokenizer("wordpiece"), ["the baker"], layers=layers, heads=[0], scores=()
    )
    made.write(tmp_path / "trace")
    model.save_pretrained(tmp_path / "model")
    table(tmp_path / "trace", tmp_path / "model")
    config = tmp_path / "model/config.json"
    same = json.loads(config.read_text()) | {
        "id2label": {"0": "a", "1": "b", "2": "c"},
        "hidden_dropout_prob": 0.7,
    }
    config.write_text(json.dumps(same))
    table(tmp_path / "trace", tmp_path / "model")
    for change in ({"hidden_act": "relu"}, {"num_attention_heads": 2}, {"layer_norm_eps": 1e-3}):
        config.write_text(json.dumps(same | change))
        with pytest.raises(InputError, match="replay: a model with the fingerprint"):
            table(tmp_path / "trace", tmp_path / "model")


def test_figures_do_not_depend_on_the_implementation_of_attention():
    model = small("LlamaForCausalLM")
    trace = collect(model, tokenizer("bytes", ""), ["the baker", "a mill"], **FEW)
    before = table(trace)["median_delta_y"].to_numpy()
    model.set_attn_implementation("eager")
    for replay in (model, None):
        again = table(trace, replay)["median_delta_y"].to_numpy()
        assert again == pytest.approx(before, abs=1e-6)


@pytest.mark.parametrize(("more", "noted"), [(0, False), (1, True)])
def test_a_tokenizer_of_another_model_is_noted(more, noted):
    own = tokenizer("wordpiece")
    model = tiny("BertForSequenceClassification", vocab_size=len(own) + more)
    made = collect(model, own, ["the baker"], layers="all", heads=[0], scores=())
    note = f"another model's: {len(own)} tokens where the model has {len(own) + more}"
    assert any(note in one for one in made.metadata["corpus"]["notes"]) == noted
