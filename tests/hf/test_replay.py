"""Replay: the ways that layers allow, and where a prediction is read. Exactness of every class is tested with its gate."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnaudit.core.errors import InputError
from attnaudit.hf.capture import forward
from attnaudit.hf.gate import check_model
from attnaudit.hf.replay import task_of
from attnaudit.hf.resume import layers_around, record, repeated, resumed
from attnaudit.hf.trace import choose_layers
from tests.hf.classes import tiny
from tests.hf.encoding import random_texts

WAYS = {
    "BertForSequenceClassification": ["upper", "position"],
    "ConvBertForSequenceClassification": ["upper", "upper"],  # its convolutions read the neighbours of a position
    "GPT2LMHeadModel": ["step", "position"],
    "LlamaForCausalLM": ["step", "position"],
    "T5ForConditionalGeneration": ["", "", "step", "step", "whole step", "whole step"],  # layers hand on the bias of positions
    "MarianMTModel": ["", "", "step", "step", "step", "step"],
    "SqueezeBertForSequenceClassification": ["full", "full"],
}


@pytest.mark.parametrize("name", WAYS)
def test_every_layer_has_the_shortest_way_that_is_exact(name: str) -> None:
    assert [layer.way for layer in check_model(tiny(name)).layers] == WAYS[name]


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("BertForSequenceClassification", 0),
        ("GPT2ForSequenceClassification", -1),
        ("LlamaForCausalLM", -1),
        ("T5ForConditionalGeneration", -1),
    ],
)
def test_where_a_prediction_is_read_is_found_by_changing_attention(name: str, reads: int) -> None:
    assert check_model(tiny(name)).reads == reads


def test_a_prediction_that_is_a_mean_over_positions_cannot_be_audited() -> None:
    gate = check_model(tiny("ModernBertForSequenceClassification", classifier_pooling="mean"))
    assert gate.reads is None
    with pytest.raises(InputError, match="a prediction that is read from several positions"):
        choose_layers(gate)


def test_a_masked_language_model_has_no_task() -> None:
    model = tiny("BertForMaskedLM")
    assert task_of(model) is None
    with pytest.raises(InputError, match="BertForMaskedLM: a class of an unknown task"):
        choose_layers(check_model(model))


def test_layers_are_as_before_after_a_pass_that_fails() -> None:
    model = tiny("BertForSequenceClassification")
    inputs = random_texts(model).batch([0])
    layers = layers_around(model, forward(model, inputs).attentions[0].path)
    assert layers is not None
    recorded = record(model, inputs, layers)
    with pytest.raises(RuntimeError, match="in the middle"), resumed(recorded.calls, 1, repeated(1)):
        raise RuntimeError("in the middle")
    assert all("forward" not in vars(module) for module in layers)
    again = forward(model, inputs).output.logits
    assert torch.equal(again, recorded.seen.output.logits)


def test_a_layer_that_reads_its_neighbours_is_not_replayed_by_position(monkeypatch: Any) -> None:
    """With the noise at other positions left out, the convolutions of ConvBert pass for attention: saturated ones hide them."""
    monkeypatch.setattr("attnaudit.hf.replay.NOISE", ())
    monkeypatch.setattr("attnaudit.hf.replay.APART", 1.0)
    assert check_model(tiny("ConvBertForSequenceClassification")).layers[-1].way == "position"
