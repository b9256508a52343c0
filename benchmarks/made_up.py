"""Generated inputs of benchmarks: texts, models of the papers' sizes that read them, and traces.

Words are drawn at random and models are not trained: neither changes what there is to compute.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from attnaudit.core.ragged import Ragged
from attnaudit.corpora.prepare.vocabulary import PAD, SPECIAL, Vocabulary
from attnaudit.models.attention import Additive
from attnaudit.models.batch import Inputs
from attnaudit.models.classifier import AttentionModel, build_model
from attnaudit.models.presets import model_preset
from attnaudit.trace import Trace
from tests.traces import make_trace

WORDS = 2000
# A fresh model attends almost evenly and predicts 0.5 for every text, so differences vanish.
SHARPER = 6.0
SHARD, WORDS_OF_SHARDS = 50_000, 5_000


def made_up_texts(length: int, count: int) -> Inputs:
    """Return ``count`` texts of ``length`` tokens each, the first of any greater count."""
    ids = np.random.default_rng(length).integers(len(SPECIAL), WORDS, length * count)
    return Inputs(Ragged.from_lengths(ids, [length] * count))


def untrained_model(encoder: str) -> AttentionModel:
    """Build a model whose scaled attention and head make the output depend on the text."""
    vocabulary = Vocabulary((*SPECIAL, *(f"w{k}" for k in range(len(SPECIAL), WORDS))))
    settings = model_preset(encoder, "additive")
    vectors = np.random.default_rng(0).normal(size=(WORDS, settings.embedding)).astype(np.float32)
    vectors[PAD] = 0.0
    model = build_model(settings, vocabulary, vectors, ("no", "yes"), seed=0)
    assert isinstance(model.attention, Additive)
    with torch.no_grad():
        for layer in (model.attention.score, model.head.output):
            layer.weight.mul_(SHARPER)
    return model.eval().requires_grad_(False)


def made_up_trace(length: int, count: int) -> Trace:
    """Return ``count`` rows of ``length`` tokens, two classes."""
    return make_trace(count, [length] * count, seed=length)


def sst_sized() -> Trace:
    """Return 1725 rows of 6 to 52 tokens, 19 on average, like the test set of SST."""
    lengths = np.clip(np.random.default_rng(0).gamma(5.0, 3.6, 1725).round().astype(int), 6, 52)
    return make_trace(len(lengths), lengths, seed=0)


def made_up_shards(rows: int, tokens: int) -> Iterator[Trace]:
    """Return a trace of any number of rows, `SHARD` at a time, ``tokens`` tokens a row on average."""
    for start in range(0, rows, SHARD):
        random = np.random.default_rng([0, start])
        yield _shard(random, np.arange(start, min(start + SHARD, rows)), tokens)


def _shard(random: np.random.Generator, instance: np.ndarray, tokens: int) -> Trace:
    lengths = random.integers(1, 2 * tokens, len(instance))
    rows = Ragged.from_lengths(np.exp(2.0 * random.standard_normal(lengths.sum())), lengths)
    alpha = rows.with_values(rows.values / rows.spread(rows.sum()))
    readout = 2.0 * random.standard_normal(len(rows.values))
    offset = 0.1 * random.standard_normal(len(rows))
    logit = alpha.with_values(alpha.values * readout).sum() + offset
    words = np.array([f"word{k}" for k in range(WORDS_OF_SHARDS)])
    drawn = words[random.integers(0, WORDS_OF_SHARDS, len(rows.values))]
    scores = (random.random(len(rows.values), np.float32) for _ in range(2))
    return Trace.from_arrays(
        activation="sigmoid",
        class_names=["negative", "positive"],
        instance=instance,
        label=random.integers(0, 2, len(rows)),
        tokens=[part.tolist() for part in rows.with_values(drawn)],
        alpha=alpha.with_values(alpha.values.astype(np.float32)),
        readout=rows.with_values(readout[:, None].astype(np.float32)),
        offset=offset[:, None].astype(np.float32),
        prediction=(1.0 / (1.0 + np.exp(-logit)))[:, None].astype(np.float32),
        gradient=rows.with_values(next(scores)),
        loo=rows.with_values(next(scores)),
    )
