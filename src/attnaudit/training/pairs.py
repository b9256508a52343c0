"""Training on pairs: the loss on gold tokens, or one that keeps attention off those that are aligned, in the one training loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress
from attnaudit.corpora.corpus import ParallelCorpus
from attnaudit.corpora.prepare.vocabulary import UNK
from attnaudit.models.batch import PairBatch, PairInputs
from attnaudit.models.seq2seq import EncoderDecoder, PairForward
from attnaudit.models.translator import Translator
from attnaudit.training.loop import Epoch, StepCallback, evaluating, minimise
from attnaudit.training.objectives import LEAST
from attnaudit.training.settings import DeceivePairs, TrainingSettings

BUDGET = 2_048  # padded target tokens of one evaluation batch


def train_translator(
    translator: Translator, corpus: ParallelCorpus, settings: TrainingSettings, *, seed: int = 0, device: str | torch.device = "cpu",
    checkpoint: Path | None = None, progress: Progress | None = None, objective: DeceivePairs | None = None,
    callback: StepCallback | None = None,
) -> list[Epoch]:  # fmt: skip
    """Train the translator's model in place on gold tokens, with teacher forcing, and keep the weights of its best epoch on dev.

    The dev score is minus the loss on a gold token (``training.select=loss``), else accuracy. ``checkpoint`` and ``callback`` are as in
    `attnaudit.training.loop.train`. Raises InputError.
    """
    data, dev = (_Pairs(translator.inputs(corpus.splits[name], f"{name} split"), objective) for name in ("train", "dev"))
    return minimise(
        translator.model, data, dev, settings, seed=seed, device=device, checkpoint=checkpoint, progress=progress, callback=callback
    )


@dataclass(frozen=True)
class _Pairs:
    inputs: PairInputs
    objective: DeceivePairs | None

    def __len__(self) -> int:
        return len(self.inputs)

    def batches(self, size: int, random: np.random.Generator) -> list[np.ndarray]:
        return self.inputs.shuffled_batches(size, random)

    def loss(self, model: EncoderDecoder, rows: np.ndarray, device: torch.device) -> Tensor:
        batch = self.inputs.batch(rows, device)
        done = model(batch)
        loss = functional.cross_entropy(*gold_logits(model, done, batch))
        return loss if self.objective is None else loss + self.objective.strength * deception_penalty(done.alpha, batch)

    def scores(self, model: EncoderDecoder, select: str) -> tuple[float, float]:
        loss, accuracy = teacher_forced(model, self.inputs)
        return (-loss if select == "loss" else accuracy), accuracy


def deception_penalty(alpha: Float[Tensor, "B H U T"], batch: PairBatch) -> Tensor:
    """``− log(1 − Σ_{s∈I_t} alpha_ts)``, the mean over gold tokens (`DeceivePairs`). Raises InputError where alignments are not known."""
    if batch.aligned is None:
        raise InputError("train", "objective deceive_pairs", "a corpus without alignments", "files <split>.align next to the texts")
    on = (alpha.mean(dim=1) * batch.aligned).sum(dim=-1)
    counted = batch.written & (batch.aligned.sum(dim=-1) < batch.aligned.shape[-1])
    return -((1.0 - on).clamp_min(LEAST).log() * counted).sum() / batch.written.sum()


def gold_logits(model: EncoderDecoder, done: PairForward, batch: PairBatch) -> tuple[Float[Tensor, "N V"], Int[Tensor, " N"]]:
    """The logits at every gold token of a batch, and its number."""
    there = batch.written
    return model.logits(done.combined[there]), batch.gold[there]


def passes(model: EncoderDecoder, inputs: PairInputs, budget: int = BUDGET) -> Iterator[tuple[np.ndarray, PairBatch, PairForward]]:
    """Every batch of ``inputs`` with what a pass over it leaves, without gradients and without dropout."""
    device = next(model.parameters()).device
    with torch.inference_mode(), evaluating(model):
        for rows in inputs.batches_by_length(budget):
            batch = inputs.batch(rows, device)
            yield rows, batch, model(batch)


def teacher_forced(model: EncoderDecoder, inputs: PairInputs) -> tuple[float, float]:
    """Mean loss and accuracy over all gold tokens, each written after the gold ones before it; one that is not known is never right."""
    loss, right, count = 0.0, 0, 0
    for _, batch, done in passes(model, inputs):
        logits, gold = gold_logits(model, done, batch)
        loss += float(functional.cross_entropy(logits, gold, reduction="sum"))
        right += int(((logits.argmax(dim=-1) == gold) & (gold != UNK)).sum())
        count += len(gold)
    return loss / count, right / count
