"""Attention is read and replaced as the naive way of each kind of model does it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from attnaudit.hf.layers import Probe
from attnaudit.torch.capture import forward
from tests.hf.classes import tiny
from tests.torch.test_pooling import Applied

RANDOM = torch.Generator().manual_seed(0)


def random_weights(attention):
    """Weights drawn anew for all texts, heads and queries, nothing on what the model masks."""
    own = torch.Generator().manual_seed(attention.index)
    drawn = torch.rand(attention.weights.shape, generator=own) * (attention.weights > 0)
    return drawn / drawn.sum(dim=-1, keepdim=True)


def naive(model, inputs, weights):
    """Logits with the weights of all layers replaced inside of an attention function of transformers."""
    left = iter(weights)

    def attend(module, query, key, value, attention_mask, **_):
        value = value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)
        return (next(left) @ value).transpose(1, 2).contiguous(), None

    AttentionInterface.register("replaced", attend)
    AttentionMaskInterface.register("replaced", eager_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation("replaced")
    with torch.no_grad():
        logits = model(**inputs).logits
    model.set_attn_implementation(before)
    return logits


@pytest.mark.parametrize(
    "name",
    [
        "BertForSequenceClassification",
        "LlamaForCausalLM",
        "T5ForConditionalGeneration",
        "MarianMTModel",
        "Gemma2ForCausalLM",
    ],
)
def test_replaced_weights_give_the_logits_of_an_attention_function_that_replaces_them(name):
    model = tiny(name)
    inputs = dict(Probe.of(model).inputs)
    seen = forward(model, inputs)
    replaced = forward(model, inputs, random_weights).output.logits
    expected = naive(model, inputs, [random_weights(one) for one in seen.attentions])
    assert (replaced - seen.output.logits).abs().max() > 0.01
    torch.testing.assert_close(replaced, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("masked", ["nothing", "truth", "numbers", "causal", "a whole query"])
@pytest.mark.parametrize("grouped", [False, True])
def test_scaled_dot_product_attention_is_what_torch_computes(masked, grouped):
    query = torch.randn(2, 4, 5, 8, generator=RANDOM)
    keys = (2, 2 if grouped else 4, 5 if masked == "causal" else 7, 8)
    key, value = (torch.randn(keys, generator=RANDOM) for _ in range(2))
    mask = torch.rand(2, 1, 5, 7, generator=RANDOM) > 0.4
    mask[..., 0] = True
    if masked == "a whole query":
        mask[0, 0, 2] = False
    given: dict[str, Any] = {"enable_gqa": grouped, "scale": 0.3, "is_causal": masked == "causal"}
    if masked in ("truth", "a whole query"):
        given["attn_mask"] = mask
    if masked == "numbers":
        given["attn_mask"] = torch.zeros(mask.shape).masked_fill(~mask, -1e4)

    def attend(query):
        return functional.scaled_dot_product_attention(query, key, value, **given)

    seen, expected = forward(Applied(attend), {"given": query}), attend(query)
    torch.testing.assert_close(seen.output, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(seen.attentions[0].sums, expected, atol=1e-6, rtol=1e-5)


def attend(weights, product):
    """A module of one attention, its scores (B, H, Q, K) and its values (B, H, K, D)."""
    scores, values = (torch.randn(2, 3, *size, generator=RANDOM) for size in ((4, 5), (5, 6)))
    module = Applied(lambda scores: product(weights(scores), values))
    return module, {"given": scores}, scores, values


PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "matmul": torch.matmul,
    "@": lambda weights, values: weights @ values,
    "bmm": lambda weights, values: torch.bmm(
        weights.reshape(6, 4, 5), values.reshape(6, 5, 6)
    ).reshape(2, 3, 4, 6),
    "einsum": lambda weights, values: torch.einsum("bnij,bnjd->bnid", weights, values),
    "einsum of another order": lambda weights, values: torch.einsum(
        "bnij,jbnd->ibnd", weights, values.permute(2, 0, 1, 3)
    ).permute(1, 2, 0, 3),
    "dropout": lambda weights, values: (
        functional.dropout(weights, 0.5, training=False).to(torch.float32) @ values
    ),
}


@pytest.mark.parametrize("product", PRODUCTS)
def test_every_way_to_multiply_is_read_and_replaced(product):
    module, inputs, scores, values = attend(
        lambda scores: functional.softmax(scores, dim=-1), PRODUCTS[product]
    )
    seen = forward(module, inputs)
    (one,) = seen.attentions
    torch.testing.assert_close(one.weights, scores.softmax(dim=-1))
    torch.testing.assert_close(one.values, values)
    assert (one.sink, one.elsewhere) == (False, [])
    replaced = forward(module, inputs, random_weights).output
    torch.testing.assert_close(replaced, random_weights(one) @ values)


@pytest.mark.parametrize(
    ("weights", "product"),
    [
        (lambda scores: scores.softmax(-1) ** 2, torch.matmul),
        (lambda scores: scores.softmax(-2), torch.matmul),
        (lambda scores: scores.sigmoid(), torch.matmul),
        (
            lambda scores: scores.softmax(-1),
            lambda weights, values: (values.transpose(2, 3) @ weights.transpose(2, 3)).transpose(
                2, 3
            ),
        ),
    ],
)
def test_what_is_no_plain_attention_is_not_taken_for_one(weights, product):
    module, inputs, *_ = attend(weights, product)
    assert forward(module, inputs).attentions == ()


def test_a_product_of_another_form_is_told_and_left_alone():
    module, inputs, scores, values = attend(
        lambda scores: scores.softmax(-1)[None], lambda weights, values: weights @ values[None]
    )
    seen = forward(module, inputs, lambda attention: 0 * attention.weights)
    assert [shape for _, shape in seen.unread] == [(1, 2, 3, 4, 5)]
    torch.testing.assert_close(seen.output, scores.softmax(-1)[None] @ values[None])


def test_hooks_are_gone_after_an_error():
    model = tiny("BertForSequenceClassification")
    with pytest.raises(ZeroDivisionError):
        forward(model, Probe.of(model).inputs, lambda attention: 1 / 0)  # type: ignore[arg-type]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
