"""The training loop: selection on dev, early stopping, and checkpoints that resume exactly."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnaudit.core import InputError, Progress, RunError, sha256, silent
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
# Logarithms of weights are taken of at least this. It is far below any weight that matters, and
# float32 still represents it as a normal number.
SMALLEST_WEIGHT = 1e-30


@dataclass(frozen=True)
class Epoch:
    """The result of one epoch.

    Attributes:
        epoch: Number of the epoch, from 0.
        loss: Mean training loss in nats.
        dev: Score that selects the epoch: ROC-AUC of a classifier (one against the rest for
            several classes), accuracy (always with a question), or minus the loss.
        dev_accuracy: Accuracy on dev.
        seconds: Duration in seconds.
    """

    epoch: int
    loss: float
    dev: float
    dev_accuracy: float
    seconds: float


@dataclass(frozen=True)
class TrainingSplit:
    """A split that is ready for training.

    Attributes:
        inputs: The rows.
        loss: Maps model, row numbers and device to the mean loss of these rows.
        scores: Maps model and `TrainingSettings.select` to the score that selects the epoch and to
            the accuracy.
    """

    inputs: Inputs | PairInputs
    loss: Callable[[Any, np.ndarray, torch.device], Tensor]
    scores: Callable[[Any, str], tuple[float, float]]


def adam(model: Any, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Build Adam with an L2 penalty.

    Args:
        model: The model; its settings say whether the penalty applies to the attention
            (`ModelSettings.attention_decay`).
        settings: Learning rate, penalty and variant.

    Returns:
        The optimizer.
    """
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
class TrainingOptions:
    """Options of one training besides its settings.

    Attributes:
        seed: Seed of the order of batches and of dropout.
        device: Device of the model.
        checkpoint: Folder that keeps the state after each epoch. An interrupted training resumes
            from it with the same result.
        progress: Receives the number of optimizer steps done.
        callback: Called with the number of each optimizer step after it; step 0 is before the first
            update. The model is in training mode during the call. The function must not change
            weights, gradients, modes or random state. Steps of epochs that a checkpoint already
            holds are not repeated.
        optimizer: Makes the optimizer of a model.
        share: Maps a step and the number of steps to a share of the learning rate.
    """

    seed: int = 0
    device: str | torch.device = "cpu"
    checkpoint: Path | None = None
    progress: Progress = silent
    callback: Callable[[int], Any] | None = None
    optimizer: Callable[[Any, TrainingSettings], torch.optim.Optimizer] = adam
    share: Callable[[int, int], float] = lambda step, steps: 1.0


def minimise(
    model: nn.Module,
    data: TrainingSplit,
    dev: TrainingSplit,
    settings: TrainingSettings,
    **options: Any,
) -> list[Epoch]:
    """Minimise the loss on ``data``, and keep the weights of the best epoch on ``dev``.

    Args:
        model: The model; its weights change in place.
        data: The split to learn.
        dev: The split that selects the epoch.
        settings: Settings of the training.
        **options: Fields of `TrainingOptions`.

    Returns:
        All epochs.

    Raises:
        InputError: A loss, or a prediction on dev, is not finite.
        RunError: The checkpoint belongs to another model.
    """
    chosen = TrainingOptions(**options)
    with torch_threads(settings.threads):
        return _Loop(model.to(chosen.device), data, settings, chosen).run(dev)


class _Loop:
    """The state of a training: model, optimizer, epochs so far and their best weights."""

    def __init__(
        self,
        model: nn.Module,
        data: TrainingSplit,
        settings: TrainingSettings,
        options: TrainingOptions,
    ) -> None:
        self.model, self.data, self.settings, self.options = model, data, settings, options
        self.optimizer = options.optimizer(model, settings)
        self.history: list[Epoch] = []
        self.best: dict[str, Tensor] | None = None
        # Every epoch has the same number of batches, so any seed gives it.
        self.steps_an_epoch = len(self.batches(options.seed))
        self.steps = settings.steps or settings.epochs * self.steps_an_epoch
        self.epochs = math.ceil(self.steps / self.steps_an_epoch)

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
            # The next epoch changes the weights in place, so the best ones are copied now.
            if best_epoch(self.history) is self.history[-1]:
                weights = self.model.state_dict()
                self.best = {name: tensor.detach().clone() for name, tensor in weights.items()}
            if folder is not None:
                self.save(folder)
        self.model.load_state_dict(self.best or self.model.state_dict())
        return self.history

    def epoch(self, number: int) -> float:
        """Train on every batch once, up to the last step, and return the mean loss of the rows."""
        settings = self.settings
        device = next(self.model.parameters()).device
        # Computed from the history, which checkpoints hold, so no schedule needs to be stored.
        highest = settings.learning_rate * 0.5 ** halvings(self.history, settings.plateau)
        first, total = number * self.steps_an_epoch, 0.0
        # The order depends on seed and epoch only, so a resumed training sees the same batches.
        # With `settings.steps` the last epoch may be cut short.
        batches = self.batches((self.options.seed, number))[: self.steps - first]
        self.model.train()
        with _dropout_seed(self.options.seed, number):
            for step, rows in enumerate(batches, first):
                rate = highest * self.options.share(step, self.steps)
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                loss = self.data.loss(self.model, rows, device)
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()
                # After a NaN all later steps are worthless, so every step is checked.
                value = float(loss.detach())
                require_finite(f"learning rate {rate:g}", "a loss", value)
                # The last batch may be smaller, so losses are weighted by rows.
                total += value * len(rows)
                self.report(number, step + 1)
        return total / sum(map(len, batches))

    def report(self, epoch: int, step: int) -> None:
        """Inform callback and progress that ``step`` optimizer steps are done."""
        if self.options.callback is not None:
            self.options.callback(step)
        self.options.progress(f"train, epoch {epoch + 1} of {self.epochs}", step, self.steps)

    def save(self, folder: Path) -> None:
        """Write a checkpoint into ``folder``, replacing an earlier one atomically."""
        tensors = training_tensors(self.model, self.optimizer)
        tensors |= {f"best.{name}": tensor for name, tensor in (self.best or {}).items()}
        history = [asdict(epoch) for epoch in self.history]
        state = {"history": history, "files": _trace_digests(folder)}
        save_checkpoint(folder / CHECKPOINT, tensors, state)

    def resume(self, folder: Path) -> None:
        """Resume from the checkpoint in ``folder``, unless it or its traces are damaged.

        Raises:
            RunError: The checkpoint belongs to another model.
        """
        checkpoint = load_checkpoint(folder / CHECKPOINT)
        if checkpoint is None:
            return
        tensors, state = checkpoint
        # Steps before the checkpoint are not repeated, so their traces must be intact.
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
    """Return the sha256 of each trace of a step in the folder of the checkpoint."""
    # Names that begin with a dot are temporary files of a write that was interrupted.
    files = sorted((folder / STEP_FOLDER).glob("*/[!.]*"))
    return {path.relative_to(folder).as_posix(): sha256(path) for path in files}


@contextmanager
def _dropout_seed(seed: int, epoch: int) -> Iterator[None]:
    """Make dropout depend on seed and epoch only, so that a resumed training drops the same."""
    with torch.random.fork_rng():
        state = np.random.SeedSequence((seed, epoch)).generate_state(1, np.uint64)
        torch.manual_seed(int(state[0]) >> 1)
        yield


def halvings(history: list[Epoch], plateau: int | None) -> int:
    """Count how often the learning rate has been halved.

    Args:
        history: The epochs so far.
        plateau: Number of epochs in a row without a better dev score after which the rate is
            halved; None for never.

    Returns:
        The number of halvings.
    """
    best, waited, count = -math.inf, 0, 0
    for epoch in history if plateau else ():
        waited = 0 if epoch.dev > best else waited + 1
        best = max(best, epoch.dev)
        if waited == plateau:
            waited, count = 0, count + 1
    return count


def best_epoch(history: list[Epoch]) -> Epoch:
    """Return the epoch with the best dev score; ties go to accuracy, then to the first one."""
    return max(history, key=lambda epoch: (epoch.dev, epoch.dev_accuracy))


def _exhausted(history: list[Epoch], settings: TrainingSettings) -> bool:
    """Return True if no later epoch can be kept: dev is perfect, or patience has run out."""
    if not history:
        return False
    best, patience = best_epoch(history), settings.patience
    perfect = settings.select != "loss" and (best.dev, best.dev_accuracy) == (1.0, 1.0)
    return perfect or (patience is not None and history[-1].epoch - best.epoch >= patience)


def passes(
    model: Any, inputs: Inputs | PairInputs, budget: int
) -> Iterator[tuple[np.ndarray, Any, Any]]:
    """Run a model over all rows without gradients and without dropout.

    Args:
        model: The model.
        inputs: The rows.
        budget: Largest padded size of a batch in positions.

    Yields:
        Row numbers, batch and result of each forward pass, short rows first.
    """
    device = next(model.parameters()).device
    with torch.inference_mode(), evaluating(model):
        for rows in inputs.batches_by_length(budget):
            batch = inputs.batch(rows, device)
            yield rows, batch, model(batch)


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Let every torch operation on a CPU use ``number`` threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout off inside the block, and restore each module's mode afterwards."""
    # Modules may differ in mode, so one flag for the whole model would not restore them.
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def without_gradients(model: nn.Module) -> Iterator[None]:
    """Disable gradients of all parameters inside the block, and restore them afterwards."""
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    model.requires_grad_(False)
    try:
        yield
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)


def require_finite(
    place: str,
    quantity: str,
    value: float,
    advice: str = "lower training.learning_rate, or look for huge values in --vectors",
) -> None:
    """Raise InputError if a number of a training is not finite.

    Args:
        place: Where the number occurred.
        quantity: Noun for the number, with its article.
        value: The number.
        advice: A suggestion for the user.

    Raises:
        InputError: The number is NaN or infinite.
    """
    if not math.isfinite(value):
        raise InputError("train", place, f"{quantity} of {value}", "a finite one", advice)
