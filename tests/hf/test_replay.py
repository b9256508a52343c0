"""Replay: the ways that layers allow, and where a prediction is read. Exactness of every class is tested with its gate."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnaudit.core.errors import InputError
from attnaudit.hf.capture import forward
from attnaudit.hf.gate import check_model
from attnaudit.hf.replay import Query, positions_read, replayed, states_of, task_of, tvd, whole
from attnaudit.hf.resume import layers_around, record, repeated, resumed
from attnaudit.hf.trace import choose_layers
from tests.hf.classes import tiny
from tests.hf.encoding import random_texts

WAYS = {
    "BertForSequenceClassification": ["last two", "position"],
    "DebertaV2ForSequenceClassification": ["upper", "position"],  # it computes its scores itself
    "ConvBertForSequenceClassification": [
        "upper",
        "upper",
    ],  # its convolutions read the neighbours of a position
    "GPT2ForSequenceClassification": ["step", "position"],
    "GPT2LMHeadModel": ["step", "position"],
    "LlamaForCausalLM": ["step", "position"],
    "LlamaForSequenceClassification": ["step", "position"],
    "XLNetForSequenceClassification": [
        "upper",
        "upper",
    ],  # it keeps hidden states, not keys and values
    "BloomForCausalLM": ["copied step", "position"],  # an attention of its own
    "GPTNeoForCausalLM": ["copied step", "position"],
    "T5ForConditionalGeneration": [
        "",
        "",
        "copied step",
        "copied step",
        "whole step",
        "whole step",
    ],  # layers hand on biases of positions
    "MarianMTModel": ["", "", "step", "step", "step", "step"],
    "ModernBertForSequenceClassification": ["last two", "position"],
    "SqueezeBertForSequenceClassification": ["full", "full"],
}


@pytest.mark.parametrize(
    "name",
    [
        "MistralForCausalLM",
        "LlamaForCausalLM",
        "MarianMTModel",
        "MistralForSequenceClassification",
        "GPT2ForSequenceClassification",
    ],
)
def test_keys_and_values_that_rows_share_give_what_copies_give(name: str) -> None:
    """Also where the texts are longer than the window of a layer, and where heads share keys."""
    model = tiny(name, **({"sliding_window": 8} if name.startswith("Mistral") else {}))
    gate = check_model(model)
    texts = random_texts(model, seed=5)
    inputs = texts.batch(
        [int((texts.ids if texts.written is None else texts.written).lengths.argmax())]
    )
    assert gate.task is not None
    seen = forward(model, inputs)
    states = states_of(
        model, inputs, Query(gate.task, seen.attentions[-1].weights.shape[2] - 1), seen
    )
    for number, layer in enumerate(gate.layers):
        if layer.way == "step":
            own = seen.attentions[number]
            drawn = torch.distributions.Dirichlet(torch.ones(own.weights.shape[-1])).sample(
                (70, own.weights.shape[1])
            )
            sums = {number: torch.einsum("nhk,hkd->nhd", drawn, own.values[0])}
            shared, copied = (replayed(model, states, sums, way) for way in ("step", "copied step"))
            torch.testing.assert_close(shared, copied, rtol=1e-5, atol=1e-5)
    assert "step" in {layer.way for layer in gate.layers}


def test_predictions_that_are_saturated_hide_no_wrong_way() -> None:
    """Tokens that see the one after them have other keys with it than without; softmax shows nothing of that here."""
    model: Any = tiny("LlamaForSequenceClassification", is_causal=False, num_hidden_layers=3)
    with torch.no_grad():
        model.score.weight.mul_(1000)
    assert [layer.way for layer in check_model(model).layers] == ["upper", "upper", "position"]


@pytest.mark.parametrize("settings", [{}, {"local_attention": 32}])
def test_the_last_two_layers_are_replayed_with_the_mask_of_the_text_at_hand(
    settings: dict[str, Any],
) -> None:
    """The window of the last layer may be wider than the texts that a model is checked on, and narrower than those of an audit."""
    model = tiny("ModernBertForSequenceClassification", **settings)
    assert check_model(model).layers[0].way == "last two"
    inputs = {
        "input_ids": torch.randint(5, 99, (1, 40)),
        "attention_mask": torch.ones(1, 40, dtype=torch.long),
    }
    seen = forward(model, inputs)
    states = states_of(model, inputs, Query("classification", 0), seen)
    own = seen.attentions[0]
    drawn = torch.distributions.Dirichlet(torch.ones(40)).sample((3, own.weights.shape[1]))
    sums = {0: torch.einsum("nhk,hkd->nhd", drawn, own.values[0])}
    assert (
        tvd(
            replayed(model, states, sums, "last two"),
            whole(model, inputs, states.query, {0: drawn}),
        )
        <= 1e-6
    )


@pytest.mark.parametrize("name", WAYS)
def test_every_layer_has_the_shortest_way_that_is_exact(name: str) -> None:
    found = [layer.way for layer in check_model(tiny(name)).layers]
    if name.startswith(
        "ConvBert"
    ):  # it amplifies rounding, so that on some processors `upper` differs by 1.6e-5
        found = ["upper" if way == "full" else way for way in found]
    assert found == WAYS[name]


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
    with (
        pytest.raises(RuntimeError, match="in the middle"),
        resumed(recorded.calls, 1, repeated(1)),
    ):
        raise RuntimeError("in the middle")
    assert all("forward" not in vars(module) for module in layers)
    again = forward(model, inputs).output.logits
    assert torch.equal(again, recorded.seen.output.logits)


def test_a_layer_that_reads_its_neighbours_is_not_replayed_by_position(monkeypatch: Any) -> None:
    """With the noise at other positions left out, the convolutions of ConvBert pass for attention: saturated ones hide them."""
    monkeypatch.setattr("attnaudit.hf.replay.NOISE", ())
    monkeypatch.setattr("attnaudit.hf.replay.APART", 1.0)
    assert check_model(tiny("ConvBertForSequenceClassification")).layers[-1].way == "position"


@pytest.mark.parametrize(
    ("name", "reads"),
    [("BertForSequenceClassification", 0), ("LlamaForSequenceClassification", -1)],
)
def test_a_text_whose_classes_are_saturated_is_taken_to_be_read_as_the_other(
    name: str, reads: int, monkeypatch: Any
) -> None:
    told = iter([True, False])
    monkeypatch.setattr(
        "attnaudit.hf.gate.positions_read",
        lambda *given: positions_read(*given) if next(told) else [],
    )
    assert check_model(tiny(name)).reads == reads
