"""Train many seeds of a copying model in parallel, and measure them as they learn.

Each seed has its own weights, batches and optimizer, and no operation combines two seeds. So a seed
ends with the same bits on any number of threads and next to any other seeds.
"""

import json
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attnaudit.copying.model import Copier, Symbols, as_symbols, descend
from attnaudit.copying.study import Copying
from attnaudit.core import Progress, RunError, silent
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.planted.sequences import Sequences
from attnaudit.stats.agreement import agreement
from attnaudit.training.checkpoint import (
    load_checkpoint,
    restore_training,
    save_checkpoint,
    training_tensors,
)
from attnaudit.training.loop import require_finite, torch_threads

# Output relevance holds S × B × V logits for each written symbol, so B is bounded.
SEQUENCES_AT_ONCE = 32


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Means over the written positions; measures of attention are None while it is uniform.

    Attributes:
        loss: Cross-entropy in nats.
        token: Share whose most probable symbol is the gold one, given the gold symbols before it.
        attention: Share whose largest weight, mean over heads, is at the source of the symbol.
        relevance: Share whose highest output relevance is at the source of the symbol.
        relevance_least: Share whose lowest output relevance is there. A high share means that the
            dictionary is inverted.
        attention_symbol: Like ``attention``, but any position with the symbol counts.
        relevance_symbol: Like ``relevance``, but any position with the symbol counts.
        entropy: Entropy of attention in nats, mean over heads.
        agreement: Share whose largest weight is in the top 5 % of output relevance
            (`stats.agreement`).
        attended: Median distance in positions from the symbol's source to the largest weight;
            negative if the weight is before the source.
        heads: ``attention`` of each head.
    """

    loss: float
    token: float
    attention: float | None = None
    relevance: float
    relevance_least: float
    attention_symbol: float | None = None
    relevance_symbol: float
    entropy: float | None = None
    agreement: float | None = None
    attended: float | None = None
    heads: tuple[float, ...]


@torch.no_grad()
def evaluate(
    model: Copier,
    source: Int64[np.ndarray, "N S"],
    gold: Int64[np.ndarray, "N T"],
    positions: Int64[np.ndarray, " T"],
    uniform: bool = False,
) -> Evaluation:
    """Evaluate a model on sequences.

    Args:
        model: The model.
        source: Symbols to read.
        gold: Symbols to write.
        positions: Source position of each written symbol.
        uniform: True to hold attention at 1/S.

    Returns:
        Means over all written symbols.
    """
    expected = torch.from_numpy(positions)
    parts = []
    for start in range(0, len(source), SEQUENCES_AT_ONCE):
        rows = slice(start, start + SEQUENCES_AT_ONCE)
        symbols, targets = as_symbols(source[rows], gold[rows])
        parts.append(_evaluate_batch(model, symbols, targets, expected, uniform))
    values = {
        name: torch.cat([part[name].flatten() for part in parts]).double() for name in parts[0]
    }
    offset = values.pop("offset", None)
    means = {name: float(value.mean()) for name, value in values.items()}
    heads = tuple(means.pop(f"head {k}") for k in range(model.heads) if not uniform)
    # The median, because a few weights far from the source would dominate a mean.
    attended = None if offset is None else float(np.median(offset.numpy()))
    return Evaluation(**means, attended=attended, heads=heads)


def _evaluate_batch(
    model: Copier, source: Symbols, gold: Symbols, expected: Int64[Tensor, " T"], uniform: bool
) -> dict[str, Tensor]:
    """Return one value per written position, and one entropy per position and head."""
    result = model(source, gold, uniform)
    logp, relevance = result.logits.log_softmax(2), model.output_relevance(result, gold)
    symbols, relevant = source.t(), relevance.argmax(2)
    values = {
        "loss": -logp.gather(2, gold[..., None]),
        "token": logp.argmax(2) == gold,
        "relevance": relevant == expected,
        "relevance_least": relevance.argmin(2) == expected,
        "relevance_symbol": symbols.gather(1, relevant) == symbols[:, expected],
    }
    if uniform:
        return values
    alpha, heads = result.alpha.mean(1), enumerate(result.alpha.unbind(1))
    attended = alpha.argmax(2)
    # Traces use the same agreement measure, which takes ragged rows.
    weights, scores = (
        Ragged.from_rows(list(each.flatten(0, 1).numpy())) for each in (alpha, relevance)
    )
    return values | {
        "attention": attended == expected,
        "attention_symbol": symbols.gather(1, attended) == symbols[:, expected],
        "entropy": torch.special.entr(result.alpha).sum(3),
        "agreement": torch.from_numpy(agreement(weights, scores)),
        "offset": attended - expected,
        **{f"head {k}": of_head.argmax(2) == expected for k, of_head in heads},
    }


CHECKPOINT = "copying.safetensors"
# Seconds between checkpoints. Each holds three numbers per weight of every seed (the weight and the
# two moments of Adam), too much to write after every measurement.
PAUSE = 60.0


@dataclass
class Trained:
    """Results of a training.

    Attributes:
        curves: One row per measured step and seed.
        final: One row per seed, measured on test sequences.
        alpha: Attention of each seed on one test sequence, mean over heads.
    """

    curves: list[dict[str, Any]]
    final: list[dict[str, Any]]
    alpha: Float[np.ndarray, "seeds T S"]


def train(
    study: Copying, threads: int, folder: Path | None = None, tell: Progress = silent
) -> Trained:
    """Train all seeds.

    Args:
        study: The settings.
        threads: Number of seeds that are trained in parallel.
        folder: Folder for checkpoints, from which an interrupted training resumes.
        tell: Receives the number of optimizer steps done and to do, summed over seeds.

    Returns:
        Curves and final measurements.

    Raises:
        RunError: The checkpoint belongs to another training.
        InputError: A loss is not finite.
    """
    # One thread per operation: with more, torch would add up products in other parts, which changes
    # the last bits, and its threads would compete with those of the seeds.
    with torch_threads(1), ThreadPoolExecutor(threads) as pool:
        training = Training(study, pool, tell)
        if folder is not None:
            training.resume(folder)
        return training.run()


class Training:
    """The seeds of a training, which advance together from measurement to measurement."""

    def __init__(self, study: Copying, pool: Executor, tell: Progress = silent) -> None:
        self.study, self.pool, self.tell = study, pool, tell
        self.seeds = range(study.seed, study.seed + study.seeds)
        self.models = [Copier.fresh(study, seed) for seed in self.seeds]
        self.curves: list[dict[str, Any]] = []
        self.folder: Path | None = None
        self.saved = time.monotonic()
        self.begin(0)

    def begin(self, stage: int) -> None:
        """Start a stage with new optimizers."""
        self.stage, self.steps = stage, 0
        self.optimizers = [
            torch.optim.Adam(model.parameters(), lr=self.study.learning_rate, fused=True)
            for model in self.models
        ]

    def run(self) -> Trained:
        """Take the remaining steps, then measure (`finish`)."""
        stages = self.study.stages
        self.report(0)
        for number in range(self.stage, len(stages)):
            if number > self.stage:
                self.begin(number)
            # A stage that was resumed already has its first measurement.
            if self.steps == 0:
                self.probe()
            while self.steps < stages[number].steps:
                self.advance()
                self.probe()
                self.save()
        return self.finish()

    def finish(self) -> Trained:
        """Measure every seed on test sequences."""
        stage = self.study.stages[-1]
        final = self.measure("test", self.study.test)
        source, gold = as_symbols(*_pair(stage.sequences, 0, "test", 0, 1))
        with torch.no_grad():
            alpha = [model(source, gold, stage.uniform).alpha[0] for model in self.models]
        return Trained(self.curves, final, np.stack([heads.mean(0).numpy() for heads in alpha]))

    def advance(self) -> None:
        """Train every seed up to the next measurement."""
        study, stage = self.study, self.study.stages[self.stage]
        purpose, first = f"stage {self.stage}", self.steps
        steps = min(study.every, stage.steps - first)

        def train_seed(place):
            seed, size = self.seeds[place], study.batch
            batches = (
                _pair(stage.sequences, seed, purpose, step * size, size)
                for step in range(first, first + steps)
            )
            model, optimizer = self.models[place], self.optimizers[place]
            return sum(descend(model, optimizer, batches, stage.uniform))

        # `map` keeps the order of the seeds, so the error always names the first that diverged. The
        # sum of its losses is not finite if any of them is not.
        for place, loss in enumerate(self.pool.map(train_seed, range(study.seeds))):
            require_finite(
                f"seed {self.seeds[place]}", "a loss", loss, "lower copying.learning_rate"
            )
            self.report((place + 1) * steps)
        self.steps += steps

    def probe(self) -> None:
        """Add one row per seed to the curves."""
        rows = self.measure("probe", self.study.probe)
        labels = {"stage": self.stage, "step": self.steps}
        self.curves += [{**row, **labels} for row in rows]

    def measure(self, purpose: str, count: int) -> list[dict[str, Any]]:
        """Measure every seed on the first ``count`` sequences drawn for ``purpose``."""
        # All seeds are measured on the same sequences, drawn with seed 0. Training draws for other
        # purposes, so its sequences are independent of these.
        stage = self.study.stages[self.stage]
        source, gold = _pair(stage.sequences, 0, purpose, 0, count)
        positions = stage.sequences.right_positions()
        rows = self.pool.map(
            lambda model: evaluate(model, source, gold, positions, stage.uniform), self.models
        )
        return [{"seed": seed, **asdict(row)} for seed, row in zip(self.seeds, rows, strict=True)]

    def report(self, more: int) -> None:
        """Report the optimizer steps of all seeds: those up to `steps`, and ``more``."""
        steps, seeds = [stage.steps for stage in self.study.stages], self.study.seeds
        each = sum(steps[: self.stage]) + self.steps
        self.tell("train", each * seeds + more, sum(steps) * seeds)

    def save(self) -> None:
        """Write a checkpoint, unless the last one is recent or there is no folder."""
        if self.folder is None or time.monotonic() - self.saved < PAUSE:
            return
        state = {
            "stage": self.stage,
            "steps": self.steps,
            "curves": self.curves,
            "course": _course(self.study),
        }
        tensors = {
            f"{place}.{name}": tensor
            for place, pair in enumerate(zip(self.models, self.optimizers, strict=True))
            for name, tensor in training_tensors(*pair).items()
        }
        save_checkpoint(self.folder / CHECKPOINT, tensors, state)
        self.saved = time.monotonic()

    def resume(self, folder: Path) -> None:
        """Keep checkpoints in ``folder``, and resume from the one there if it is intact.

        Raises:
            RunError: The checkpoint belongs to another training.
        """
        self.folder = folder
        checkpoint = load_checkpoint(folder / CHECKPOINT)
        if checkpoint is None:
            return
        tensors, state = checkpoint
        if state.get("course") != _course(self.study):
            raise RunError(
                "resume training",
                str(folder / CHECKPOINT),
                "a checkpoint of another training",
                "a checkpoint of this training",
                "remove it to retrain",
            )
        self.begin(state["stage"])
        self.steps, self.curves = state["steps"], state["curves"]
        for place, pair in enumerate(zip(self.models, self.optimizers, strict=True)):
            restore_training(*pair, tensors, f"{place}.")


def _pair(
    sequences: Sequences, seed: int, purpose: str, first: int, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw sources and targets, ``(count, T)`` each."""
    return sequences.pair(sequences.draw(seed, purpose, first, count))


def _course(study: Copying) -> Any:
    """Describe a training as JSON, to recognise its checkpoints."""
    # Measures are part of it, since the curves of a checkpoint must have the same columns.
    measures = [measure.name for measure in fields(Evaluation)]
    return json.loads(json.dumps({**asdict(study), "measures": measures}))
