"""The gate: models of a hundred classes pass with exact figures or are refused with one line; none passes silently wrong."""

import io
import re
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import AttentionInterface, BertConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from attnaudit.core.errors import InputError
from attnaudit.hf.gate import check_model
from attnaudit.hf.layers import Probe
from attnaudit.hf.model import reading
from attnaudit.trace.tails import GRAPH_FILE
from attnaudit.training.loop import evaluating
from tests.hf.classes import AUDITED, MECHANISMS, REFUSED, some_slow, tiny
from tests.hf.exact import assert_exact_under_any_attention
from tests.hf.perturbed import TINY, mistakes
from tests.hf.test_unwrap import state_of

WITHOUT_GRAPH = {
    "Flaubert", "XLM",  # bring the input of the last layer past it
    "DeepseekV3", "GptOss", "GraniteMoe", "Mixtral", "Olmoe", "Phimoe", "Qwen2Moe", "Qwen3Moe",  # experts have no form in ONNX
}  # fmt: skip


CONTRADICT_THEMSELVES = {
    "FalconForCausalLM",
    "SqueezeBertForSequenceClassification",
}  # with what they report
CONVOLVE = {
    "ConvBertForSequenceClassification",
    "MobileBertForSequenceClassification",
}  # tokens with their neighbours


@pytest.mark.parametrize("name", some_slow(AUDITED, MECHANISMS))
def test_classes_that_pass_do_so_exactly(name, tmp_path):
    model = tiny(name)
    gate = check_model(model)
    figures = {check.name: check.figure for check in gate.checks}
    assert figures["watched"] is not None
    assert figures["watched"] <= 1e-5
    reported = figures["reported weights"]
    assert (reported is None) == (name in CONTRADICT_THEMSELVES)
    assert reported is None or reported <= 1e-6
    for zero in ("layers", "elsewhere", "same weights", "padding", "handed back"):
        assert figures[zero] == 0, zero
    assert {(one.heads, one.width) for one in gate.layers} <= {(4, 8), (2, 8), (4, 16)}
    assert ((figures.get("other ways") or 0) > 0.1) == (name in CONVOLVE) == bool(gate.notes)
    assert name in CONVOLVE or (figures.get("other ways") or 0) < 1e-6
    stacks = [(one.stack, one.layer) for one in gate.layers]
    assert len(set(stacks)) == len(stacks) == (6 if model.config.is_encoder_decoder else 2)
    if name != "BertForMaskedLM":
        with reading(model):
            assert_exact_under_any_attention(model, gate, tmp_path)
        stored = gate.layers[-1].way == "position" and name.split("For")[0] not in WITHOUT_GRAPH
        assert (tmp_path / GRAPH_FILE).exists() == stored, "docs/transformers.md counts graphs"


@pytest.mark.parametrize("name", REFUSED)
def test_classes_that_cannot_be_audited_are_refused(name):
    with pytest.raises(InputError) as caught:
        check_model(tiny(name))
    assert str(caught.value).startswith(f"check model: {name}: ")
    assert REFUSED[name][1] in str(caught.value)


def test_a_hundred_classes_are_tried():
    assert len(AUDITED) >= 100
    assert AUDITED.keys() >= MECHANISMS


@pytest.mark.parametrize(
    "name", ["BigBirdForSequenceClassification", "BigBirdPegasusForConditionalGeneration"]
)
def test_a_model_that_exchanges_its_attention_for_short_texts_is_refused(name):
    """Both are sparse on long texts and full on short ones, for good: what holds of the probe would not hold of the texts."""
    model = tiny(name, attention_type="block_sparse", block_size=4, num_random_blocks=1)
    with pytest.raises(InputError, match="handed back: "):
        check_model(model)


def test_a_model_whose_own_attention_fails_is_refused(monkeypatch):
    """As where the number of heads in its configuration is right for a fused function alone."""

    def failing(*_, **__):
        raise RuntimeError("sizes that do not match")

    model = tiny("BertForSequenceClassification")
    monkeypatch.setattr("transformers.models.bert.modeling_bert.eager_attention_forward", failing)
    with pytest.raises(
        InputError, match="RuntimeError sizes that do not match; expected attention"
    ):
        check_model(model)


def test_a_decoder_never_sees_later_tokens(monkeypatch):
    model = tiny("FSMTForConditionalGeneration")
    stacks = [layer.stack for layer in check_model(model).layers]
    assert " ".join(stacks) == "encoder encoder decoder cross decoder cross"
    assert model.config.use_cache
    monkeypatch.setattr(
        "attnaudit.hf.gate.reading", evaluating
    )  # in which it keeps keys and values, and masks nothing
    with pytest.raises(
        InputError, match=r"sees later tokens, in model\.decoder\.layers\.0\.self_a"
    ):
        check_model(model)


@pytest.mark.parametrize("name", ["BertForSequenceClassification", "LlamaForCausalLM"])
def test_an_attention_function_without_its_mask_function_is_refused(name):
    """A user's own, by the attention interface: transformers gives it no mask, so that tokens attend to padding and to later tokens."""

    def attend(module, query, key, value, attention_mask, **_):
        key, value = (
            part.repeat_interleave(query.shape[1] // part.shape[1], dim=1) for part in (key, value)
        )
        masked = 0 if attention_mask is None else attention_mask
        weights = functional.softmax(query @ key.transpose(2, 3) + masked, dim=-1)
        return (weights @ value).transpose(1, 2).contiguous(), weights

    AttentionInterface.register("without a mask", attend)
    model = tiny(name)
    model.set_attn_implementation("without a mask")
    with pytest.raises(InputError, match=r"padding: .*largest weight |that sees later tokens"):
        check_model(model)
    assert model.config._attn_implementation == "without a mask"


def test_a_sink_is_told_and_its_weights_need_not_sum_to_one():
    gate = check_model(tiny("GptOssForCausalLM"))
    assert all(one.sink for one in gate.layers)
    assert next(check for check in gate.checks if check.name == "sums").figure is None


def test_what_depends_on_padding_is_not_padded():
    assert check_model(tiny("BertForSequenceClassification")).batching == "any"
    assert check_model(tiny("MobileBertForSequenceClassification")).batching == "of one length"


class Liar(PreTrainedModel):
    """A model with one attention; ``lie`` names what is wrong with it."""

    config_class = BertConfig

    def __init__(self, lie=""):
        super().__init__(
            BertConfig(vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
        )
        self.lie = lie
        self.embedding, self.classifier = nn.Embedding(50, 8), nn.Linear(8, 3)
        self.mixed = nn.MultiheadAttention(8, 2, batch_first=True)
        self.other = "eager" if self.config._attn_implementation == "sdpa" else "sdpa"
        self.post_init()
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(0)
            self.embedding.weight.normal_()
            self.classifier.weight.normal_()

    def forward(self, input_ids, attention_mask, output_attentions=False):
        hidden = self.embedding(input_ids)
        values = hidden.unflatten(-1, (2, 4)).transpose(1, 2)
        scores = values @ values.transpose(2, 3)
        if self.lie != "attends to padding":
            scores = scores.masked_fill(attention_mask[:, None, None] == 0, -torch.inf)
        weights = functional.softmax(scores, dim=-1)
        reported = weights.flip(-1) if self.lie == "reports others" else weights
        context = self._context(hidden, weights, values).transpose(1, 2).flatten(2)
        if self.lie == "changes itself":
            self.config._attn_implementation_internal = self.other
        logits = self.classifier(context[:, 0])
        return SequenceClassifierOutput(
            logits=logits, attentions=(reported,) if output_attentions else None
        )

    def _context(self, hidden, weights, values):
        context, keys = weights @ values, values.transpose(2, 3)
        match self.lie:
            case "reads twice":
                return context + weights.amax(dim=-1, keepdim=True)
            case "multiplies twice":
                return context + weights @ values**2
            case "reads data":
                return context + weights.data**2 @ values
            case "weights again":
                return context + torch.sigmoid(values @ keys) @ values
            case "hides":
                scores = torch.exp(values @ keys / 4)
                return context + scores / scores.sum(dim=-1, keepdim=True) @ values.clone()
            case "squares":
                return weights**2 @ values
            case "ignores":
                return 0 * context + values
            case "draws":
                return functional.dropout(context, 0.5, training=True)
            case "fused":
                mixed, _ = self.mixed(hidden, hidden, hidden, need_weights=False)
                return mixed.unflatten(-1, (2, 4)).transpose(1, 2)
            case "pools":
                mean = values.mean(dim=2, keepdim=True) @ keys
                return functional.softmax(mean, dim=-1) @ values + context
        return context


READ_TWICE = "elsewhere: 2, functions that read the weights besides the product with the values: "
LIES = {
    "reports others": "reported weights: ",
    "reads twice": "elsewhere: 1, functions that read the weights besides the product with the values: amax",
    "multiplies twice": "layers: 1, ",
    "reads data": READ_TWICE + "another product with the values, data",
    "weights again": "elsewhere: 1, functions that read the weights besides the product with the values: another product",
    "squares": READ_TWICE + "another product with the values, pow",
    "fused": "uniform weights: 0, ",
    "ignores": "uniform weights: 0, ",
    "draws": "watched: ",
    "pools": "weights of shape 2 × 2 × 1 × 13",
    "attends to padding": "padding: ",
    "changes itself": "handed back: 1, ",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_class_that_lies_is_refused(lie):
    with pytest.raises(InputError) as caught:
        check_model(Liar(lie).eval())
    assert f"check model: Liar: {LIES[lie]}" in str(caught.value)


class LiarForSequenceClassification(Liar):
    """The same by a name that says what it predicts."""


@pytest.mark.parametrize("kind", [Liar, LiarForSequenceClassification])
def test_the_same_class_without_a_lie_passes(kind):
    gate = check_model(kind().eval())
    assert [(one.stack, one.heads, one.width) for one in gate.layers] == [("encoder", 2, 4)]
    assert gate.notes == []


def test_a_hidden_attention_is_told_by_what_other_tokens_still_do():
    """It has no softmax and copies of the values, so that no function can be seen to read the weights or the values again."""
    gate = check_model(LiarForSequenceClassification("hides").eval())
    assert {check.name: check.figure for check in gate.checks}["elsewhere"] == 0
    (note,) = gate.notes
    assert re.match(r"with every token attending to itself .* still move .* by up to \d+%", note)


def test_a_model_in_training_is_checked_without_dropout_and_handed_back_in_training():
    model = tiny("BertForSequenceClassification", hidden_dropout_prob=0.5).train()
    check_model(model)
    assert all(module.training for module in model.modules())


def test_figures_do_not_depend_on_the_threads_of_torch():
    """Products of matrices of this size are rounded otherwise by two threads."""
    model = tiny("BertForSequenceClassification", hidden_size=256, intermediate_size=1024)
    found = []
    for number in (1, 2):
        torch.set_num_threads(number)
        try:
            found.append(check_model(model))
            assert torch.get_num_threads() == number
        finally:
            torch.set_num_threads(1)
    assert found[0] == found[1]


def test_a_model_is_handed_back_after_a_check_that_fails():
    model = Liar("ignores").train()
    model.mixed.eval()
    before = state_of(model)
    with pytest.raises(InputError, match="uniform weights: 0, "):
        check_model(model)
    assert state_of(model) == before


def test_no_hook_of_the_library_is_left_on_a_model():
    """It leaves local functions on a model that has reported attention, with which the model can no longer be saved by torch."""
    model = tiny("BertForSequenceClassification")
    first = check_model(model)
    assert not any(module._forward_hooks for module in model.modules())
    torch.save(model, io.BytesIO())
    assert check_model(model) == first
    model.set_attn_implementation("eager")
    inputs = Probe.of(model).inputs
    assert len(model(**inputs, output_attentions=True).attentions) == 2
    hooks = [len(module._forward_hooks) for module in model.modules()]
    assert any(hooks)
    assert check_model(model).checks[2].figure == 0.0
    assert [len(module._forward_hooks) for module in model.modules()] == hooks
    assert len(model(**inputs, output_attentions=True).attentions) == 2


def quantised() -> Any:
    with warnings.catch_warnings(action="ignore"):  # torch moves it to another package
        return torch.ao.quantization.quantize_dynamic(
            tiny("BertForSequenceClassification"), {nn.Linear}, dtype=torch.qint8
        )


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            lambda: nn.Linear(2, 2),
            "Linear: no model of the transformers library; expected a PreTrainedModel",
        ),
        (
            lambda: nn.Module.to(tiny("BertForSequenceClassification"), "meta"),
            r"weights without values \(device meta\); expected a model with its",
        ),
        (
            quantised,
            r"Bert\w+: a quantised model \(torch.ao.quantization, modules of class \w*Linear\w*\); expected a model in floating",
        ),
        (
            lambda: tiny("BertForSequenceClassification").half(),
            "weights in torch.float16 on a CPU; expected float32",
        ),
        (
            lambda: tiny("BertForSequenceClassification").double(),
            "weights in torch.float64; expected float32; save it so in Python",
        ),
    ],
)
def test_what_is_no_model_of_float32_is_refused(model, message):
    with pytest.raises(InputError, match=message):
        check_model(model())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of transformers, for flex attention
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_what_torch_is_set_to_is_refused_with_what_to_set():
    model = tiny("BertForSequenceClassification")
    with torch.inference_mode():
        made = type(model)(model.config)
        with pytest.raises(InputError, match=r"torch.inference_mode\(\); .*torch.no_grad\(\) may"):
            check_model(model)
    with pytest.raises(InputError, match=r"torch.inference_mode\(\); expected tensors"):
        check_model(made)
    model.config._attn_implementation = "flex_attention"
    with (
        torch.compiler.set_stance("force_eager"),  # else torch compiles it
        pytest.raises(InputError, match=r" flex_attention; .*set_attn_implementation\('sdpa'\)"),
    ):
        check_model(model)
    model.config._attn_implementation = "sdpa"
    with torch.no_grad():
        check_model(model)


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_perturbed_copies_read_one_position_and_their_twins_several(name):
    """200 copies of each: ``python -m tests.hf.perturbed``."""
    model = tiny(f"{name}ForSequenceClassification")
    assert [*mistakes(model, range(6), -1 if name == "Llama" else 0)] == []
