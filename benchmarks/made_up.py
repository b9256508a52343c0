"""Made-up texts of a wanted length, a model of the papers' sizes that reads them, and traces of that length: what speed is measured on.

Words are drawn at random and the model is not trained: neither changes what there is to compute.
"""

from __future__ import annotations

import numpy as np
import torch

from attnaudit.core.ragged import Ragged
from attnaudit.corpora import Vocabulary
from attnaudit.corpora.prepare.vocabulary import PAD, SPECIAL
from attnaudit.models.attention import Additive
from attnaudit.models.batch import Inputs
from attnaudit.models.classifier import AttentionModel, build_model
from attnaudit.models.presets import model_preset
from attnaudit.trace import Trace
from tests.traces import make_trace

WORDS = 2000
SHARPER = 6.0  # a fresh model attends almost evenly and says one half to everything: differences would be near 0


def made_up_texts(length: int, count: int) -> Inputs:
    """``count`` texts of ``length`` tokens each, the first of any greater count."""
    ids = np.random.default_rng(length).integers(len(SPECIAL), WORDS, length * count)
    return Inputs(Ragged.from_lengths(ids, [length] * count))


def untrained_model(encoder: str) -> AttentionModel:
    """Additive attention and one sigmoid output, the paper's sizes; attention and head scaled up so that the output depends on the text."""
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
    """``count`` rows of ``length`` tokens, two classes."""
    return make_trace(count, [length] * count, seed=length)
