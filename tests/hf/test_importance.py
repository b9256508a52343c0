"""Importance as the naive way computes it: one text at a time, in loops, with the parts of each class by their names."""

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

from attnaudit.core.errors import InputError, RunError
from attnaudit.hf.encode import encode
from attnaudit.hf.gate import check_model
from attnaudit.hf.importance import (
    MEASURES,
    USUAL,
    attributions,
    defined_measures,
    measure,
    require_heatmap,
)
from attnaudit.hf.importance.case import Case
from attnaudit.hf.model import frozen, positions_per_pass, require_task
from attnaudit.hf.texts import Texts
from attnaudit.torch.capture import forward
from tests.hf.classes import some_slow, tiny
from tests.hf.test_unwrap import state_of
from tests.hf.tokenizing import small, tokenizer
from tests.oracles.attributions import naive_alti, naive_attnlrp

ROWS = ["The baker found, again", "mill near the old harbour", "one"]
CLASSIFIERS = ["Bert", "DistilBert", "Roberta", "ModernBert"]
NAMES = [*(f"{name}ForSequenceClassification" for name in CLASSIFIERS), "GPT2LMHeadModel", "LlamaForCausalLM", "T5ForConditionalGeneration",
         "BartForConditionalGeneration"]  # fmt: skip
BERT = "BertForSequenceClassification"
FAST = (BERT, "GPT2LMHeadModel", "T5ForConditionalGeneration")
EVERY = some_slow(NAMES, FAST)


@cache
def case_of(name, double=False, **settings):
    """A model of the class, biases included, with three texts in one batch."""
    model = small(name, **settings)
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if path.endswith("bias") and parameter.dim() == 1:
                parameter.normal_(0, 0.2, generator=random)
    kind = require_task(model)
    special = {"seq2seq": "$A [SEP]", "classification": "[CLS] $A [SEP]"}.get(kind, "[CLS] $A")
    targets = ["a ladder", "the river in the", "one"] if kind == "seq2seq" else None
    label, names = None, ()
    if kind == "classification":
        label, names = np.arange(3, dtype=np.int32), ("a", "b", "c")
    texts = Texts("given", kind, ROWS, np.arange(3), ["test"] * 3, "", targets, label, names)
    gate, own = check_model(model), tokenizer("pieces", special=special)
    return Case(model.double() if double else model, gate, encode(model, own, texts))


def importance(case, names: Any = USUAL, heatmap=None):
    """Values of all texts of a case, measured in batches as a trace does."""
    texts = case.texts
    out = defaultdict(lambda: np.zeros(len(texts.ids.values), np.float32))
    size = positions_per_pass(case.model, case.budget)
    with frozen(case.model):
        for rows in texts.batches(size, case.gate.batching):
            part = replace(case, texts=texts.take(rows))
            for name, values in measure(part, names, heatmap).items():
                out[name][texts.ids.positions(rows)] = values
    return {name: texts.ids.with_values(values) for name, values in out.items()}


@cache
def measured(name, measure):
    return importance(replace(case_of(name), steps=8), [measure])[measure]


def alone(case, row):
    """The case of one text without padding."""
    return replace(case, texts=case.texts.take(np.array([row])))


def probabilities(case, logits):
    """Probabilities for one text."""
    return (logits[0] if classifies(case) else logits[0, -1]).softmax(dim=-1)


def classifies(case):
    return require_task(case.model) == "classification"


def predicted(case, inputs):
    with torch.no_grad():
        return probabilities(case, case.model(**inputs).logits)


def query_of(case):
    """The query that the prediction for one text reads."""
    if case.texts.written is not None:
        return len(case.texts.written.ids[0]) - 1
    return 0 if classifies(case) else len(case.texts.ids[0]) - 1


def same(name, measure, naive):
    case, found = case_of(name), measured(name, measure)
    for row in range(3):
        expected = np.asarray(naive(alone(case, row)))
        assert expected.max() > 5e-4
        assert_allclose(found[row], expected, atol=1e-5, rtol=1e-3)


def mean_weights(case) -> list[np.ndarray]:
    return [one.weights[0].mean(dim=0).numpy().astype(np.float64) for one in case.attentions]


def naive_rollout(case):
    """The rollout over the tokens of the text and, behind them, over what a decoder is given."""
    tokens, layers = len(case.texts.ids[0]), mean_weights(case)
    if case.texts.written is None:
        shares = np.eye(tokens)
        for weights in layers:
            shares = 0.5 * weights @ shares + 0.5 * shares
        return shares[query_of(case)]
    encoder = np.eye(tokens)
    for weights in layers[:2]:
        encoder = 0.5 * weights @ encoder + 0.5 * encoder
    queries = len(layers[2])
    encoder = np.hstack([encoder, np.zeros((tokens, queries))])
    decoder = np.hstack([np.zeros((queries, tokens)), np.eye(queries)])
    for own, across in ((layers[2], layers[3]), (layers[4], layers[5])):
        decoder = 0.5 * own @ decoder + 0.5 * decoder
        decoder = 0.5 * across @ encoder + 0.5 * decoder
    assert_allclose(decoder.sum(axis=1), 1, atol=1e-5)
    return decoder[query_of(case), :tokens]


@pytest.mark.parametrize("name", EVERY)
def test_rollout(name):
    same(name, "rollout", naive_rollout)
    if name.endswith(("SequenceClassification", "CausalLM")):
        assert_allclose(measured(name, "rollout").sum(), 1, atol=1e-5)


# Of each class: projections of queries and keys of a layer's attention to the text.
PROJECTIONS = {
    "BertForSequenceClassification": "bert.encoder.layer.{}.attention.self.query/key",
    "GPT2LMHeadModel": "transformer.h.{}.attn.c_attn",
    "T5ForConditionalGeneration": "decoder.block.{}.layer.1.EncDecAttention.q/k",
}


def weights_by_hooks(name, case):
    """The weights (L, H, T) of the query that is read, from the outputs of projections alone."""
    weights, found = [], {}

    def keep(module, given, output):
        found[module] = output[0]

    for layer in range(2):
        module, _, ends = PROJECTIONS[name].format(layer).rpartition(".")
        found.clear()
        with ExitStack() as hooks, torch.no_grad():
            for end in ends.split("/"):
                one = attrgetter(f"{module}.{end}")(case.model)
                hooks.enter_context(one.register_forward_hook(keep))
            case.model(**case.inputs)
        parts = [part for output in found.values() for part in output.split(32, dim=1)]
        query, key = parts[:2]
        query = query[query_of(case)].reshape(4, 1, 8)
        scores = (query * key.reshape(-1, 4, 8).transpose(0, 1)).sum(dim=2)
        weights.append((scores if name.startswith("T5") else scores / 8**0.5).softmax(dim=1))
    return torch.stack(weights).numpy()


def shown(case, heatmap):
    """The heatmap of all texts of a case."""
    found = importance(case, (), require_heatmap(heatmap))
    assert list(found) == ["shown"]
    return found["shown"]


@pytest.mark.parametrize("name", PROJECTIONS)
@pytest.mark.parametrize("heatmap", ["mean-last", "mean-all", "head:0.3"])
def test_the_heatmap_shown_is_of_the_weights_that_hooks_find(name, heatmap):
    case = case_of(name)
    found = shown(case, heatmap)
    for row in range(3):
        own = weights_by_hooks(name, alone(case, row))
        expected = {"mean-last": own[1].mean(axis=0), "mean-all": own.mean(axis=(0, 1))}
        assert_allclose(found[row], expected.get(heatmap, own[0, 3]), atol=1e-5)
    assert_allclose(shown(replace(case, budget=1), heatmap).values, found.values, atol=1e-5)


@pytest.mark.parametrize("heatmap", ["mean-last", "rollout", "gradient-input", "loo"])
def test_a_heatmap_shown_has_sizes_that_sum_to_1_and_is_stored_once(heatmap):
    case, name = case_of("BertForSequenceClassification"), heatmap.replace("-", "_")
    own = importance(case, [name])[name]
    expected = own.values / own.spread(own.sum())
    assert_allclose(shown(case, heatmap).values, expected, atol=1e-6)
    with frozen(case.model):
        found = measure(case, [name], name)
    # Experiments compare with leave-one-out, whatever is shown.
    assert list(found) == (["loo", "shown"] if name == "loo" else ["shown"])


def test_a_score_of_0_at_every_token_is_a_heatmap_of_equal_weights(monkeypatch):
    case = case_of("BertForSequenceClassification")
    monkeypatch.setitem(MEASURES, "rollout", lambda case: torch.zeros(case.mask.shape))
    found = shown(case, "rollout")
    assert_allclose(found.values, 1 / found.spread(found.lengths))


def test_a_sink_takes_nothing_of_the_heatmap_shown_or_of_the_rollout():
    case = case_of("GptOssForCausalLM")
    assert all(attention.sink for attention in case.attentions)
    assert_allclose(shown(case, "mean-last").sum(), 1, atol=1e-6)
    assert_allclose(measured("GptOssForCausalLM", "rollout").sum(), 1, atol=1e-5)


VALUES = {
    "BertForSequenceClassification": "bert.encoder.layer.1.attention.self.value",
    "RobertaForSequenceClassification": "roberta.encoder.layer.1.attention.self.value",
    "LlamaForCausalLM": "model.layers.1.self_attn.v_proj",
    "T5ForConditionalGeneration": "decoder.block.1.layer.1.EncDecAttention.v",
    "BartForConditionalGeneration": "model.decoder.layers.1.encoder_attn.v_proj",
}


def naive_zeroing(case, module):
    def state():
        with torch.no_grad():
            output = case.model(**case.inputs, output_hidden_states=True)
        states = output.get("decoder_hidden_states") or output["hidden_states"]
        return states[-1][0, query_of(case)].double()

    usual, out = state(), []
    for token in range(len(case.texts.ids[0])):
        kept = torch.ones(len(case.texts.ids[0]), 1).index_fill_(0, torch.tensor(token), 0.0)
        with module.register_forward_hook(lambda module, given, output, kept=kept: output * kept):
            changed = state()
        out.append(1 - float(usual @ changed / usual.norm() / changed.norm()))
    return out


@pytest.mark.parametrize("name", VALUES)
def test_value_zeroing(name):
    module = attrgetter(VALUES[name])
    same(name, "value_zeroing", lambda case: naive_zeroing(case, module(case.model)))


def naive_loo(case, deleted):
    texts, inputs = case.texts, case.inputs
    usual, out = predicted(case, inputs), [0.0] * len(texts.ids[0])
    for word in sorted(set(texts.word_id[0].tolist()) - {-1}):
        chosen = np.flatnonzero(texts.word_id[0] == word).tolist()
        if deleted:
            left = torch.from_numpy(np.flatnonzero(texts.word_id[0] != word))
            changed = {
                key: value if key.startswith("decoder") else value[:, left]
                for key, value in inputs.items()
            }
        else:
            changed = {**inputs, "input_ids": inputs["input_ids"].clone()}
            changed["input_ids"][0, chosen] = 4  # [MASK]
        for position in chosen:
            out[position] = float(0.5 * (usual - predicted(case, changed)).abs().sum())
    return out


@pytest.mark.parametrize("name", EVERY)
def test_leave_one_out(name):
    same(name, "loo", lambda case: naive_loo(case, deleted=True))
    same(name, "loo_mask", lambda case: naive_loo(case, deleted=False))
    for row, special in enumerate(case_of(name).texts.special):
        assert (measured(name, "loo")[row][special] == 0).all()


def test_a_word_is_masked_and_the_position_that_is_read_stays():
    """Also where the only token that says nothing is padding, before which this class reads."""
    model: Any = small("GPT2ForSequenceClassification", pad_token_id=1)
    given = Texts(
        "given", "classification", ["mill by the sea", "mill"], np.arange(2), ["all", "all"], ""
    )
    own = tokenizer("pieces", special="", mask_token=None, unk_token="[PAD]")
    case = Case(model, check_model(model), encode(model, own, given))
    assert case.texts.nothing == 1
    for row, found in enumerate(importance(case, ["loo_mask"])["loo_mask"]):
        ids, words = torch.from_numpy(case.texts.ids[row].copy()), case.texts.word_id[row]

        def read_at_the_end(ids):
            with torch.no_grad():
                states = model.transformer(ids[None]).last_hidden_state
                return model.score(states[0, -1]).softmax(dim=-1)

        for word in set(words.tolist()):
            masked = torch.where(torch.from_numpy(words == word), 1, ids)
            expected = 0.5 * (read_at_the_end(masked) - read_at_the_end(ids)).abs().sum()
            assert_allclose(found[words == word], float(expected), atol=1e-5)
    assert model.config.pad_token_id == 1


def slope(value, step=2e-3):
    """The derivative at 0, by four values: norms are of float32 in some models."""
    return (8 * (value(step) - value(-step)) - (value(2 * step) - value(-2 * step))) / (12 * step)


def scaled(case, path, token, share, exchange: Any = None, output=None):
    """The probability of an output, or the predicted one, with the embedding of a token scaled."""
    shares = torch.ones(len(case.texts.ids[0]), 1, dtype=torch.float64)
    shares[token] = share
    module = attrgetter(path)(case.model)
    with module.register_forward_hook(lambda module, arguments, output: output * shares):
        logits = forward(case.model, case.inputs, exchange).output.logits
    chosen = int(case.prediction[0].argmax()) if output is None else output
    return float(probabilities(case, logits)[chosen])


EMBEDDING = {
    "BertForSequenceClassification": "bert.embeddings.word_embeddings", "LlamaForCausalLM": "model.embed_tokens",
    "GPT2LMHeadModel": "transformer.wte", "T5ForConditionalGeneration": "encoder.embed_tokens",
}  # fmt: skip


@pytest.mark.parametrize("name", EMBEDDING)
@pytest.mark.parametrize("held", [False, True])
def test_gradient_times_input_is_a_finite_difference(name, held):
    case = case_of(name, double=True)
    found = importance(case, ["gradient" if held else "gradient_input"])
    one = alone(case, 1)
    exchange = (lambda attention: one.attentions[attention.index].weights) if held else None
    tokens = range(0, len(case.texts.ids[1]), 5)
    classes = range(3) if held and classifies(case) else [None]
    expected = [
        sum(
            abs(
                slope(
                    lambda step, of=(token, c): scaled(
                        one, EMBEDDING[name], of[0], 1 + step, exchange, of[1]
                    )
                )
            )
            for c in classes
        )
        for token in tokens
    ]
    assert_allclose(
        next(iter(found.values()))[1][::5], expected, rtol=5e-3, atol=5e-3 * max(expected)
    )


def moved(case, place, step):
    """The probability of the predicted output with more weight of an attention and head on a key."""
    index, head, key = place

    def exchange(attention):
        if attention.index != index:
            return None
        weights = attention.weights.clone()
        weights[0, head, query_of(case), key] += step
        return weights

    logits = forward(case.model, case.inputs, exchange).output.logits
    return float(probabilities(case, logits)[int(case.prediction[0].argmax())])


@pytest.mark.parametrize(
    "name", ["BertForSequenceClassification", "LlamaForCausalLM", "T5ForConditionalGeneration"]
)
def test_alpha_gradients_are_finite_differences(name):
    case = alone(case_of(name, double=True), 1)
    # Of an encoder–decoder, only the decoder has a query that the prediction reads.
    numbers = [k for k, one in enumerate(case.gate.layers) if one.way]
    with frozen(case.model):
        found = slopes_of(case, numbers)
        together = slopes_of(case_of(name, double=True), numbers)
    places = [(index, head, key) for index in numbers for head, key in ((0, 0), (3, 2))]
    expected = [slope(lambda step, place=place: moved(case, place, step), 1e-3) for place in places]
    own = [float(found[index][0, head, key]) for index, head, key in places]
    assert_allclose(own, expected, rtol=5e-3, atol=5e-3 * max(map(abs, expected)))
    for index, one in found.items():
        keys = one.shape[2]
        torch.testing.assert_close(together[index][1:2, :, :keys], one, atol=1e-6, rtol=1e-4)
        assert not together[index][1, :, keys:].any()


def slopes_of(case, numbers):
    slopes = case.graph.slopes_of_weights(numbers)
    return {number: case.at_query(number, one) for number, one in slopes.items()}


@pytest.mark.parametrize("name", FAST)
def test_integrated_gradients_sum_to_what_is_gained(name):
    """The gain over a text whose own tokens are padding, which only exact integrals give."""
    case = alone(case_of(name), 0)
    special = torch.from_numpy(case.texts.special[0])
    begun = {**case.inputs, "input_ids": torch.where(special, case.inputs["input_ids"], 1)}
    output = int(case.prediction[0].argmax())
    with frozen(case.model):
        gained = predicted(case, case.inputs)[output] - predicted(case, begun)[output]
        errors = [
            float((attributions(replace(case, steps=steps)).sum() - gained).abs())
            for steps in (2, 200)
        ]
        assert not attributions(case)[0, : len(special)][special].any()
    assert errors[1] < 2e-3 < errors[0]


def test_integrated_gradients_need_captum(monkeypatch):
    monkeypatch.setattr("attnaudit.core.extras.find_spec", lambda name: None)
    with pytest.raises(RunError, match=r"without captum.*pip install 'attnaudit\[captum\]'"):
        attributions(case_of("BertForSequenceClassification"))


@pytest.mark.parametrize("name", EVERY)
def test_a_text_has_the_importance_that_it_has_alone(name):
    for name_of, found in importance(alone(case_of(name), 2)).items():
        assert found.values.dtype == np.float32
        assert_allclose(found.values, measured(name, name_of)[2], atol=2e-5, rtol=2e-3)


@pytest.mark.parametrize("batching", ["of one length", "none"])
def test_batches_that_a_model_forbids_are_not_made(batching, monkeypatch):
    case = case_of("BertForSequenceClassification")
    shapes: list[tuple[int, ...]] = []
    masks: list[Tensor] = []

    def noted(module, arguments, given):
        shapes.append(tuple(given["input_ids"].shape))
        masks.append(given["attention_mask"])

    monkeypatch.setattr(type(case.gate), "batching", batching)
    with case.model.register_forward_pre_hook(noted, with_kwargs=True):
        found = importance(case)
    assert all(mask.all() for mask in masks)
    assert (max(shape[0] for shape in shapes) == 1) == (batching == "none")
    assert_allclose(
        found["loo"].values, measured("BertForSequenceClassification", "loo").values, atol=1e-5
    )


def test_the_model_is_handed_back_as_it_was():
    case = case_of("BertForSequenceClassification")
    model: Any = small()
    model.train()
    model.bert.embeddings.eval()
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)

    before = state_of(model)
    importance(replace(case, model=model))
    assert state_of(model) == before
    with torch.no_grad():
        model.classifier.weight.fill_(torch.nan)
    before = state_of(model)
    with pytest.raises(InputError, match=r"that is no finite number, in instances 0, 1, 2;"):
        importance(replace(case, model=model))
    assert state_of(model) == before


def test_a_text_whose_numbers_overflow_is_named_and_no_other_of_its_batch():
    case = case_of("BertForSequenceClassification")
    model: Any = small()
    rows = [set(ids.tolist()) for ids in case.texts.ids]
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight[min(rows[1] - rows[0] - rows[2])] = 3e38
    with pytest.raises(
        InputError,
        match=r"gradient that is no finite number, in instances 1; expected finite numbers",
    ):
        importance(replace(case, model=model), ["gradient"])


def test_attnlrp_is_the_relevance_of_its_rules_and_the_rest_is_accounted_for():
    same(BERT, "attnlrp", lambda case: np.abs(naive_attnlrp(case.model, case.texts.ids[0])[0]))
    tokens, absorbed, logit = naive_attnlrp(case_of(BERT).model, case_of(BERT).texts.ids[0])
    assert_allclose(tokens.sum() + absorbed, logit)


def test_alti_is_the_mixing_of_its_definition():
    same(BERT, "alti", lambda case: naive_alti(case.model, case.texts.ids[0]))
    assert_allclose(measured(BERT, "alti").sum(), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "measure", "reason"),
    [
        ("MixtralForCausalLM", "attnlrp", "topk of 1 activations has no rule"),
        ("GPT2LMHeadModel", "alti", "a layer does not normalise the sum of its attention"),
    ],
)
def test_a_measure_that_is_not_defined_for_a_model_is_refused_and_left_out_of_all(
    name, measure, reason
):
    model = tiny(name)
    for names, heatmap in (([measure], None), ((), measure)):
        with pytest.raises(InputError, match=f"{name}: {reason}.*choose another measure"):
            defined_measures(model, names, heatmap)
    assert {*MEASURES} - {*defined_measures(model, "all")} <= {"attnlrp", "alti"}
    assert measure not in defined_measures(model, ["all"])
