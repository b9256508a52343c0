"""A training of many seeds to copy, with measurements during training."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attnaudit.copying.lstm import Workspace
from attnaudit.copying.network import Forward, Sizes, forward
from attnaudit.copying.output import OUTPUTS, Weights
from attnaudit.copying.side_by_side import SideBySide, as_tensors, shifted, workers
from attnaudit.core.errors import RunError
from attnaudit.core.progress import Progress, silent
from attnaudit.corpora.planted.sequences import Sequences
from attnaudit.stats.agreement import top_count
from attnaudit.training.checkpoint import load_checkpoint, save_checkpoint
from attnaudit.training.loop import require_finite

FILE = "side_by_side.safetensors"
_AT_ONCE = 32  # sequences that are measured together
PAUSE = 60.0  # seconds: a checkpoint holds three numbers for each weight of every seed


@dataclass(frozen=True)
class Stage:
    """``steps`` of training on ``sequences``; with ``uniform`` attention is held at 1/T."""

    sequences: Sequences
    steps: int
    uniform: bool = False


@dataclass(frozen=True)
class CopyingConfig:
    """All settings of a copying training; ``target`` names the function from source to target (`corpora.planted.sequences.TARGETS`)."""

    stages: tuple[Stage, ...]
    sizes: Sizes
    seeds: tuple[int, ...]
    target: str = "copy"
    batch: int = 128
    learning_rate: float = 1e-3
    every: int = 10
    probe: int = 32
    test: int = 512

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages)

    def pair(
        self, sequences: Sequences, seed: int, purpose: str, first: int, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sources and what is to be written of them, ``(count, T)`` both."""
        return sequences.pair(sequences.draw(seed, purpose, first, count), self.target)


@dataclass(frozen=True)
class Measured:
    """Means over the positions that are written: cross-entropy (nats), and shares of them.

    ``token``: the right symbol is the likeliest, given the right ones before it. ``attention``: the largest weight (of the mean over
    heads) is at the position that it comes from; ``heads`` the same for each head. ``relevance``: the position that makes the right symbol
    likeliest, had it all the attention, is that one; ``relevance_least``: the one that makes it least likely is, of a
    dictionary that is upside down. ``attention_symbol`` and ``relevance_symbol``: any position with the right symbol
    counts, which differs only where a source may hold a symbol twice. ``entropy`` of attention (nats, mean over heads).

    Two do not suppose where attention should look: ``agreement``, the share whose largest weight is at a position among the top 5 % by
    output relevance (`stats.agreement`, with its way with ties), and ``attended``, the median number of positions by which the largest
    weight is after the right one; negative: before it. Measures of attention are None where it is uniform.
    """

    loss: float
    token: float
    attention: float | None
    relevance: float
    relevance_least: float
    attention_symbol: float | None
    relevance_symbol: float
    entropy: float | None
    agreement: float | None
    attended: float | None
    heads: tuple[float, ...]


@dataclass
class Trained:
    """``curves`` has a row per seed and measured step, ``final`` a row per seed, ``alpha`` that of one test sequence for each."""

    curves: list[dict[str, Any]]
    final: list[dict[str, Any]]
    alpha: Float[np.ndarray, "seeds T S"]


def train(
    config: CopyingConfig, threads: int, keep: Path | None = None, tell: Progress = silent
) -> Trained:
    """Train all seeds; a checkpoint in the folder ``keep``, at most every `PAUSE` seconds, is where an interrupted training resumes.

    Raises RunError for a checkpoint of another training, and InputError for a loss that is not finite.
    """
    with workers(threads) as pool:
        work = _Work(config, pool, tell, keep)
        work.report(0)
        for number in range(work.stage, len(config.stages)):
            work.through(number)
        return work.ended()


@dataclass
class _Work:
    config: CopyingConfig
    pool: ThreadPoolExecutor
    tell: Progress
    keep: Path | None
    stage: int = 0
    curves: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.models = SideBySide.fresh(self.config.sizes, self.config.seeds)
        self.saved = time.monotonic()
        self.finished = 0  # seeds × steps, for the bar
        if self.keep is not None:
            self._restore(self.keep / FILE)

    def through(self, number: int) -> None:
        """What is left of a stage."""
        stage, config = self.config.stages[number], self.config
        if self.stage < number:
            self.stage = number
            self.models.reset_optimizer()
        if self.models.steps == 0:
            self._probe(number)
        while self.models.steps < stage.steps:
            first = self.models.steps
            steps = min(config.every, stage.steps - first)
            losses = self.models.advance(
                self.pool,
                lambda seed, step: config.pair(
                    stage.sequences, seed, f"stage {number}", step * config.batch, config.batch
                ),
                steps,
                first,
                begin=stage.sequences.begin,
                learning_rate=config.learning_rate,
                uniform=stage.uniform,
                tell=partial(self.report, steps),
            )
            for seed, total in zip(config.seeds, losses.sum(axis=1).tolist(), strict=True):
                require_finite(f"seed {seed}", "a loss", total, "lower copying.learning_rate")
            self._probe(number)
            self._save()

    def _probe(self, number: int) -> None:
        self.curves += self._rows(
            self.config.stages[number],
            "probe",
            self.config.probe,
            stage=number,
            step=self.models.steps,
        )

    def ended(self) -> Trained:
        """Every seed on test sequences."""
        stage, config = self.config.stages[-1], self.config
        xs, ys = as_tensors(*config.pair(stage.sequences, 0, "test", 0, 1))

        def alpha(place: int) -> np.ndarray:
            made = forward(
                config.sizes,
                self.models.of(place),
                Workspace(),
                xs,
                shifted(ys, stage.sequences.begin),
                stage.uniform,
            )
            return made.alpha[0].mean(0).numpy()

        return Trained(
            self.curves,
            self._rows(stage, "test", config.test),
            np.stack(self.models.each(self.pool, alpha)),
        )

    def _rows(
        self, stage: Stage, purpose: str, count: int, /, **labels: int
    ) -> list[dict[str, Any]]:
        """A row for each seed: what it does with ``count`` sequences."""
        config, begin = self.config, stage.sequences.begin
        pair, positions = (
            config.pair(stage.sequences, 0, purpose, 0, count),
            stage.sequences.right_positions(config.target),
        )

        def one(place: int) -> Measured:
            return measure(
                config.sizes,
                self.models.of(place),
                self.models.workspace(),
                *pair,
                begin,
                positions,
                stage.uniform,
            )

        return [
            {"seed": seed, **labels, **asdict(row)}
            for seed, row in zip(config.seeds, self.models.each(self.pool, one), strict=True)
        ]

    def report(self, steps: int) -> None:
        """So many more steps of one seed are done."""
        self.finished += steps
        self.tell("train", self.finished, self.config.steps * len(self.config.seeds))

    def _save(self) -> None:
        if self.keep is None or time.monotonic() - self.saved < PAUSE:
            return
        state = {
            "stage": self.stage,
            "steps": self.models.steps,
            "curves": self.curves,
            "course": _plain(self.config),
        }
        tensors = {"weights": self.models.weights, "moments": self.models.moments}
        save_checkpoint(self.keep / FILE, tensors, state)
        self.saved = time.monotonic()

    def _restore(self, path: Path) -> None:
        """Resume from a checkpoint of this training, where there is an intact one. Raises RunError for that of another."""
        found = load_checkpoint(path)
        if found is None:
            return
        tensors, state = found
        if state.get("course") != _plain(self.config):
            got, expected = "a checkpoint of another training", "a checkpoint of this training"
            raise RunError("resume training", str(path), got, expected, "remove it to retrain")
        self.models.weights.copy_(tensors["weights"])
        self.models.moments.copy_(tensors["moments"])
        self.stage, self.models.steps, self.curves = state["stage"], state["steps"], state["curves"]
        earlier = sum(stage.steps for stage in self.config.stages[: self.stage])
        self.finished = (earlier + self.models.steps) * len(self.config.seeds)


def _plain(config: CopyingConfig) -> Any:
    """What a checkpoint is of: a config, and what was measured on it."""
    return json.loads(
        json.dumps({**asdict(config), "measures": [one.name for one in fields(Measured)]})
    )


def measure(
    sizes: Sizes,
    weights: Weights,
    workspace: Workspace,
    source: Int64[np.ndarray, "N S"],
    gold: Int64[np.ndarray, "N T"],
    begin: int,
    positions: Int64[np.ndarray, " T"],
    uniform: bool = False,
) -> Measured:
    """What the model does with sequences, ``positions`` are the source positions of the written symbols."""
    parts, right = [], torch.from_numpy(positions)
    for start in range(0, len(source), _AT_ONCE):
        xs, ys = as_tensors(source[start : start + _AT_ONCE], gold[start : start + _AT_ONCE])
        made = forward(sizes, weights, workspace, xs, shifted(ys, begin), uniform)
        parts.append(
            _measured(made, output_relevance(sizes, weights, made, workspace, ys), xs, ys, right)
        )
    values = {
        name: torch.cat([part[name].flatten() for part in parts]).double() for name in parts[0]
    }
    attended = float(np.median(values.pop("offset").numpy()))
    means = {name: float(found.mean()) for name, found in values.items()}
    heads = tuple(means.pop(f"head {k}") for k in range(sizes.heads))
    found = Measured(**means, attended=attended, heads=heads)
    nothing = dict.fromkeys(("attention", "attention_symbol", "entropy", "agreement", "attended"))
    return replace(found, **nothing, heads=()) if uniform else found


def _measured(
    made: Forward,
    relevance: Float[Tensor, "B T S"],
    source: Int64[Tensor, "S B"],
    gold: Int64[Tensor, "T B"],
    right: Int64[Tensor, " T"],
) -> dict[str, Tensor]:
    """A number for each position that is written, and of ``entropy`` for each head of it."""
    logp, alpha = made.logits.log_softmax(2), made.alpha.mean(1)
    attended, relevant = alpha.argmax(2), relevance.argmax(2)
    symbols, expected = source.t(), source.t()[:, right]
    return {
        "loss": -logp.gather(2, gold[..., None]),
        "token": logp.argmax(2) == gold,
        "attention": attended == right,
        "attention_symbol": symbols.gather(1, attended) == expected,
        "relevance": relevant == right,
        "relevance_least": relevance.argmin(2) == right,
        "relevance_symbol": symbols.gather(1, relevant) == expected,
        "entropy": torch.special.entr(made.alpha).sum(3),
        "agreement": agreement(alpha, relevance),
        "offset": attended - right,
        **{f"head {k}": made.alpha[:, k].argmax(2) == right for k in range(made.alpha.shape[1])},
    }


def agreement(
    alpha: Float[Tensor, "B T S"], relevance: Float[Tensor, "B T S"]
) -> Float[Tensor, "B T"]:
    """`stats.agreement` of each row, for rows of one length and without threads of its own: every seed has one already."""
    count = int(top_count(np.array([alpha.shape[2]]))[0])
    border = relevance.topk(count, dim=2).values[..., -1:]
    above, on, first = relevance > border, relevance == border, alpha == alpha.amax(2, keepdim=True)
    share = (count - above.sum(2, keepdim=True)) / on.sum(2, keepdim=True).double()
    inside = torch.where(on, share, above.double())
    return (inside * first).sum(2) / first.sum(2)


def output_relevance(
    sizes: Sizes, weights: Weights, made: Forward, workspace: Workspace, gold: Int64[Tensor, "T B"]
) -> Float[Tensor, "B T S"]:
    """Log-probability of the gold symbol with all attention, of every head, on one position of the source (Snell et al. 2021)."""
    batch, heads, length, size = made.source.shape
    sources = made.source.transpose(1, 2).reshape(batch * length, heads * size)
    brought = (sources @ made.linear.context.t()).view(batch, length, -1)
    states = torch.addmm(
        made.linear.offset, made.decoder.states[1:].flatten(0, 1), made.linear.state.t()
    ).view(*gold.shape, -1)
    found = workspace("relevance", batch, len(gold), length)
    for b in range(batch):
        z = (states[:, b, None] + brought[b]).flatten(0, 1)
        logits = OUTPUTS[sizes.output].scores(weights, z).view(len(gold), length, -1)
        found[b] = logits.gather(2, gold[:, b, None, None].expand(-1, length, 1))[
            ..., 0
        ] - logits.logsumexp(2)
    return found
