"""Replay: the ways that layers allow, and where a prediction is read.

Exactness is tested with the gate of every class.
"""

import numpy as np
import pytest
import torch

from attnaudit.core.errors import InputError
from attnaudit.hf.choose import choose_layers
from attnaudit.hf.gate import check_model
from attnaudit.hf.model import tvd
from attnaudit.hf.record import record, repeated, resumed
from attnaudit.hf.replay import queries_read, replayed, states_of
from attnaudit.hf.trace import collect
from attnaudit.torch.capture import forward
from tests.hf.classes import tiny
from tests.hf.encoding import random_texts
from tests.hf.exact import dirichlet, whole
from tests.hf.tokenizing import small, tokenizer

STEPS = ["", "", "step", "step", "step", "step"]
WAYS = {
    "BertForSequenceClassification": ["query", "position"],
    "ConvBertForSequenceClassification": ["upper", "upper"],  # convolutions read neighbours
    "GPT2ForSequenceClassification": ["step", "position"],
    "GPT2LMHeadModel": ["step", "position"],
    "LlamaForCausalLM": ["step", "position"],
    "XLNetForSequenceClassification": ["upper", "upper"],  # it keeps no keys and values
    "BloomForCausalLM": ["step", "position"],  # an attention of its own
    "T5ForConditionalGeneration": STEPS,  # layers hand on biases of positions
    "MarianMTModel": STEPS,
    "SqueezeBertForSequenceClassification": ["full", "full"],
}


@pytest.mark.parametrize("name", WAYS)
def test_every_layer_has_the_shortest_way_that_is_exact(name):
    found = [layer.way for layer in check_model(tiny(name)).layers]
    if name.startswith("ConvBert"):
        # It amplifies rounding, so that on some processors `upper` differs by 1.6e-5.
        found = ["upper" if way == "full" else way for way in found]
    assert found == WAYS[name]


def test_predictions_that_are_saturated_hide_no_wrong_way():
    """Tokens that see the one after them have other keys with it; softmax shows nothing of that."""
    model = tiny("LlamaForSequenceClassification", is_causal=False, num_hidden_layers=3)
    with torch.no_grad():
        model.score.weight.mul_(1000)
    assert [layer.way for layer in check_model(model).layers] == ["query", "query", "position"]


@pytest.mark.parametrize("settings", [{}, {"local_attention": 32}])
def test_layers_are_replayed_with_the_mask_of_the_text_at_hand(settings):
    """A window may be wider than the texts of the checks, and narrower than those of an audit."""
    model = tiny("ModernBertForSequenceClassification", **settings)
    check_model(model)
    ids = torch.randint(5, 99, (1, 40))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    seen = forward(model, inputs)
    states = states_of(model, inputs, "classification", 0)
    for number, way in ((0, "query"), (0, "upper"), (1, "position")):
        drawn = dirichlet(3, seen.attentions[number])
        values = seen.attentions[number].values[0]
        found = replayed(model, states, {number: torch.einsum("nhk,hkd->nhd", drawn, values)}, way)
        assert tvd(found, whole(model, inputs, "classification", 0, {number: drawn})) <= 1e-6


@pytest.mark.parametrize(
    ("name", "reads"),
    [("BertForSequenceClassification", 0), ("LlamaForSequenceClassification", -1)],
)
def test_a_text_whose_classes_are_saturated_is_taken_to_be_read_as_the_other(
    name, reads, monkeypatch
):
    shows = iter([True, False])
    monkeypatch.setattr(
        "attnaudit.hf.gate.queries_read", lambda *given: queries_read(*given) if next(shows) else []
    )
    assert check_model(tiny(name)).reads == reads


def test_a_prediction_that_is_a_mean_over_positions_cannot_be_audited():
    gate = check_model(tiny("ModernBertForSequenceClassification", classifier_pooling="mean"))
    assert gate.reads is None
    with pytest.raises(InputError, match="several positions"):
        choose_layers(gate)


@pytest.mark.parametrize("given", [{"heads": [True]}, {"layers": [True]}, {"heads": [0.0]}])
def test_layers_and_heads_are_whole_numbers(given):
    gate = check_model(tiny("BertForSequenceClassification"))
    with pytest.raises(InputError, match="no such"):
        choose_layers(gate, **given)


def test_layers_are_as_before_after_a_pass_that_fails():
    model = tiny("BertForSequenceClassification")
    inputs = random_texts(model).batch([0])
    seen, places = record(model, inputs)
    with pytest.raises(RuntimeError, match="in the middle"), resumed(places[1], repeated(1)):
        raise RuntimeError("in the middle")
    assert all("forward" not in vars(module) for module in model.modules())
    assert torch.equal(forward(model, inputs).output.logits, seen.output.logits)


def test_a_layer_that_reads_its_neighbours_is_not_replayed_by_position(monkeypatch):
    """Without noise at other positions, saturated convolutions of ConvBert pass for attention."""
    monkeypatch.setattr("attnaudit.hf.replay.NOISE", ())
    monkeypatch.setattr("attnaudit.hf.replay.APART", 1.0)
    assert check_model(tiny("ConvBertForSequenceClassification")).layers[-1].way == "position"


def test_a_lower_layer_is_replayed_by_its_query_alone():
    model = tiny("BertForSequenceClassification", num_hidden_layers=4)
    inputs = random_texts(model).batch([0])
    seen, states = forward(model, inputs), states_of(model, inputs, "classification", 0)
    for number in range(3):
        drawn = dirichlet(3, seen.attentions[number])
        sums = {number: torch.einsum("nhk,hkd->nhd", drawn, seen.attentions[number].values[0])}
        expected = whole(model, inputs, "classification", 0, {number: drawn})
        assert tvd(replayed(model, states, sums, "query"), expected) <= 1e-6
    with pytest.raises(ValueError, match="no layers above"):
        replayed(model, states, {3: states.sums[3][None]}, "query")


def test_outputs_that_are_asked_for_again_are_not_computed_again(monkeypatch):
    model = small()
    trace = collect(model, tokenizer("wordpiece"), ["a mill"], layers="all")
    tail, place = trace.readout.tail, np.zeros(3, np.int64)
    sums = np.random.default_rng(0).normal(size=(3, 8))
    first = tail(sums, place)
    monkeypatch.setattr("attnaudit.hf.network.replayed", None)
    assert np.array_equal(tail(sums[::-1], place), first[::-1])
