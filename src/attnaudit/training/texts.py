"""Training of classifiers: the loss on labels, or the loss of an objective."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from attnaudit.core import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Corpus, Split
from attnaudit.corpora.prepare.derived import marks
from attnaudit.models.batch import Inputs, padded
from attnaudit.models.classifier import AttentionModel
from attnaudit.stats.classification import classification_scores
from attnaudit.stats.measures import predicted_class
from attnaudit.training.loop import (
    SMALLEST_WEIGHT,
    Epoch,
    TrainingSplit,
    minimise,
    passes,
    require_finite,
)
from attnaudit.training.settings import (
    Adversary,
    Deceive,
    Distilled,
    Guided,
    Objective,
    TrainingSettings,
)

# Padded positions of one evaluation batch, which bounds memory.
BUDGET = 32_768
Loss = Callable[[Any, np.ndarray], Tensor]
"""Function of a forward pass (``logits``, ``alpha``) and its row numbers: a mean over rows."""
Terms = Iterator[tuple[float, Tensor]]
Penalty = Callable[[Any, np.ndarray], Terms]
"""Function of a forward pass and its row numbers: factors and their terms, a number per row."""


def train(
    model: Any,
    corpus: Corpus,
    settings: TrainingSettings,
    objective: Objective | None = None,
    **options: Any,
) -> list[Epoch]:
    """Train a classifier, and keep the weights of its best epoch on dev.

    Args:
        model: A module with ``inputs(split)``, ``outputs``, ``activation``, ``has_question`` and
            ``probabilities(logits)`` like `AttentionModel`. For a batch it returns ``logits``
            ``(B, K)`` and, for an objective, ``alpha``. It changes in place.
        corpus: The corpus, of which train and dev are used.
        settings: Settings of the training.
        objective: Objective to minimise instead of the loss on labels.
        **options: Fields of `training.loop.TrainingOptions`.

    Returns:
        All epochs.

    Raises:
        InputError: A split lacks what the objective needs, or a loss is not finite.
    """
    data, dev = (
        training_split(model, corpus, name, settings.class_weight, objective)
        for name in ("train", "dev")
    )
    return minimise(model, data, dev, settings, **options)


def training_split(
    model: Any, corpus: Corpus, name: str, weighted: bool, objective: Objective | None
) -> TrainingSplit:
    """Prepare a split for training.

    Args:
        model: The model to train.
        corpus: The corpus.
        name: Name of the split.
        weighted: Weight positives by the number of negatives per positive in train.
        objective: Objective to minimise instead of the loss on labels.

    Returns:
        Inputs, loss and scores of the split.

    Raises:
        InputError: The split lacks what the objective needs.
    """
    split, learned = corpus.splits[name], corpus.splits["train"].label
    # `max` avoids a division by 0 when train has no positives; the weight then has no effect.
    positives = max(int((learned == 1).sum()), 1)
    weight = (len(learned) - positives) / positives if weighted else 1.0
    measure = labels_loss(model, split.label, weight)
    if objective is not None:
        measure = objective_loss(objective, model, split, measure)
    inputs = model.inputs(split)

    def loss(model, rows, device):
        return measure(model(inputs.batch(rows, device)), rows)

    def scores(model, select):
        probabilities = predict(model, inputs)
        require_finite(f"{name} split", "a predicted probability", float(probabilities.sum()))
        predicted = predicted_class(probabilities)
        accuracy = float((predicted == split.label).mean())
        if select == "loss":
            results = passes(model, inputs, BUDGET)
            total = sum(float(measure(done, rows)) * len(rows) for rows, _, done in results)
            require_finite(f"{name} split", "a loss", total)
            return -total / len(inputs), accuracy
        if model.has_question or select == "accuracy":
            return accuracy, accuracy
        label = split.label.astype(np.int64)
        return classification_scores(label, predicted, probabilities).roc_auc, accuracy

    return TrainingSplit(inputs, loss, scores)


def predict(model: Any, inputs: Inputs) -> Float[np.ndarray, "n K"]:
    """Predict without dropout.

    Args:
        model: The model.
        inputs: The rows.

    Returns:
        The probabilities of every row; one column for a sigmoid.
    """
    probabilities = np.zeros((len(inputs), model.outputs))
    for rows, _, done in passes(model, inputs, BUDGET):
        probabilities[rows] = model.probabilities(done.logits).double().cpu().numpy()
    return probabilities


def labels_loss(model: Any, label: np.ndarray, positive_weight: float) -> Loss:
    """Make the loss on labels.

    Args:
        model: The model, for its activation.
        label: Gold class of each row.
        positive_weight: Weight of positives in the binary cross-entropy of a sigmoid. A softmax
            ignores it.

    Returns:
        A function that returns the cross-entropy of a batch in nats.
    """
    gold = torch.from_numpy(label.astype(np.int64))

    def measure(done, rows):
        target = gold[rows].to(done.logits.device)
        if model.activation == "softmax":
            return functional.cross_entropy(done.logits, target)
        return functional.binary_cross_entropy_with_logits(
            done.logits[:, 0],
            target.to(done.logits.dtype),
            pos_weight=torch.tensor(positive_weight, device=done.logits.device),
        )

    return measure


def objective_loss(objective: Objective, model: Any, split: Split, labels: Loss) -> Loss:
    """Make the loss of an objective.

    Args:
        objective: The objective (`training.settings`).
        model: The model to train.
        split: The rows, with the attention or the marks that the objective needs.
        labels: The loss on labels (`labels_loss`).

    Returns:
        A function that returns the loss of a batch.

    Raises:
        InputError: The split lacks what the objective needs.
    """
    if isinstance(objective, Adversary | Distilled):
        labels = _base_distance(model, split, f"objective {objective.kind}")
    penalty = PENALTIES[type(objective)](objective, model, split)

    def measure(done, rows):
        loss = labels(done, rows)
        for strength, per_row in penalty(done, rows):
            loss = loss + strength * per_row.mean()
        return loss

    return measure


def _base_distance(model: AttentionModel, split: Split, where: str) -> Loss:
    """Make the mean TVD to the predictions of a base model."""
    if split.attention is None or split.prediction is None:
        expected = "one taught by the trace of a base model"
        raise InputError("train", where, "a corpus alone", expected)
    prediction = torch.from_numpy(split.prediction.astype(np.float32))

    def measure(done, rows):
        target = prediction[rows].to(done.logits.device)
        return model.distance(model.probabilities(done.logits), target).mean()

    return measure


def _kl(p: Float[Tensor, "B L"], q: Float[Tensor, "B L"]) -> Float[Tensor, " B"]:
    """Return ``KL(p ‖ q)`` in nats."""
    log_p, log_q = p.clamp_min(SMALLEST_WEIGHT).log(), q.clamp_min(SMALLEST_WEIGHT).log()
    return (p * (log_p - log_q)).sum(dim=1)


def _divergence(objective: Adversary, model: AttentionModel, split: Split) -> Penalty:
    if model.settings.heads > 1:
        got = f"a model of {model.settings.heads} heads"
        raise InputError("train", "objective adversary", got, "one attention a text")
    attention = split.attention
    assert attention is not None

    def penalty(done, rows):
        yield -objective.strength, _kl(done.alpha, padded(attention, rows, done.alpha.device))

    return penalty


def _deception(objective: Deceive, model: Any, split: Split) -> Penalty:
    marked = Ragged.from_rows(marks(split, objective.words or "rationale"), bool)
    # No model could avoid the infinite penalty of a text without a permissible token.
    hopeless = torch.from_numpy(marked.reduce(np.logical_and) & (marked.lengths > 0))

    def penalty(done, rows):
        device = done.alpha.device
        # The permissible weight is summed directly: 1 minus the rest would lose its digits near 0.
        # Padding counts as permissible, but it has no weight.
        allowed = 1.0 - padded(marked, rows, device)
        mass = (done.alpha * (allowed if done.alpha.ndim == 2 else allowed[:, None])).sum(dim=-1)
        if mass.ndim == 2:
            # The head with the most attention on impermissible tokens has the least on the others.
            mass = mass.mean(dim=1) if objective.heads == "mean" else mass.amin(dim=1)
        unlikely = -mass.clamp_min(SMALLEST_WEIGHT).log()
        yield objective.strength, unlikely.masked_fill(hopeless[rows].to(device), 0.0)

    return penalty


def _guidance(objective: Guided, model: Any, split: Split) -> Penalty:
    targets = _target(objective, split)

    def penalty(done, rows):
        target = padded(targets, rows, done.alpha.device)
        # A heatmap shows the mean of several heads.
        alpha = done.alpha if done.alpha.ndim == 2 else done.alpha.mean(dim=1)
        yield objective.strength, _kl(target, alpha)
        if objective.alone:
            size = model.head.readout(done.hidden)[:, : target.shape[1]].square().sum(dim=-1)
            inside = target > 0
            yield objective.alone, ((1.0 - target) * inside * size).sum(dim=1) / inside.sum(dim=1)

    return penalty


PENALTIES: dict[type, Callable[[Any, Any, Split], Penalty]] = {
    Adversary: _divergence,
    Deceive: _deception,
    Guided: _guidance,
    Distilled: _guidance,
}


def _target(objective: Guided, split: Split) -> Ragged:
    """Return the target attention of each text, in float32."""
    if objective.target == "given":
        if split.attention is None:
            expected = "one taught by the trace of another model"
            raise InputError("train", "objective guided", "a corpus alone", expected)
        return split.attention
    if objective.target == "last":
        marked = [[k == len(tokens) - 1 for k in range(len(tokens))] for tokens in split.tokens]
    else:
        words = objective.words if objective.target == "words" else "rationale"
        marked = marks(split, words)
        if objective.target == "next":
            marked = [[False, *row[:-1]] for row in marked]
    score = Ragged.from_rows(marked, np.float64)
    # Scores are at most 1, so subtracting 1 keeps low temperatures from overflowing.
    weight = score.with_values(np.exp((score.values - 1.0) / objective.temperature))
    return score.with_values((weight.values / score.spread(weight.sum())).astype(np.float32))
