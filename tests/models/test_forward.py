"""The forward pass of every encoder, attention and head equals the numpy oracle, which calls no layer of torch."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from attnaudit.models.presets import ENCODERS, model_preset
from tests.models.tiny import built, of_sentences, tiny_model, tiny_split
from tests.oracles.forward import forward

LENGTHS = [5, 1, 9, 2]
ATTENTIONS = ("additive", "dot")
RECURRENT_OR_NOT = [name for name in ENCODERS if name != "transformer"]


def weights_of(model):
    return {name: values.detach().numpy() for name, values in model.state_dict().items()}


def assert_agrees(model, split):
    """Attention and probabilities of a padded batch, in float64, against each text by itself."""
    model, near = (
        model.double(),
        1e-6 if model.settings.encoder == "transformer" else 1e-9,
    )  # its positions are in float32
    inputs = model.inputs(split)
    batch = inputs.batch(np.arange(len(split)))
    with torch.no_grad():
        done = model(batch)
        probabilities = model.probabilities(done.logits).numpy()
    for row in range(len(split)):
        given = [
            None if rows is None else rows[row]
            for rows in (inputs.question, inputs.candidates, inputs.sentences)
        ]
        alpha, expected = forward(model.settings, weights_of(model), inputs.ids[row], *given)
        ours = done.alpha[row].reshape(-1, done.alpha.shape[-1])[:, batch.attended[row]].numpy()
        np.testing.assert_allclose(ours, alpha, rtol=0, atol=near)
        np.testing.assert_allclose(probabilities[row], expected, rtol=0, atol=near)
    assert len(split) < 2 or np.ptp(probabilities[:, 0]) > 1e-3  # texts differ


@pytest.mark.parametrize(
    ("encoder", "attention", "classes"), list(product(ENCODERS, ATTENTIONS, (2, 3)))
)
def test_classifiers(encoder, attention, classes):
    assert_agrees(tiny_model(encoder, attention, classes), tiny_split(LENGTHS, classes))


@pytest.mark.parametrize(("encoder", "attention"), list(product(RECURRENT_OR_NOT, ATTENTIONS)))
def test_models_that_read_questions(encoder, attention):
    assert_agrees(
        tiny_model(encoder, attention, 4, has_question=True),
        tiny_split(LENGTHS, 4, has_question=True),
    )


@pytest.mark.parametrize(("encoder", "attention"), list(product(RECURRENT_OR_NOT, ATTENTIONS)))
def test_hierarchical_models(encoder, attention):
    assert_agrees(
        tiny_model(encoder, attention, 3, hierarchical=True),
        of_sentences([[3, 1, 4], [2], [5, 2], [1, 1, 1, 2]], 3),
    )


@pytest.mark.parametrize("preset", ["paper", "code2019", "flan"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_presets_at_their_own_sizes(encoder, preset):
    """Widths, kernels, units of attention and activation are those of the preset, dropout is off outside of training."""
    assert_agrees(built(model_preset(encoder, "additive", preset), 2), tiny_split(LENGTHS))


def test_several_heads():
    assert_agrees(
        built(replace(model_preset("bilstm", "additive"), hidden=8, heads=4, embedding=12), 3),
        tiny_split(LENGTHS, 3),
    )
