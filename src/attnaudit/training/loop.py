"""The one training loop: dev selection, early stopping, class weight, and a checkpoint after every epoch that resumes exactly."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress
from attnaudit.corpora import Corpus
from attnaudit.models.batch import Inputs, batches_by_length
from attnaudit.models.classifier import AttentionModel, Forward
from attnaudit.models.seq2seq import EncoderDecoder
from attnaudit.stats.classification import classification_scores
from attnaudit.stats.measures import predicted_class
from attnaudit.training.checkpoint import load_checkpoint, save_checkpoint
from attnaudit.training.objectives import Loss, labels_loss, objective_loss
from attnaudit.training.settings import Objective, TrainingSettings

Trainable = AttentionModel | EncoderDecoder
POOL = 50  # batches that are sorted by length together: little padding, and still another order every epoch
EVALUATION_BUDGET = 32_768  # padded positions of one evaluation batch


@dataclass(frozen=True)
class Epoch:
    """The result of one epoch: ``loss`` is the mean training loss (nats), ``seconds`` its duration.

    ``dev`` is the score that selects the epoch: ROC-AUC of a classifier (one against the rest for several classes), accuracy (always with
    a question), or minus the loss.
    """

    epoch: int
    loss: float
    dev: float
    dev_accuracy: float
    seconds: float


@dataclass(frozen=True)
class StepCallback:
    """``function(step)`` is called after each of these optimizer ``steps``, 0 being before the first.

    The model is then in training mode; the function must not change weights, gradients, modes or random state. Steps of epochs that a
    checkpoint already holds are not repeated.
    """

    steps: tuple[int, ...]
    function: Callable[[int], None]

    def __call__(self, step: int) -> None:
        if step in self.steps:
            self.function(step)


def train(
    model: AttentionModel, corpus: Corpus, settings: TrainingSettings, *, seed: int = 0,
    device: str | torch.device = "cpu", checkpoint: Path | None = None, progress: Progress | None = None,
    objective: Objective | None = None, callback: StepCallback | None = None,
) -> list[Epoch]:  # fmt: skip
    """Train ``model`` in place and leave it with the weights of its best epoch on dev; returns every epoch.

    It minimises the loss on labels, or ``objective``. ``callback`` is called after selected steps. With ``checkpoint`` the state after each
    epoch is stored in that folder, and an interrupted training resumes from it with the same result. The test split is not used. Raises
    InputError for a split that lacks what the objective needs and for a loss that is not finite.
    """
    data, dev = (_Texts.of(model, corpus, name, settings.class_weight, objective) for name in ("train", "dev"))
    return minimise(model, data, dev, settings, seed=seed, device=device, checkpoint=checkpoint, progress=progress, callback=callback)


@runtime_checkable
class TrainingSplit(Protocol):
    """A split as training reads it."""

    def __len__(self) -> int: ...

    def batches(self, size: int, random: np.random.Generator) -> list[np.ndarray]:
        """All rows in batches of about ``size``."""
        ...

    def loss(self, model: Any, rows: np.ndarray, device: torch.device) -> Tensor:
        """The loss, a mean over the batch of ``rows``."""
        ...

    def scores(self, model: Any, select: str) -> tuple[float, float]:
        """The score that selects, and accuracy."""
        ...


def minimise(
    model: Trainable, data: TrainingSplit, dev: TrainingSplit, settings: TrainingSettings, *, seed: int = 0,
    device: str | torch.device = "cpu", checkpoint: Path | None = None, progress: Progress | None = None,
    callback: StepCallback | None = None,
) -> list[Epoch]:  # fmt: skip
    """The training loop: minimise the loss on ``data``, select the epoch by the score on ``dev``; see `train`."""
    model.to(device)
    optimizer = _optimizer(model, settings)
    history, best = _resume(model, optimizer, checkpoint)
    steps = len(data.batches(settings.batch_size, np.random.default_rng(seed)))  # as many in every epoch
    if callback is not None and not history:
        callback(0)
    epochs = _epochs(settings, steps)
    for number in range(len(history), epochs):
        if settings.steps is None and _exhausted(history, settings):
            break
        started = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * 0.5 ** halvings(history, settings.plateau)
        with _dropout_seed(seed, number):
            batches = data.batches(settings.batch_size, np.random.default_rng((seed, number)))
            left = len(batches) if settings.steps is None else settings.steps - number * steps
            report = None if progress is None else _step_progress(progress, number, epochs, settings.steps or epochs * steps)
            loss = _epoch(model, optimizer, data, settings, batches[:left], number * steps, callback, report)
        history.append(Epoch(number, loss, *dev.scores(model, settings.select), time.perf_counter() - started))
        if best_epoch(history) is history[-1]:
            best = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        if checkpoint is not None:
            save_checkpoint(checkpoint, model, optimizer, best, [asdict(epoch) for epoch in history])
    model.load_state_dict(best or model.state_dict())
    return history


def _step_progress(progress: Progress, number: int, epochs: int, steps: int) -> Callable[[int], None]:
    """Reports optimizer steps done, of those of all epochs."""
    return lambda done: progress(f"train, epoch {number + 1} of {epochs}", done, steps)


@contextmanager
def _dropout_seed(seed: int, epoch: int) -> Iterator[None]:
    """Within it dropout depends on the seed and the epoch alone, so that a resumed training drops the same units."""
    with torch.random.fork_rng():
        torch.manual_seed(int(np.random.SeedSequence((seed, epoch)).generate_state(1, np.uint64)[0]) >> 1)
        yield


def _epochs(settings: TrainingSettings, steps: int) -> int:
    """The largest number of epochs, of ``steps`` each; the last may be cut short."""
    return settings.epochs if settings.steps is None else math.ceil(settings.steps / steps)


def halvings(history: list[Epoch], plateau: int | None) -> int:
    """How often the learning rate was halved: once for every ``plateau`` epochs in a row without a better dev score."""
    best, waited, count = -math.inf, 0, 0
    for epoch in history if plateau else ():
        waited = 0 if epoch.dev > best else waited + 1
        best = max(best, epoch.dev)
        if waited == plateau:
            waited, count = 0, count + 1
    return count


@dataclass(frozen=True)
class _Texts:
    """A split of labelled texts, and the loss on it."""

    inputs: Inputs
    label: np.ndarray
    batch_loss: Loss

    @classmethod
    def of(cls, model: AttentionModel, corpus: Corpus, name: str, weighted: bool, objective: Objective | None) -> _Texts:
        """``weighted``: positives weigh as much as there are negatives per positive in train."""
        split, learned = corpus.splits[name], corpus.splits["train"].label
        positives = max(int((learned == 1).sum()), 1)
        loss = labels_loss(model, split.label, (len(learned) - positives) / positives if weighted else 1.0)
        return cls(model.inputs(split), split.label, loss if objective is None else objective_loss(objective, model, split, loss))

    def __len__(self) -> int:
        return len(self.inputs)

    def batches(self, size: int, random: np.random.Generator) -> list[np.ndarray]:
        return shuffled_batches(self.inputs.lengths, size, random)

    def loss(self, model: AttentionModel, rows: np.ndarray, device: torch.device) -> Tensor:
        return self.batch_loss(model(self.inputs.batch(rows, device)), rows)

    def scores(self, model: AttentionModel, select: str) -> tuple[float, float]:
        probabilities = predict(model, self.inputs)
        predicted = predicted_class(probabilities)
        accuracy = float((predicted == self.label).mean())
        if select == "loss":
            return -self._mean_loss(model), accuracy
        if model.has_question or select == "accuracy":
            return accuracy, accuracy
        return classification_scores(self.label.astype(np.int64), predicted, probabilities, seed=0, resamples=1).roc_auc, accuracy

    def _mean_loss(self, model: AttentionModel) -> float:
        return sum(float(self.batch_loss(done, rows)) * len(rows) for rows, done in _passes(model, self.inputs)) / len(self)


def predict(model: AttentionModel, inputs: Inputs) -> Float[np.ndarray, "n K"]:
    """Probabilities of every row, in order, without gradients and without dropout."""
    out = np.zeros((len(inputs), model.outputs))
    for rows, done in _passes(model, inputs):
        out[rows] = model.probabilities(done.logits).double().cpu().numpy()
    return out


def _passes(model: AttentionModel, inputs: Inputs) -> Iterator[tuple[np.ndarray, Forward]]:
    device = next(model.parameters()).device
    with torch.inference_mode(), evaluating(model):
        for rows in batches_by_length(inputs.lengths, EVALUATION_BUDGET):
            yield rows, model(inputs.batch(rows, device))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Within it dropout is off; afterwards every module is back in its mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _optimizer(model: Trainable, settings: TrainingSettings) -> torch.optim.Adam:
    attention = [] if model.settings.attention_decay else list(model.attention.parameters())
    spared = {id(parameter) for parameter in attention}
    groups = [
        {"params": [p for p in model.parameters() if id(p) not in spared], "weight_decay": settings.weight_decay},
        {"params": attention, "weight_decay": 0.0},
    ]
    return torch.optim.Adam([g for g in groups if g["params"]], lr=settings.learning_rate, amsgrad=settings.amsgrad, fused=True)


def _epoch(
    model: Trainable, optimizer: torch.optim.Adam, data: TrainingSplit, settings: TrainingSettings, batches: list[np.ndarray], before: int,
    callback: StepCallback | None, report: Callable[[int], None] | None,
) -> float:  # fmt: skip
    """The mean loss of the rows of these batches; ``before`` counts the steps of earlier epochs."""
    device = next(model.parameters()).device
    total = 0.0
    model.train()
    for done, rows in enumerate(batches):
        loss = data.loss(model, rows, device)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += _finite(float(loss.detach()), settings) * len(rows)
        if callback is not None:
            callback(before + done + 1)
        if report is not None:
            report(before + done + 1)
    return total / sum(map(len, batches))


def _finite(loss: float, settings: TrainingSettings) -> float:
    if not math.isfinite(loss):
        expected, do = "a finite one", "lower training.learning_rate, or look for huge values in --vectors"
        raise InputError("train", f"learning rate {settings.learning_rate:g}", f"a loss of {loss}", expected, do)
    return loss


def shuffled_batches(lengths: np.ndarray, size: int, random: np.random.Generator) -> list[np.ndarray]:
    """All rows in batches of ``size``: shuffled, sorted by length within pools of `POOL` batches, the batches shuffled again."""
    order = random.permutation(len(lengths))
    pools = [order[start : start + POOL * size] for start in range(0, len(order), POOL * size)]
    ordered = [pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]
    batches = [pool[start : start + size] for pool in ordered for start in range(0, len(pool), size)]
    return [batches[k] for k in random.permutation(len(batches))]


def best_epoch(history: list[Epoch]) -> Epoch:
    """The epoch that is kept: the best dev score, of equal ones the most accurate on dev, of equal ones the first."""
    return max(history, key=lambda epoch: (epoch.dev, epoch.dev_accuracy))


def _exhausted(history: list[Epoch], settings: TrainingSettings) -> bool:
    """Whether no further epoch can be kept: one was perfect on dev (the first such is kept), or patience is at its end."""
    if not history:
        return False
    best, patience = best_epoch(history), settings.patience
    perfect = settings.select != "loss" and (best.dev, best.dev_accuracy) == (1.0, 1.0)
    return perfect or (patience is not None and history[-1].epoch - best.epoch >= patience)


def _resume(model: Trainable, optimizer: torch.optim.Adam, checkpoint: Path | None) -> tuple[list[Epoch], dict[str, Tensor] | None]:
    state = load_checkpoint(checkpoint, model, optimizer) if checkpoint is not None else None
    return ([Epoch(**epoch) for epoch in state.history], state.best) if state else ([], None)
