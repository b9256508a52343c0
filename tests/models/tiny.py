"""Small untrained models whose attention and output are strong enough that every term of a formula shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from attnaudit.corpora import Split, Vocabulary
from attnaudit.models import build_model, model_preset
from attnaudit.models.classifier import Classifier

WORDS = 40


def tiny_vocabulary() -> Vocabulary:
    return Vocabulary.build([[f"w{k}" for k in range(WORDS)]], min_df=1)


def tiny_model(encoder: str, attention: str, classes: int = 2, seed: int = 0) -> Classifier:
    vocabulary = tiny_vocabulary()
    vectors = np.random.default_rng(seed).normal(size=(len(vocabulary), 12)).astype(np.float32)
    vectors[0] = 0.0
    settings = replace(model_preset(encoder, attention), hidden=8)
    model = build_model(settings, vocabulary, vectors, [f"class {c}" for c in range(classes)], seed)
    with torch.no_grad():
        for parameter in [*model.attention.parameters(), model.output.weight]:
            parameter.mul_(4.0)
    return model.eval()


def tiny_split(lengths: list[int], classes: int = 2, seed: int = 0) -> Split:
    random = np.random.default_rng(seed)
    tokens = [[f"w{k}" for k in random.integers(0, WORDS, length)] for length in lengths]
    return Split(np.arange(len(lengths)), tokens, random.integers(0, classes, len(lengths)).astype(np.int32), None)
