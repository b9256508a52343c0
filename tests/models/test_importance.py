"""Gradient and leave-one-out against Algorithm 1 written out."""

from typing import Any

import numpy as np
import pytest
import torch
from mpmath import mp

from attnaudit.models.batch import Inputs
from attnaudit.tracing.importance import gradient_importance
from attnaudit.tracing.leave_one_out import leave_one_out
from tests.models.tiny import of_sentences, tiny_model, tiny_split
from tests.oracles.importance import naive_gradient, naive_leave_one_out, rows_of, without

LENGTHS = [1, 2, 5, 3, 12, 1, 6]
SENTENCES = [[4], [3, 1], [2, 30, 5], [1] * 4, [6, 2, 9, 4, 1]]
ENCODERS = ("bilstm", "bigru", "cnn", "average", "none")
MODELS = [
    (encoder, attention)
    for encoder in ENCODERS
    for attention in ("additive", "dot", "hard", "uniform")
]
TASKS = [(2, False), (4, False), (2, True), (6, True)]  # classes, and whether a question is asked


def inputs_of(model, lengths):
    return model.inputs(
        tiny_split(lengths, len(model.class_names), has_question=model.has_question)
    )


def assert_leave_one_out(model, inputs):
    naive = np.concatenate([naive_leave_one_out(model, row) for row in rows_of(inputs)])
    np.testing.assert_allclose(all_leave_one_out(model, inputs), naive, atol=2e-6)
    assert naive.max() > 0.01, "a deletion must matter for the comparison to mean anything"


def all_leave_one_out(model, inputs):
    batch = inputs.batch(np.arange(len(inputs)))
    with torch.no_grad():
        return leave_one_out(model, batch, model(batch))[batch.attended].numpy()


@pytest.mark.parametrize("encoder", ["transformer", "bilstm"])
def test_several_heads_have_one_importance(encoder):
    model = tiny_model(encoder, "additive", heads=4)
    inputs = inputs_of(model, LENGTHS)
    assert_leave_one_out(model, inputs)
    assert_gradient(model, inputs)


@pytest.mark.parametrize(("classes", "has_question"), TASKS)
@pytest.mark.parametrize(("encoder", "attention"), MODELS)
def test_words_are_deleted_and_differentiated_as_by_running_everything_again(
    encoder, attention, classes, has_question
):
    model = tiny_model(encoder, attention, classes, has_question=has_question)
    inputs = inputs_of(model, LENGTHS)
    assert_leave_one_out(model, inputs)
    assert_gradient(model, inputs)


@pytest.mark.parametrize("classes", [2, 4])
def test_leave_one_out_of_certain_predictions_is_not_lost_in_rounding(classes):
    """Beside the formula with 200 digits: 1 − 1e-30 is 1 in float64, and its fall would be 0."""
    model = tiny_model("average", "additive", classes)
    with torch.no_grad():
        model.head.output.weight *= 100.0
        inputs = inputs_of(model, [5, 12, 8])
        values = all_leave_one_out(model, inputs)
        naive = []
        for row in rows_of(inputs):
            whole = logits_of(model, row)
            naive += [
                exact_tvd(logits_of(model, without(row, t)), whole)
                for t in range(len(row.positions[0]))
            ]
    assert 0.0 < min(naive) < 1e-12
    # Errors of float32 logits become relative errors of small probabilities.
    np.testing.assert_allclose(values, naive, rtol=1e-3)


def logits_of(model, row):
    """Logits of both classes of one text, or of all."""
    logits = model(row.batch(np.array([0]))).logits[0].double().tolist()
    return [0.0, *logits] if len(logits) == 1 else logits


def exact_tvd(one, other):
    with mp.workdps(200):
        sides = [[mp.exp(mp.mpf(z)) for z in logits] for logits in (one, other)]
        p, q = ([value / sum(side) for value in side] for side in sides)
        return float(sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2)


@pytest.mark.parametrize("has_question", [False, True])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_planted_bug_in_leave_one_out_is_caught(encoder, has_question, monkeypatch):
    """Keeping the attention scores of the whole text, in place of those after the deletion, must not pass."""
    model = tiny_model(encoder, "additive", 4 if has_question else 2, has_question=has_question)
    inputs = inputs_of(model, [9, 12])
    naive = np.concatenate([naive_leave_one_out(model, row) for row in rows_of(inputs)])
    with monkeypatch.context() as patch:
        patch.setattr(
            model.attention, "finish", lambda projected, query=None: projected[..., 0] * 0.0
        )
        frozen = all_leave_one_out(model, inputs)
    assert np.abs(frozen - naive).max() > 1e-3


def assert_gradient(model, inputs, outputs: Any = "all"):
    """With attention held, and through it too."""
    batch = inputs.batch(np.arange(len(inputs)))
    found = gradient_importance(model, batch, outputs)
    assert not any(
        tensor.requires_grad
        for tensor in (found.held, found.full, found.done.hidden, found.done.logits)
    )  # no graph is kept
    for ours, detach in ((found.held, True), (found.full, False)):
        naive = np.concatenate(
            [
                naive_gradient(model, row, detach_attention=detach, outputs=outputs)
                for row in rows_of(inputs)
            ]
        )
        np.testing.assert_allclose(ours[batch.attended].numpy(), naive, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize(("classes", "has_question"), TASKS)
@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_gradient_of_the_predicted_class_alone(attention, classes, has_question):
    model = tiny_model("bilstm", attention, classes, has_question=has_question)
    assert_gradient(model, inputs_of(model, LENGTHS), "predicted")


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(("encoder", "attention"), MODELS)
def test_sentences_are_deleted_and_differentiated_as_words_are(encoder, attention, classes):
    model = tiny_model(encoder, attention, classes, hierarchical=True)
    inputs = model.inputs(of_sentences(SENTENCES, classes))
    assert_leave_one_out(model, inputs)
    assert_gradient(model, inputs)


@pytest.mark.parametrize("has_question", [False, True])
def test_gradient_keeps_its_order_where_the_probability_is_saturated(has_question):
    model = tiny_model("average", "additive", has_question=has_question)
    with torch.no_grad():
        model.head.output.bias[0] += 60.0
    inputs = model.inputs(tiny_split([3], has_question=has_question))
    batch = Inputs(inputs.ids, inputs.question).batch(np.array([0]))
    gradient = gradient_importance(model, batch, "predicted").held[batch.attended]
    assert (gradient > 0).all()
    assert len(set(gradient.tolist())) == 3
