"""Small untrained models whose attention and output are strong enough that every term of a formula shows."""

from dataclasses import replace

import numpy as np
import torch

from attnaudit.corpora.corpus import Split
from attnaudit.corpora.prepare.vocabulary import PAD, Vocabulary
from attnaudit.models.classifier import TanhHead, build_model
from attnaudit.models.presets import model_preset
from attnaudit.trace import concatenate
from attnaudit.tracing.texts import collect_shards

WORDS = 40


def tiny_model(
    encoder, attention, classes = 2, seed = 0, has_question = False, hierarchical = False, **more
):  # fmt: skip
    more = {"hidden": 8, "embedding": 12, "hierarchical": hierarchical, **more}
    settings = replace(model_preset(encoder, attention), **more)
    model = built(settings, classes, seed, has_question)
    with torch.no_grad():
        head = model.head.passage if isinstance(model.head, TanhHead) else model.head.output
        lower = list(model.sentence.attention.parameters()) if model.sentence else []
        for parameter in [*model.attention.parameters(), *lower, head.weight]:
            parameter.mul_(4.0)
    return model


def built(settings, classes=2, seed=0, has_question=False):
    """An untrained model of any settings; the vectors of its words are the same for all seeds."""
    vocabulary = Vocabulary.build([[f"w{k}" for k in range(WORDS)]], min_df=1)
    size = (len(vocabulary), settings.embedding)
    vectors = np.random.default_rng(0).normal(size=size).astype(np.float32)
    vectors[PAD] = 0.0
    names = [f"class {c}" for c in range(classes)]
    return build_model(settings, vocabulary, vectors, names, seed, has_question).eval()


def tiny_split(lengths, classes=2, seed=0, has_question=False):
    """Random texts; with ``has_question`` random questions too, and two thirds of the answers allowed, the label among them."""
    random = np.random.default_rng(seed)
    tokens = _texts(random, lengths)
    label = random.integers(0, classes, len(lengths)).astype(np.int32)
    if not has_question:
        return Split(np.arange(len(lengths)), tokens, label)
    candidates = random.random((len(lengths), classes)) < 0.67
    candidates[np.arange(len(lengths)), label] = True
    return Split(
        np.arange(len(lengths)),
        tokens,
        label,
        None,
        _texts(random, random.integers(1, 6, len(lengths)).tolist()),
        candidates,
    )


def trace_of(model, split, **how):
    """The trace of a split, all shards together."""
    return concatenate(list(collect_shards(model, split, **how)))


def of_sentences(lengths, classes=2, seed=0):
    """Random texts whose sentences have so many words."""
    return replace(tiny_split([sum(row) for row in lengths], classes, seed), sentences=lengths)


def _texts(random, lengths):
    return [[f"w{k}" for k in random.integers(0, WORDS, length)] for length in lengths]
