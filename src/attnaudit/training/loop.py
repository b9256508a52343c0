"""The one training loop: selection on dev, early stopping, and checkpoints that resume exactly."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import sha256
from attnaudit.core.progress import Progress
from attnaudit.models.batch import Inputs, PairInputs
from attnaudit.training.checkpoint import (
    load_checkpoint,
    restore_training,
    save_checkpoint,
    training_tensors,
    with_prefix,
)
from attnaudit.training.probe import STEP_FOLDER
from attnaudit.training.settings import TrainingSettings

CHECKPOINT = "checkpoint.safetensors"
SMALLEST_WEIGHT = 1e-30  # in place of a weight of 0 whose logarithm is taken


@dataclass(frozen=True)
class Epoch:
    """The result of one epoch.

    Attributes:
        epoch: Its number, from 0.
        loss: Mean training loss in nats.
        dev: Score that selects the epoch: ROC-AUC of a classifier (one against the rest for
            several classes), accuracy (always with a question), or minus the loss.
        dev_accuracy: Accuracy on dev.
        seconds: Its duration.
    """

    epoch: int
    loss: float
    dev: float
    dev_accuracy: float
    seconds: float


@dataclass(frozen=True)
class StepCallback:
    """Calls ``function(step)`` after each of these optimizer ``steps``; 0 is before the first.

    The model is then in training mode; the function must not change weights, gradients, modes or
    random state. Steps of epochs that a checkpoint already holds are not repeated.
    """

    steps: tuple[int, ...]
    function: Callable[[int], Any]

    def __call__(self, step: int) -> None:
        """Call the function if ``step`` is one of the steps."""
        if step in self.steps:
            self.function(step)


@dataclass(frozen=True)
class TrainingSplit:
    """A split as training reads it.

    Attributes:
        inputs: Its rows.
        loss: Maps model, row numbers and device to the mean loss of these rows.
        scores: Maps model and `TrainingSettings.select` to the selecting score and the accuracy.
    """

    inputs: Inputs | PairInputs
    loss: Callable[[Any, np.ndarray, torch.device], Tensor]
    scores: Callable[[Any, str], tuple[float, float]]


def adam(model: Any, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Return Adam with weight decay as an L2 penalty, from which attention may be spared."""
    attention = [] if model.settings.attention_decay else list(model.attention.parameters())
    spared = {id(parameter) for parameter in attention}
    others = [p for p in model.parameters() if id(p) not in spared]
    groups = [
        {"params": others, "weight_decay": settings.weight_decay},
        {"params": attention, "weight_decay": 0.0},
    ]
    return torch.optim.Adam(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        amsgrad=settings.amsgrad,
        fused=True,
    )


@dataclass(frozen=True)
class Updates:
    """How weights are updated.

    Attributes:
        optimizer: Makes the optimizer of a model.
        share: Maps a step and the number of steps to a share of the learning rate.
    """

    optimizer: Callable[[Any, TrainingSettings], torch.optim.Optimizer] = adam
    share: Callable[[int, int], float] = lambda step, steps: 1.0


@dataclass(frozen=True)
class TrainingOptions:
    """What one training needs besides its settings.

    Attributes:
        seed: Decides the order of batches and the dropped units.
        device: Where the model computes.
        checkpoint: Folder in which the state after each epoch is stored, and from which an
            interrupted training resumes with the same result.
        progress: Told the optimizer steps done.
        callback: Called after selected steps.
        updates: How weights are updated.
    """

    seed: int = 0
    device: str | torch.device = "cpu"
    checkpoint: Path | None = None
    progress: Progress | None = None
    callback: StepCallback | None = None
    updates: Updates = Updates()


def minimise(
    model: nn.Module,
    data: TrainingSplit,
    dev: TrainingSplit,
    settings: TrainingSettings,
    **options: Any,
) -> list[Epoch]:
    """Minimise the loss on ``data`` in place, and keep the weights of the best epoch on ``dev``.

    Args:
        model: The model.
        data: The split to learn.
        dev: The split that selects the epoch.
        settings: How to train.
        **options: Fields of `TrainingOptions`.

    Returns:
        Every epoch.

    Raises:
        InputError: A loss, or a prediction on dev, is not finite.
        RunError: The checkpoint does not fit.
    """
    chosen = TrainingOptions(**options)
    with torch_threads(settings.threads):
        return _Loop(model.to(chosen.device), data, settings, chosen).run(dev)


class _Loop:
    """The state of a training: model, optimizer, epochs so far and the best weights of them."""

    def __init__(
        self,
        model: nn.Module,
        data: TrainingSplit,
        settings: TrainingSettings,
        options: TrainingOptions,
    ) -> None:
        self.model, self.data, self.settings, self.options = model, data, settings, options
        self.optimizer = options.updates.optimizer(model, settings)
        self.history: list[Epoch] = []
        self.best: dict[str, Tensor] | None = None
        # Every epoch has as many batches, in an order of its own.
        self.steps_an_epoch = len(self.batches(options.seed))
        if settings.steps is None:
            self.epochs = settings.epochs
            self.steps = self.epochs * self.steps_an_epoch
        else:
            self.epochs = math.ceil(settings.steps / self.steps_an_epoch)
            self.steps = settings.steps

    def batches(self, seed: int | tuple[int, int]) -> list[np.ndarray]:
        random = np.random.default_rng(seed)
        return self.data.inputs.shuffled_batches(self.settings.batch_size, random)

    def run(self, dev: TrainingSplit) -> list[Epoch]:
        folder, callback = self.options.checkpoint, self.options.callback
        if folder is not None:
            self.resume(folder)
        if callback is not None and not self.history:
            callback(0)
        for number in range(len(self.history), self.epochs):
            if self.settings.steps is None and _exhausted(self.history, self.settings):
                break
            started = time.perf_counter()
            loss = self.epoch(number)
            scores = dev.scores(self.model, self.settings.select)
            self.history.append(Epoch(number, loss, *scores, time.perf_counter() - started))
            # Copied at once: the next epoch changes the weights in place.
            if best_epoch(self.history) is self.history[-1]:
                weights = self.model.state_dict()
                self.best = {name: tensor.detach().clone() for name, tensor in weights.items()}
            if folder is not None:
                self.save(folder)
        self.model.load_state_dict(self.best or self.model.state_dict())
        return self.history

    def epoch(self, number: int) -> float:
        """Train on every batch once, up to the last step; return the mean loss of their rows."""
        settings, updates = self.settings, self.options.updates
        device = next(self.model.parameters()).device
        highest = settings.learning_rate * 0.5 ** halvings(self.history, settings.plateau)
        first, total = number * self.steps_an_epoch, 0.0
        # A number of steps may cut the last epoch short; the order of an epoch is its own.
        batches = self.batches((self.options.seed, number))[: self.steps - first]
        self.model.train()
        with _dropout_seed(self.options.seed, number):
            for step, rows in enumerate(batches, first):
                rate = highest * updates.share(step, self.steps)
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                loss = self.data.loss(self.model, rows, device)
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()
                # Checked at every step: after a NaN all later ones are lost.
                value = float(loss.detach())
                require_finite(f"learning rate {rate:g}", "a loss", value)
                total += value * len(rows)
                self.report(number, step + 1)
        return total / sum(map(len, batches))

    def report(self, epoch: int, step: int) -> None:
        """Tell callback and progress that ``step`` optimizer steps are done."""
        if self.options.callback is not None:
            self.options.callback(step)
        if self.options.progress is not None:
            self.options.progress(f"train, epoch {epoch + 1} of {self.epochs}", step, self.steps)

    def save(self, folder: Path) -> None:
        """Replace the checkpoint in ``folder`` as a whole."""
        tensors = training_tensors(self.model, self.optimizer)
        tensors |= {f"best.{name}": tensor for name, tensor in (self.best or {}).items()}
        history = [asdict(epoch) for epoch in self.history]
        state = {"history": history, "files": _trace_digests(folder)}
        save_checkpoint(folder / CHECKPOINT, tensors, state)

    def resume(self, folder: Path) -> None:
        """Go on from the checkpoint in ``folder``, unless it or its traces are damaged.

        Raises:
            RunError: The checkpoint belongs to another model.
        """
        checkpoint = load_checkpoint(folder / CHECKPOINT)
        if checkpoint is None:
            return
        tensors, state = checkpoint
        # The steps before the checkpoint are not repeated, so their traces must be there.
        if not state["files"].items() <= _trace_digests(folder).items():
            return
        try:
            restore_training(self.model, self.optimizer, tensors)
        except (KeyError, ValueError, RuntimeError) as error:
            raise RunError(
                "resume training",
                str(folder / CHECKPOINT),
                " ".join(str(error).split()),
                "a checkpoint of this very model",
                "remove it to retrain",
            ) from error
        self.history = [Epoch(**epoch) for epoch in state["history"]]
        self.best = with_prefix(tensors, "best.")


def _trace_digests(folder: Path) -> dict[str, str]:
    """Return the sha256 of every trace of steps that lies beside the checkpoint."""
    files = sorted((folder / STEP_FOLDER).glob("*/[!.]*"))
    return {path.relative_to(folder).as_posix(): sha256(path) for path in files}


@contextmanager
def _dropout_seed(seed: int, epoch: int) -> Iterator[None]:
    """Let dropout depend on seed and epoch only, so that a resumed training drops the same."""
    with torch.random.fork_rng():
        state = np.random.SeedSequence((seed, epoch)).generate_state(1, np.uint64)
        torch.manual_seed(int(state[0]) >> 1)
        yield


def halvings(history: list[Epoch], plateau: int | None) -> int:
    """Count the halvings of the learning rate.

    Args:
        history: The epochs so far.
        plateau: Epochs in a row without a better dev score that make one; None: never.

    Returns:
        The number of such runs of epochs.
    """
    best, waited, count = -math.inf, 0, 0
    for epoch in history if plateau else ():
        waited = 0 if epoch.dev > best else waited + 1
        best = max(best, epoch.dev)
        if waited == plateau:
            waited, count = 0, count + 1
    return count


def best_epoch(history: list[Epoch]) -> Epoch:
    """Return the first epoch with the best dev score, or the most accurate one of equal scores."""
    return max(history, key=lambda epoch: (epoch.dev, epoch.dev_accuracy))


def _exhausted(history: list[Epoch], settings: TrainingSettings) -> bool:
    """Tell whether no later epoch can be kept: dev is perfect, or patience is at its end."""
    if not history:
        return False
    best, patience = best_epoch(history), settings.patience
    perfect = settings.select != "loss" and (best.dev, best.dev_accuracy) == (1.0, 1.0)
    return perfect or (patience is not None and history[-1].epoch - best.epoch >= patience)


class Pass(NamedTuple):
    """A batch, the numbers of its rows, and the result of a forward pass over it."""

    rows: np.ndarray
    batch: Any
    result: Any


def passes(model: Any, inputs: Inputs | PairInputs, budget: int) -> Iterator[Pass]:
    """Run ``model`` over all rows without gradients and dropout.

    Args:
        model: The model.
        inputs: The rows.
        budget: Padded positions of a batch.

    Yields:
        Every batch with its result.
    """
    device = next(model.parameters()).device
    with torch.inference_mode(), evaluating(model):
        for rows in inputs.batches_by_length(budget):
            batch = inputs.batch(rows, device)
            yield Pass(rows, batch, model(batch))


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Give every torch operation on a CPU ``number`` threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout off inside the block; afterwards every module is back in its mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def require_finite(
    place: str,
    quantity: str,
    value: float,
    advice: str = "lower training.learning_rate, or look for huge values in --vectors",
) -> None:
    """Raise InputError if a loss, or another number of a training, is not finite."""
    if not math.isfinite(value):
        raise InputError("train", place, f"{quantity} of {value}", "a finite one", advice)
