"""Gradient and leave-one-out against Algorithm 1 written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnaudit.gradient import gradient_importance
from attnaudit.leave_one_out import leave_one_out
from attnaudit.leave_one_out.cnn import seen_from
from attnaudit.models.batch import pad
from attnaudit.models.classifier import Classifier
from attnaudit.ragged import Ragged
from tests.models.tiny import tiny_model, tiny_split
from tests.oracles.importance import naive_gradient, naive_leave_one_out

LENGTHS = [1, 2, 3, 4, 5, 9, 7, 12, 23, 1, 6]
MODELS = [(encoder, attention) for encoder in ("bilstm", "cnn", "average") for attention in ("additive", "dot")]


def all_leave_one_out(model: Classifier, ids: Ragged) -> np.ndarray:
    batch = pad(ids, np.arange(len(ids)))
    with torch.no_grad():
        return leave_one_out(model, batch, model(batch))[batch.attended].numpy()


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(("encoder", "attention"), MODELS)
def test_leave_one_out_equals_running_everything_again(encoder: str, attention: str, classes: int) -> None:
    model = tiny_model(encoder, attention, classes)
    ids = model.vocabulary.ids(tiny_split(LENGTHS).tokens)
    naive = np.concatenate([naive_leave_one_out(model, row.tolist()) for row in ids])
    np.testing.assert_allclose(all_leave_one_out(model, ids), naive, atol=1e-6)
    assert naive.max() > 0.01, "a deletion must matter for the comparison to mean anything"


@pytest.mark.parametrize("encoder", ["bilstm", "cnn", "average"])
def test_a_planted_bug_in_leave_one_out_is_caught(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeping the attention scores of the whole text, in place of those after the deletion, must not pass."""
    model = tiny_model(encoder, "additive")
    ids = model.vocabulary.ids(tiny_split([9, 12]).tokens)
    naive = np.concatenate([naive_leave_one_out(model, row.tolist()) for row in ids])
    with monkeypatch.context() as patch:
        patch.setattr(model.attention, "finish", lambda projected: projected[..., 0] * 0.0)
        frozen = all_leave_one_out(model, ids)
    assert np.abs(frozen - naive).max() > 1e-3


def test_neighbours_step_over_the_deleted_position() -> None:
    assert [seen_from(-1, step) for step in (-2, -1, 0, 1, 2)] == [-3, -2, -1, 1, 2]
    assert [seen_from(2, step) for step in (-3, -2, -1, 0, 1)] == [-2, -1, 1, 2, 3]


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(("encoder", "attention"), MODELS)
def test_gradient_equals_the_derivative_by_the_one_hot_input(encoder: str, attention: str, classes: int, detach: bool) -> None:
    model = tiny_model(encoder, attention, classes)
    ids = model.vocabulary.ids(tiny_split(LENGTHS).tokens)
    batch = pad(ids, np.arange(len(ids)))
    ours = gradient_importance(model, batch, detach_attention=detach)[batch.attended].numpy()
    naive = np.concatenate([naive_gradient(model, row.tolist(), detach_attention=detach) for row in ids])
    np.testing.assert_allclose(ours, naive, rtol=1e-4, atol=1e-6)


def test_gradient_keeps_its_order_where_the_probability_is_saturated() -> None:
    model = tiny_model("average", "additive")
    with torch.no_grad():
        model.output.bias.fill_(40.0)
    batch = pad(model.vocabulary.ids([["w1", "w2", "w3"]]), np.array([0]))
    gradient = gradient_importance(model, batch, detach_attention=True)[batch.attended]
    assert (gradient > 0).all()
    assert len(set(gradient.tolist())) == 3
