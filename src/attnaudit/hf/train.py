"""Transformers trained in the one training loop: on the classes of texts, or on their next tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Corpus, Split
from attnaudit.hf.trainable import Network, Read
from attnaudit.models.batch import Batch, Inputs, padded
from attnaudit.stats.classification import classification_scores
from attnaudit.stats.measures import predicted_class
from attnaudit.training import texts
from attnaudit.training.loop import Epoch, TrainingSplit, Updates, minimise, passes, require_finite
from attnaudit.training.settings import Deceive, TrainingSettings
from attnaudit.training.transformers import Schedule

BUDGET = 4_096  # padded positions of one evaluation batch, each with a logit for every piece of the vocabulary


def train_network(
    network: Network, corpus: Corpus, settings: TrainingSettings, schedule: Schedule, objective: Deceive | None = None, **options: Any
) -> list[Epoch]:  # fmt: skip
    """Train ``network`` in place on a corpus of pieces (`as_corpus`), and keep the weights of its best epoch on dev; returns every epoch.

    It minimises the loss on labels, or ``objective`` (the network is then watched); a causal model that on next tokens. ``options`` are
    those of `minimise`. The test split is not used. Raises InputError for a split that lacks what the objective needs and for a loss that
    is not finite.
    """
    updates = Updates(adamw, schedule.share)
    if not network.architecture.causal:
        return texts.train(network, corpus, settings, objective, updates=updates, **options)
    data, dev = (_next_tokens(network, corpus.splits[name]) for name in ("train", "dev"))
    return minimise(network, data, dev, settings, updates=updates, **options)


def adamw(network: Any, settings: TrainingSettings) -> torch.optim.Optimizer:
    """AdamW (Loshchilov & Hutter 2019), which decays matrices only: no bias, and no scale of a normalisation."""
    parameters = list(network.parameters())
    groups = [
        {
            "params": [one for one in parameters if one.ndim > 1],
            "weight_decay": settings.weight_decay,
        },
        {"params": [one for one in parameters if one.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, lr=settings.learning_rate, amsgrad=settings.amsgrad, fused=True
    )


def measured(network: Network, split: Split) -> dict[str, float]:
    """Accuracy, F1 and ROC-AUC on a split; of a causal model the loss of a token (nats), and the share of tokens that it predicts.

    Of a watched network also ``mass``, the attention on the marked pieces, and ``mass_max``, that of the head with most: means over texts.
    """
    inputs = network.inputs(split)
    if network.architecture.causal:
        loss, accuracy = _of_tokens(network, inputs)
        return {"loss": loss, "accuracy": accuracy}
    probabilities = texts.predict(network, inputs)
    scores = classification_scores(
        split.label.astype(np.int64),
        predicted_class(probabilities),
        probabilities,
    )
    found = {"accuracy": scores.accuracy, "f1": scores.f1, "roc_auc": scores.roc_auc}
    return (
        found | _masses(network, inputs, split.rationale)
        if network.watched and split.rationale
        else found
    )


def _masses(network: Network, inputs: Inputs, rationale: list[list[bool]]) -> dict[str, float]:
    """The attention on marked pieces, the mean over heads and the largest, as means over texts."""
    marked = Ragged.from_rows(rationale, bool)
    masses = [
        (done.alpha * padded(marked, rows)[:, None]).sum(dim=-1)
        for rows, _, done in passes(network, inputs, texts.BUDGET)
    ]
    heads = torch.cat(masses).double()
    return {"mass": float(heads.mean()), "mass_max": float(heads.amax(dim=1).mean())}


def _next_tokens(network: Network, split: Split) -> TrainingSplit:
    inputs = network.inputs(split)

    def loss(network: Network, rows: np.ndarray, device: torch.device) -> Tensor:
        batch = inputs.batch(rows, device)
        return functional.cross_entropy(*_predictions(network(batch), batch))

    def scores(network: Network, select: str) -> tuple[float, float]:
        lost, accuracy = _of_tokens(network, inputs)
        require_finite("dev split", "a loss", lost)
        return (-lost if select == "loss" else accuracy), accuracy

    return TrainingSplit(inputs, loss, scores)


def _predictions(done: Read, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits (N, V) and the tokens (N,) that they are of: of every text all but the first."""
    inside = batch.inside[:, 1:]
    return done.logits[:, :-1][inside], batch.ids[:, 1:][inside]


def _of_tokens(network: Network, inputs: Inputs) -> tuple[float, float]:
    """The mean loss of a token, and the share of tokens predicted, without dropout."""
    lost, right, count = 0.0, 0, 0
    for _, batch, done in passes(network, inputs, BUDGET):
        logits, gold = _predictions(done, batch)
        lost += float(functional.cross_entropy(logits, gold, reduction="sum").double())
        right, count = right + int((logits.argmax(dim=-1) == gold).sum()), count + len(gold)
    return lost / count, right / count
