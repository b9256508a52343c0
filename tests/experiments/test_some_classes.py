"""The adversary over a vocabulary: some classes stand for all in the search, and what it finds is within ε by all of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax

from attnaudit.experiments.adversary import some_classes
from attnaudit.experiments.adversary.experiment import divergence
from attnaudit.experiments.adversary.search import bounded_attention, search
from attnaudit.experiments.adversary.some_classes import of_some_classes, representatives
from attnaudit.experiments.through_tail import Outputs
from attnaudit.stats.measures import tvd
from tests.hf.classes import tiny
from tests.hf.encoding import random_texts
from tests.hf.test_trace import traced

pytestmark = pytest.mark.slow

VOCABULARY, EPSILON = 12_000, 0.01


@pytest.fixture(scope="module")
def trace(one_registry, tmp_path_factory):
    """Both layers of a causal language model: the last is replayed at one position, the other step by step."""
    model = tiny("GPT2LMHeadModel", vocab_size=VOCABULARY)
    return traced(model, tmp_path_factory.mktemp("model"), "all", random_texts(model, 2)).trace


@pytest.fixture(scope="module")
def found(trace):
    return bounded_attention(trace.readout, trace.alpha, EPSILON).attention


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 3.0])
def test_some_classes_estimate_the_distance(sharpness):
    random = np.random.default_rng(0)
    logits = sharpness * random.normal(size=VOCABULARY)
    p = softmax([logits, logits + 0.05 * random.normal(size=VOCABULARY)], axis=1)
    classes, weight = representatives(p[:1], 1500)
    assert len(set(classes[0].tolist())) == 1500
    assert (weight >= 1.0 - 1e-9).all()
    estimate = weight * p[:, classes[0]]
    assert estimate[0].sum() == pytest.approx(1.0, abs=1e-9)
    estimate /= estimate.sum(axis=1, keepdims=True)
    assert tvd(estimate[:1], estimate[1:]) == pytest.approx(tvd(p[:1], p[1:]), rel=0.08)


def test_what_is_found_is_within_epsilon_of_all_classes_and_as_far_as_by_all(trace, found):
    readout, alpha = trace.readout, trace.alpha
    outputs = Outputs.of(readout, alpha)
    assert of_some_classes(outputs) is not None
    assert (tvd(readout(found), readout(alpha)) <= EPSILON).all()
    by_all = divergence(search(outputs, EPSILON).attention, alpha)
    loss = by_all - divergence(found, alpha)
    assert loss.mean() <= 0.02  # two samples of an estimate: rows gain and lose up to 0.13
    assert (
        divergence(found, alpha).mean() > 0.06
    )  # 0.03 where the likeliest classes are modelled, and all others together


def test_a_model_that_never_calls_its_output_layer_is_read_in_full(trace, monkeypatch):
    tail = trace.readout.tail
    monkeypatch.setattr(
        tail.network.model, "get_output_embeddings", lambda: torch.nn.Linear(32, VOCABULARY)
    )
    assert (
        of_some_classes(Outputs.of(replace(trace.readout, tail=replace(tail)), trace.alpha)) is None
    )


def test_other_rows_and_blocks_change_nothing(trace, found, monkeypatch):
    """Rows backwards, and one at a time."""
    readout, alpha, order = trace.readout, trace.alpha, np.arange(len(trace))[::-1].copy()
    # One row at a time.
    monkeypatch.setattr(some_classes, "WEIGHTS", some_classes.READ * 32)
    assert len([*some_classes.blocks(Outputs.of(readout, alpha))]) > 1
    turned = divergence(
        bounded_attention(readout.take(order), alpha.take(order), EPSILON).attention,
        alpha.take(order),
    )
    assert (
        ~np.isclose(turned, divergence(found, alpha)[order], atol=2e-3)
    ).sum() <= 1  # of two ways that gain alike a climb takes one by the last digits


def test_classes_that_do_not_stand_for_all_are_noticed(trace, monkeypatch):
    """With a tail that forgets a class's weight the search reads all; with a search that reads too little, what it finds is moved."""
    outputs = Outputs.of(trace.readout, trace.alpha)
    honest = some_classes.representatives
    monkeypatch.setattr(some_classes, "representatives", lambda p, number: honest(p, 3))
    found = bounded_attention(trace.readout, trace.alpha, EPSILON).attention
    assert (tvd(trace.readout(found), trace.readout(trace.alpha)) <= EPSILON).all()
    monkeypatch.setattr(
        "attnaudit.trace.tails.SomeClasses.__call__", lambda self, pooled, rows: self.added[rows]
    )
    assert of_some_classes(outputs) is None
