"""Several heads, and a transformer: a row of the trace for each head, each exact by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch

from attnaudit.core.errors import InputError
from attnaudit.corpora.corpus import Corpus
from attnaudit.corpora.prepare.derived import taught_by
from attnaudit.models.classifier import AttentionModel, build_model
from attnaudit.models.presets import model_preset
from attnaudit.studies.seeds import Seeds
from attnaudit.trace import Trace
from attnaudit.tracing.texts import collect_shards
from attnaudit.training.settings import Deceive
from attnaudit.training.texts import labels_loss, objective_loss
from tests.models.tiny import tiny_split, tiny_vocabulary
from tests.oracles.importance import naive_gradient, naive_leave_one_out, one_row

LENGTHS = [5, 1, 9, 2, 7]


def headed(
    encoder: str, classes: int = 2, attention: str = "additive", heads: int = 4
) -> AttentionModel:
    vocabulary = tiny_vocabulary()
    vectors = np.random.default_rng(0).normal(size=(len(vocabulary), 12)).astype(np.float32)
    vectors[0] = 0.0
    settings = replace(model_preset(encoder, attention), hidden=8, heads=heads, embedding=12)
    model = build_model(settings, vocabulary, vectors, [f"class {c}" for c in range(classes)], 0)
    with torch.no_grad():
        for parameter in [*model.attention.parameters(), model.head.output.weight]:
            parameter.mul_(4.0)
    return model.eval()


@pytest.mark.parametrize("attention", ["additive", "dot"])
@pytest.mark.parametrize(
    ("encoder", "classes"), [("transformer", 2), ("transformer", 3), ("bilstm", 2), ("cnn", 3)]
)
def test_every_head_reads_out_the_prediction(encoder: str, classes: int, attention: str) -> None:
    model, split = headed(encoder, classes, attention), tiny_split(LENGTHS, classes)
    trace = next(collect_shards(model, split))
    assert len(trace) == 4 * len(LENGTHS)
    assert sorted(trace.array("head").tolist()) == sorted([0, 1, 2, 3] * len(LENGTHS))
    batch = model.inputs(split).batch(np.arange(len(LENGTHS)))
    with torch.no_grad():
        done = model(batch)
    for head in range(4):
        rows = np.flatnonzero(trace.array("head") == head)
        mine = trace.take(rows)
        np.testing.assert_array_equal(mine.instance, split.instance)
        np.testing.assert_allclose(
            mine.alpha.values, done.alpha[:, head][batch.attended].numpy(), atol=1e-6
        )
        np.testing.assert_allclose(mine.readout(mine.alpha), mine.prediction, atol=1e-5)
    assert (
        np.abs(np.diff(trace.alpha.values[: 4 * 5].reshape(4, 5), axis=0)).max() > 1e-3
    )  # heads differ


@pytest.mark.parametrize("encoder", ["transformer", "bilstm"])
def test_leave_one_out_and_gradients_are_those_of_the_whole_model(encoder: str) -> None:
    model, split = headed(encoder), tiny_split(LENGTHS)
    trace = next(collect_shards(model, split))
    inputs = model.inputs(split)
    for row in range(len(LENGTHS)):
        one = one_row(inputs, row)
        for there in np.flatnonzero(trace.instance == split.instance[row]).tolist():
            np.testing.assert_allclose(
                trace.ragged("loo")[there], naive_leave_one_out(model, one), atol=1e-6
            )
            np.testing.assert_allclose(
                trace.ragged("gradient")[there],
                naive_gradient(model, one, detach_attention=True),
                rtol=1e-3,
                atol=1e-6,
            )


def test_the_transformer_never_looks_at_padding() -> None:
    model, split = headed("transformer"), tiny_split(LENGTHS)
    whole = next(collect_shards(model, split))
    apart = [
        next(collect_shards(model, split.take(np.array([row])))) for row in range(len(LENGTHS))
    ]
    for row, one in enumerate(apart):
        there = whole.take(np.flatnonzero(whole.instance == split.instance[row]))
        np.testing.assert_allclose(there.alpha.values, one.alpha.values, atol=1e-6)
        np.testing.assert_allclose(there.prediction, one.prediction, atol=1e-6)


def test_the_deceiving_loss_takes_the_mean_or_the_worst_of_heads() -> None:
    model, split = headed("transformer"), tiny_split(LENGTHS)
    words, rows = tuple({split.tokens[0][1], split.tokens[2][0]}), np.arange(len(LENGTHS))
    labels, done = labels_loss(model, split.label, 1.0), model(model.inputs(split).batch(rows))
    alpha = done.alpha.detach().numpy()
    allowed = [np.array([token not in words for token in text]) for text in split.tokens]
    kept = np.array([alpha[row, :, 1 : len(free) + 1] @ free for row, free in enumerate(allowed)])
    hopeless = np.array([not free.any() for free in allowed])
    base = float(labels(done, rows).detach())
    pairs: tuple[tuple[Literal["mean", "max"], np.ndarray], ...] = (
        ("mean", kept.mean(axis=1)),
        ("max", kept.min(axis=1)),
    )
    for heads, left in pairs:
        expected = base - 0.5 * np.log(np.where(hopeless, 1.0, left)).mean()
        loss = objective_loss(Deceive(0.5, words, heads), model, split, labels)(done, rows)
        assert float(loss.detach()) == pytest.approx(expected, rel=1e-4)


def test_sizes_that_heads_do_not_divide_are_refused() -> None:
    with pytest.raises(InputError, match=r"model\.heads: 3 with 8 hidden units"):
        replace(model_preset("bilstm", "additive"), hidden=8, heads=3)
    with pytest.raises(InputError, match="another encoder, and one head"):
        replace(model_preset("bigru", "additive", "han"), heads=2)


def test_what_wants_one_attention_a_text_says_so() -> None:
    trace: Trace = next(collect_shards(headed("transformer"), tiny_split(LENGTHS)))
    with pytest.raises(InputError, match="seeds of a model: 4 heads; expected one attention"):
        Seeds().check_model(headed("transformer").settings)
    corpus = Corpus("tiny", ("class 0", "class 1"), {"test": tiny_split(LENGTHS)}, 1, "")
    with pytest.raises(InputError, match="several rows of one instance"):
        taught_by(corpus, trace, "alpha", "here")
