"""Training on labelled texts: the loss on labels, or that of an objective of `training.settings`, in the one training loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Corpus, Split
from attnaudit.corpora.prepare.derived import marks
from attnaudit.models.batch import Batch, Inputs, padded
from attnaudit.models.classifier import AttentionModel
from attnaudit.stats.classification import classification_scores
from attnaudit.stats.measures import Activation, predicted_class
from attnaudit.training.loop import LEAST, Epoch, TrainingSplit, minimise, passes, require_finite
from attnaudit.training.settings import (
    Adversary,
    Deceive,
    Guided,
    Objective,
    Sparse,
    TrainingSettings,
)

BUDGET = 32_768  # padded positions of one evaluation batch
Loss = Callable[[Any, np.ndarray], Tensor]
"""The loss of a batch, a mean over its rows: of its forward pass, with ``logits`` and ``alpha``, and the row numbers in the split."""


@runtime_checkable
class Classifier(Protocol):
    """A module that returns ``logits`` (B, K) and, where an objective needs it, ``alpha`` (B, L) or (B, H, L) of a batch of texts."""

    @property
    def activation(self) -> Activation: ...
    @property
    def outputs(self) -> int: ...
    @property
    def has_question(self) -> bool: ...
    def inputs(self, split: Split) -> Inputs: ...
    def probabilities(self, logits: Float[Tensor, "*n K"]) -> Float[Tensor, "*n K"]: ...
    def __call__(self, batch: Batch) -> Any: ...


def train(
    model: Any,
    corpus: Corpus,
    settings: TrainingSettings,
    objective: Objective | None = None,
    **options: Any,
) -> list[Epoch]:
    """Train ``model``, a `Classifier`, in place and leave it with the weights of its best epoch on dev; returns every epoch.

    It minimises the loss on labels, or ``objective``; ``options`` are those of `minimise`. The test split is not used. Raises InputError
    for a split that lacks what the objective needs, and for a loss, or a prediction on dev, that is not finite.
    """
    data, dev = (
        _split(model, corpus, name, settings.class_weight, objective) for name in ("train", "dev")
    )
    return minimise(model, data, dev, settings, **options)


def _split(
    model: Classifier, corpus: Corpus, name: str, weighted: bool, objective: Objective | None
) -> TrainingSplit:
    """``weighted``: positives weigh as much as there are negatives per positive in train."""
    split, learned = corpus.splits[name], corpus.splits["train"].label
    positives = max(int((learned == 1).sum()), 1)
    measure = labels_loss(
        model, split.label, (len(learned) - positives) / positives if weighted else 1.0
    )
    measure = measure if objective is None else objective_loss(objective, model, split, measure)
    inputs = model.inputs(split)

    def loss(model: Classifier, rows: np.ndarray, device: torch.device) -> Tensor:
        return measure(model(inputs.batch(rows, device)), rows)

    def scores(model: Classifier, select: str) -> tuple[float, float]:
        probabilities = predict(model, inputs)
        require_finite(f"{name} split", "a predicted probability", float(probabilities.sum()))
        predicted = predicted_class(probabilities)
        accuracy = float((predicted == split.label).mean())
        if select == "loss":
            lost = sum(
                float(measure(done, rows)) * len(rows)
                for rows, _, done in passes(model, inputs, BUDGET)
            )
            require_finite(f"{name} split", "a loss", lost)
            return -lost / len(inputs), accuracy
        if model.has_question or select == "accuracy":
            return accuracy, accuracy
        return classification_scores(
            split.label.astype(np.int64), predicted, probabilities, seed=0, resamples=1
        ).roc_auc, accuracy

    return TrainingSplit(inputs, loss, scores)


def predict(model: Classifier, inputs: Inputs) -> Float[np.ndarray, "n K"]:
    """Probabilities of every row, in order, without gradients and without dropout."""
    out = np.zeros((len(inputs), model.outputs))
    for rows, _, done in passes(model, inputs, BUDGET):
        out[rows] = model.probabilities(done.logits).double().cpu().numpy()
    return out


def labels_loss(model: Classifier, label: np.ndarray, positive_weight: float) -> Loss:
    """One sigmoid output: binary cross-entropy, positives weighted. A softmax: cross-entropy."""
    gold = torch.from_numpy(label.astype(np.int64))

    def measure(done: Any, rows: np.ndarray) -> Tensor:
        target = gold[rows].to(done.logits.device)
        if model.activation == "softmax":
            return functional.cross_entropy(done.logits, target)
        weight = torch.tensor(positive_weight, device=done.logits.device)
        return functional.binary_cross_entropy_with_logits(
            done.logits[:, 0], target.to(done.logits.dtype), pos_weight=weight
        )

    return measure


def objective_loss(objective: Objective, model: Any, split: Split, labels: Loss) -> Loss:
    """The loss of an objective on a split; ``labels`` is that on its labels. Raises InputError where the split lacks what it needs."""
    match objective:
        case Adversary():
            return _adversary_loss(objective, model, split)
        case Deceive():
            return _deceive_loss(objective, split, labels)
        case Guided():
            return _guided_loss(objective, model, split, labels)
        case Sparse():
            return _sparse_loss(objective, labels)


def _adversary_loss(objective: Adversary, model: AttentionModel, split: Split) -> Loss:
    if model.settings.heads > 1:
        raise InputError(
            "train",
            "objective adversary",
            f"a model of {model.settings.heads} heads",
            "one attention a text",
        )
    if split.attention is None or split.prediction is None:
        raise InputError(
            "train",
            "objective adversary",
            "a corpus alone",
            "one taught by the trace of a base model",
        )
    share = 0.5 if objective.scaling == "released" else 1.0
    attention, prediction = split.attention, torch.from_numpy(split.prediction.astype(np.float32))

    def measure(done: Any, rows: np.ndarray) -> Tensor:
        device = done.alpha.device
        distance = model.distance(model.probabilities(done.logits), prediction[rows].to(device))
        base = padded(attention, rows, device)
        divergence = (
            _divergence(done.alpha, base)
            if objective.divergence == "forward"
            else _divergence(base, done.alpha)
        )
        return (share * distance - objective.strength * divergence).mean()

    return measure


def _divergence(p: Float[Tensor, "B L"], q: Float[Tensor, "B L"]) -> Float[Tensor, " B"]:
    """``KL(p ‖ q)`` in nats."""
    return (p * (p.clamp_min(LEAST).log() - q.clamp_min(LEAST).log())).sum(dim=1)


def _deceive_loss(objective: Deceive, split: Split, labels: Loss) -> Loss:
    marked = Ragged.from_rows(marks(split, objective.words or "rationale"), bool)
    impermissible = torch.from_numpy(
        marked.reduce(np.logical_and) & (marked.lengths > 0)
    )  # texts without a permissible token

    def measure(done: Any, rows: np.ndarray) -> Tensor:
        device = done.alpha.device
        allowed = 1.0 - padded(marked, rows, device)  # 1 at padding too, where no weight is
        kept = (done.alpha * (allowed if done.alpha.ndim == 2 else allowed[:, None])).sum(dim=-1)
        if kept.ndim == 2:
            kept = kept.mean(dim=1) if objective.heads == "mean" else kept.amin(dim=1)
        penalty = -kept.clamp_min(LEAST).log()
        return (
            labels(done, rows)
            + objective.strength * penalty.masked_fill(impermissible[rows].to(device), 0.0).mean()
        )

    return measure


def _guided_loss(objective: Guided, model: Any, split: Split, labels: Loss) -> Loss:
    target = _target(objective, split)

    def measure(done: Any, rows: np.ndarray) -> Tensor:
        wanted = padded(target, rows, done.alpha.device)
        loss = labels(done, rows) + objective.strength * _divergence(wanted, done.alpha).mean()
        if not objective.alone:
            return loss
        size = model.head.readout(done.hidden)[:, : wanted.shape[1]].square().sum(dim=-1)
        return (
            loss
            + objective.alone
            * ((1.0 - wanted) * (wanted > 0) * size).sum(dim=1).div((wanted > 0).sum(dim=1)).mean()
        )

    return measure


def _target(objective: Guided, split: Split) -> Ragged:
    """The attention that is wanted of every text, float32."""
    if objective.target == "given":
        if split.attention is None:
            raise InputError(
                "train",
                "objective guided",
                "a corpus alone",
                "one taught by the trace of another model",
            )
        return split.attention
    chosen = "rationale" if objective.target == "rationale" else objective.words
    marked = (
        [[k == len(tokens) - 1 for k in range(len(tokens))] for tokens in split.tokens]
        if objective.target == "last"
        else marks(split, chosen)
    )
    score = Ragged.from_rows(marked, np.float64)
    weight = score.with_values(np.exp((score.values - 1.0) / objective.temperature))
    return score.with_values((weight.values / score.spread(weight.sum())).astype(np.float32))


def _sparse_loss(objective: Sparse, labels: Loss) -> Loss:
    def measure(done: Any, rows: np.ndarray) -> Tensor:
        entropy = -(done.alpha * done.alpha.clamp_min(LEAST).log()).sum(dim=-1)
        return labels(done, rows) + objective.strength * entropy.mean()

    return measure
