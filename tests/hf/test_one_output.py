"""A classifier with several labels for a text is audited one output at a time."""

from typing import Any

import numpy as np
import pytest
import torch

import attnaudit as aa
from attnaudit.core.errors import InputError
from attnaudit.hf import check_model, collect
from attnaudit.hf.unwrap import one_output
from tests.hf.tokenizing import small, tokenizer

NAMES = ["rude", "sad", "loud"]
TOKENIZER = tokenizer("wordpiece")
TEXTS = ["a good film", "it was bad and long", "one more"]
CLASSES = ("Bert", "Roberta", "DistilBert", "GPT2", "Electra", "Albert")


def several(name="Bert", names=NAMES, kind: Any = "multi_label_classification") -> Any:
    config = {"num_labels": len(names)} if len(names) != 3 else {}
    model: Any = small(f"{name}ForSequenceClassification", **config)
    if len(names) == 1:
        model = type(model)(model.config.__class__(**model.config.to_dict() | {"num_labels": 1}))
    model.config.id2label, model.config.problem_type = dict(enumerate(names)), kind
    return model.eval()


@pytest.mark.parametrize("name", CLASSES)
def test_the_prediction_is_the_sigmoid_of_that_output(name):
    model, text = several(name), TOKENIZER(TEXTS[0], return_tensors="pt")
    inputs = {key: text[key] for key in ("input_ids", "attention_mask")}
    with torch.no_grad():
        logits = model(**inputs).logits[0]
        for k, own in enumerate(NAMES):
            one = one_output(model, own)
            found = one(**inputs).logits[0].softmax(dim=-1)[1]
            assert float(found) == pytest.approx(float(logits[k].sigmoid()), abs=1e-6)
    assert model.config.num_labels == 3


@pytest.mark.slow
def test_a_trace_and_its_audit_are_about_that_output():
    model = several()
    trace = collect(model, TOKENIZER, TEXTS, layers="all", scores=["gradient"], output="sad")
    assert list(trace.class_names) == ["not sad", "sad"]
    text = TOKENIZER(TEXTS[1], return_tensors="pt")
    with torch.no_grad():
        wanted = float(model(**text).logits[0, 1].sigmoid())
    (found,) = {row[1] for row in trace.prediction[trace.instance == 1].tolist()}
    assert found == pytest.approx(wanted, abs=1e-6)
    with_own = aa.audit(trace, ["permutation"])["permutation"].table
    again = aa.audit(trace, ["permutation"], replay=model)["permutation"].table
    np.testing.assert_allclose(with_own["median_delta_y"], again["median_delta_y"], atol=1e-6)


def test_one_number_is_a_probability_unless_it_is_called_a_regression():
    model = several(names=["relevant"], kind=None)
    trace = collect(model, TOKENIZER, TEXTS, scores=["gradient"], layers="all", output="relevant")
    assert list(trace.class_names) == ["not relevant", "relevant"]
    with pytest.raises(InputError, match="num_labels 1, problem_type regression; expected outputs"):
        one_output(several(names=["relevant"], kind="regression"), "relevant")


def test_other_outputs_are_refused():
    with pytest.raises(InputError, match="no output 'glad'; expected one of rude, sad, loud"):
        one_output(several(), "glad")
    with pytest.raises(InputError, match="problem_type None; expected outputs that are each"):
        one_output(several(kind=None), "sad")
    with pytest.raises(InputError, match=r"--set collect\.output=NAME, of rude, sad, loud"):
        check_model(several())
