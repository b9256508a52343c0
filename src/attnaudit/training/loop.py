"""The one training loop: dev selection, early stopping, class weight, and a checkpoint after every epoch that resumes exactly."""

from __future__ import annotations

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

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import sha256
from attnaudit.core.progress import Progress
from attnaudit.models.batch import Inputs, PairInputs
from attnaudit.trace.probe import STEP_FOLDER
from attnaudit.training.checkpoint import load_checkpoint, save_checkpoint
from attnaudit.training.settings import TrainingSettings

CHECKPOINT = "checkpoint.safetensors"
LEAST = 1e-30  # in place of a weight of 0, before its logarithm is taken


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
    function: Callable[[int], Any]

    def __call__(self, step: int) -> None:
        if step in self.steps:
            self.function(step)


@dataclass(frozen=True)
class TrainingSplit:
    """A split as training reads it."""

    inputs: Inputs | PairInputs
    loss: Callable[
        [Any, np.ndarray, torch.device], Tensor
    ]  # of model, rows and device: the loss, a mean over the batch of rows
    scores: Callable[
        [Any, str], tuple[float, float]
    ]  # of model and `TrainingSettings.select`: the score that selects, and accuracy


def adam(model: Any, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Adam with the weight decay as an L2 penalty, of which the model's settings may spare its attention."""
    attention = [] if model.settings.attention_decay else list(model.attention.parameters())
    spared = {id(parameter) for parameter in attention}
    groups = [
        {
            "params": [p for p in model.parameters() if id(p) not in spared],
            "weight_decay": settings.weight_decay,
        },
        {"params": attention, "weight_decay": 0.0},
    ]
    return torch.optim.Adam(
        [g for g in groups if g["params"]],
        lr=settings.learning_rate,
        amsgrad=settings.amsgrad,
        fused=True,
    )


def _constant(step: int, steps: int) -> float:
    return 1.0


@dataclass(frozen=True)
class Updates:
    """How weights are updated: the ``optimizer`` of a model, and the ``share`` of the learning rate that a step of so many takes."""

    optimizer: Callable[[Any, TrainingSettings], torch.optim.Optimizer] = adam
    share: Callable[[int, int], float] = _constant


ADAM = Updates()


def minimise(
    model: nn.Module,
    data: TrainingSplit,
    dev: TrainingSplit,
    settings: TrainingSettings,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
    checkpoint: Path | None = None,
    progress: Progress | None = None,
    callback: StepCallback | None = None,
    updates: Updates = ADAM,
) -> list[Epoch]:
    """Minimise the loss on ``data`` in place, and leave ``model`` with the weights of the epoch with the best score on ``dev``.

    Returns every epoch. ``callback`` is called after selected steps. With ``checkpoint`` the state after each epoch is stored in that
    folder, and an interrupted training resumes from it with the same result. Raises InputError for a loss, or a prediction on dev, that is
    not finite.
    """
    with torch_threads(settings.threads):
        return _minimise(
            model.to(device), data, dev, settings, seed, checkpoint, progress, callback, updates
        )


def _minimise(
    model: nn.Module,
    data: TrainingSplit,
    dev: TrainingSplit,
    settings: TrainingSettings,
    seed: int,
    checkpoint: Path | None,
    progress: Progress | None,
    callback: StepCallback | None,
    updates: Updates,
) -> list[Epoch]:
    optimizer = updates.optimizer(model, settings)
    history, best = _resume(checkpoint, model, optimizer)
    steps = len(
        data.inputs.shuffled_batches(settings.batch_size, np.random.default_rng(seed))
    )  # as many in every epoch
    if callback is not None and not history:
        callback(0)
    epochs = (
        settings.epochs if settings.steps is None else math.ceil(settings.steps / steps)
    )  # the last may be cut short
    every = settings.steps or epochs * steps
    for number in range(len(history), epochs):
        if settings.steps is None and _exhausted(history, settings):
            break
        started = time.perf_counter()
        rate = _rate(
            settings.learning_rate * 0.5 ** halvings(history, settings.plateau),
            updates.share,
            every,
        )
        with _dropout_seed(seed, number):
            batches = data.inputs.shuffled_batches(
                settings.batch_size, np.random.default_rng((seed, number))
            )
            left = len(batches) if settings.steps is None else settings.steps - number * steps
            report = None if progress is None else _step_progress(progress, number, epochs, every)
            loss = _epoch(
                model, optimizer, data, rate, batches[:left], number * steps, callback, report
            )
        history.append(
            Epoch(number, loss, *dev.scores(model, settings.select), time.perf_counter() - started)
        )
        if best_epoch(history) is history[-1]:
            best = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        if checkpoint is not None:
            _save(checkpoint, model, optimizer, best, history)
    model.load_state_dict(best or model.state_dict())
    return history


def _step_progress(
    progress: Progress, number: int, epochs: int, steps: int
) -> Callable[[int], None]:
    """Reports optimizer steps done, of those of all epochs."""
    return lambda done: progress(f"train, epoch {number + 1} of {epochs}", done, steps)


def _rate(highest: float, share: Callable[[int, int], float], steps: int) -> Callable[[int], float]:
    """The learning rate of a step, by its number from 0."""
    return lambda step: highest * share(step, steps)


@contextmanager
def _dropout_seed(seed: int, epoch: int) -> Iterator[None]:
    """Within it dropout depends on the seed and the epoch alone, so that a resumed training drops the same units."""
    with torch.random.fork_rng():
        torch.manual_seed(
            int(np.random.SeedSequence((seed, epoch)).generate_state(1, np.uint64)[0]) >> 1
        )
        yield


def halvings(history: list[Epoch], plateau: int | None) -> int:
    """How often the learning rate was halved: once for every ``plateau`` epochs in a row without a better dev score."""
    best, waited, count = -math.inf, 0, 0
    for epoch in history if plateau else ():
        waited = 0 if epoch.dev > best else waited + 1
        best = max(best, epoch.dev)
        if waited == plateau:
            waited, count = 0, count + 1
    return count


def passes(
    model: Any, inputs: Inputs | PairInputs, budget: int
) -> Iterator[tuple[np.ndarray, Any, Any]]:
    """Every batch of ``inputs``, its row numbers first, and what a forward pass over it leaves, without gradients and without dropout."""
    device = next(model.parameters()).device
    with torch.inference_mode(), evaluating(model):
        for rows in inputs.batches_by_length(budget):
            batch = inputs.batch(rows, device)
            yield rows, batch, model(batch)


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Within it torch gives every operation on a CPU ``number`` threads; afterwards as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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


def _epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: TrainingSplit,
    rate: Callable[[int], float],
    batches: list[np.ndarray],
    before: int,
    callback: StepCallback | None,
    report: Callable[[int], None] | None,
) -> float:
    """The mean loss of the rows of these batches; ``before`` counts the steps of earlier epochs."""
    device = next(model.parameters()).device
    total = 0.0
    model.train()
    for done, rows in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = rate(before + done)
        loss = data.loss(model, rows, device)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        value = float(loss.detach())
        require_finite(f"learning rate {rate(before + done):g}", "a loss", value)
        total += value * len(rows)
        if callback is not None:
            callback(before + done + 1)
        if report is not None:
            report(before + done + 1)
    return total / sum(map(len, batches))


def require_finite(
    where: str,
    what: str,
    value: float,
    do: str = "lower training.learning_rate, or look for huge values in --vectors",
) -> None:
    """Raise InputError for a loss, or another number of a model in training, that is not finite."""
    if not math.isfinite(value):
        raise InputError("train", where, f"{what} of {value}", "a finite one", do)


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


def _save(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    best: dict[str, Tensor] | None,
    history: list[Epoch],
) -> None:
    """Replace the checkpoint of ``folder``, whole or not at all: weights, optimizer moments, the best weights so far, the history."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in (best or {}).items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": tensor for name, tensor in state.items()}
    save_checkpoint(
        folder / CHECKPOINT,
        tensors,
        {"history": [asdict(epoch) for epoch in history], "files": _traces(folder)},
    )


def _traces(folder: Path) -> dict[str, str]:
    """sha256 of every trace that lies beside the checkpoint: a training that resumes does not repeat their steps."""
    files = sorted((folder / STEP_FOLDER).glob("*/[!.]*"))
    return {path.relative_to(folder).as_posix(): sha256(path) for path in files}


def _resume(
    folder: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[list[Epoch], dict[str, Tensor] | None]:
    """Restore ``model`` and ``optimizer`` in place; history and best weights, none where checkpoint or traces are not there or damaged.

    Raises RunError for a checkpoint that does not fit.
    """
    found = None if folder is None else load_checkpoint(folder / CHECKPOINT)
    if folder is None or found is None or not found[1]["files"].items() <= _traces(folder).items():
        return [], None
    tensors, state = found
    try:
        model.load_state_dict(_part(tensors, "model."))
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _part(tensors, "optimizer.").items():
            number, key = name.split(".", 1)
            moments.setdefault(int(number), {})[key] = tensor
        optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    except (KeyError, ValueError, RuntimeError) as error:
        reason, expected = " ".join(str(error).split()), "a checkpoint of this very model"
        raise RunError(
            "resume training", str(folder / CHECKPOINT), reason, expected, "remove it to retrain"
        ) from error
    return [Epoch(**epoch) for epoch in state["history"]], _part(tensors, "best.")


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
