"""Translators: trained on gold tokens in the one training loop, measured with teacher forcing, and decoded by beam search."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress
from attnaudit.corpora.corpus import ParallelCorpus
from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, UNK
from attnaudit.models.batch import PairBatch, PairInputs
from attnaudit.models.seq2seq import EncoderDecoder, PairForward, State
from attnaudit.models.translator import Translator
from attnaudit.training.loop import (
    LEAST,
    Epoch,
    TrainingSplit,
    evaluating,
    minimise,
    passes,
    require_finite,
)
from attnaudit.training.settings import DeceivePairs, TrainingSettings

BUDGET = 2_048  # padded target tokens of one evaluation batch
DECODING_BUDGET = 4_096  # padded target tokens of the pairs that are decoded together


def train_translator(
    translator: Translator,
    corpus: ParallelCorpus,
    settings: TrainingSettings,
    objective: DeceivePairs | None = None,
    **options: Any,
) -> list[Epoch]:
    """Train the translator's model in place on gold tokens, with teacher forcing, and keep the weights of its best epoch on dev.

    The dev score is minus the loss on a gold token (``training.select=loss``), else accuracy; ``options`` are those of `minimise`. Raises
    InputError.
    """
    data, dev = (
        _split(translator.inputs(corpus.splits[name], f"{name} split"), objective)
        for name in ("train", "dev")
    )
    return minimise(translator.model, data, dev, settings, **options)


def _split(inputs: PairInputs, objective: DeceivePairs | None) -> TrainingSplit:
    def loss(model: EncoderDecoder, rows: np.ndarray, device: torch.device) -> Tensor:
        batch = inputs.batch(rows, device)
        done = model(batch)
        found = functional.cross_entropy(*gold_logits(model, done, batch))
        return (
            found
            if objective is None
            else found + objective.strength * deception_penalty(done.alpha, batch)
        )

    def scores(model: EncoderDecoder, select: str) -> tuple[float, float]:
        lost, accuracy = teacher_forced(model, inputs)
        require_finite("dev split", "a loss", lost)
        return (-lost if select == "loss" else accuracy), accuracy

    return TrainingSplit(inputs, loss, scores)


def deception_penalty(alpha: Float[Tensor, "B H U T"], batch: PairBatch) -> Tensor:
    """``− log(1 − Σ_{s∈I_t} alpha_ts)``, the mean over gold tokens (`DeceivePairs`). Raises InputError where alignments are not known."""
    if batch.aligned is None:
        raise InputError(
            "train",
            "objective deceive_pairs",
            "a corpus without alignments",
            "files <split>.align next to the texts",
        )
    on = (alpha.mean(dim=1) * batch.aligned).sum(dim=-1)
    counted = batch.written & (batch.aligned.sum(dim=-1) < batch.aligned.shape[-1])
    return -((1.0 - on).clamp_min(LEAST).log() * counted).sum() / batch.written.sum()


def gold_logits(
    model: EncoderDecoder, done: PairForward, batch: PairBatch
) -> tuple[Float[Tensor, "N V"], Int[Tensor, " N"]]:
    """The logits at every gold token of a batch, and its number."""
    there = batch.written
    return model.logits(done.combined[there]), batch.gold[there]


def teacher_forced(model: EncoderDecoder, inputs: PairInputs) -> tuple[float, float]:
    """Mean loss and accuracy over all gold tokens, each written after the gold ones before it; one that is not known is never right."""
    loss, right, count = 0.0, 0, 0
    for _, batch, done in passes(model, inputs, BUDGET):
        logits, gold = gold_logits(model, done, batch)
        loss += float(functional.cross_entropy(logits, gold, reduction="sum"))
        right += int(((logits.argmax(dim=-1) == gold) & (gold != UNK)).sum())
        count += len(gold)
    return loss / count, right / count


def decode(
    model: EncoderDecoder, inputs: PairInputs, beam: int = 5, progress: Progress | None = None
) -> list[list[int]]:
    """The target that the model writes for every source: of the ``beam`` hypotheses kept at each step, the one with the highest mean
    log-probability.

    A target ends with EOS, or at twice the source's length and ten tokens more. Unknown words are never written.
    """
    written: list[list[int]] = [[] for _ in range(len(inputs))]
    device = next(model.parameters()).device
    done = 0
    with torch.inference_mode(), evaluating(model):
        for rows in inputs.batches_by_length(DECODING_BUDGET):
            source = inputs.batch(rows, device).source
            for row, ids in zip(rows.tolist(), _search(model, source, beam), strict=True):
                written[row] = ids
            done += len(rows)
            if progress is not None:
                progress("translate", done, len(inputs))
    return written


def _search(model: EncoderDecoder, source: Int[Tensor, "B T"], beam: int) -> list[list[int]]:
    rows, longest = len(source), 2 * source.shape[1] + 10
    hidden, state = model.encode(source)
    hidden = hidden.repeat_interleave(beam, dim=0)
    state = state[0].repeat_interleave(beam, dim=1), state[1].repeat_interleave(beam, dim=1)
    last = source.new_full((rows * beam,), BOS)
    score = torch.full((rows, beam), -torch.inf, device=source.device)
    score[:, 0] = 0.0  # all beams are the same at first
    length, tokens = torch.zeros_like(score), source.new_full((rows, beam, 0), PAD)
    for _ in range(longest):
        step, state = _next(model, hidden, last, state)
        score, length, tokens, origin = _extend(
            score, length, tokens, step.view(rows, beam, -1), last.view(rows, beam)
        )
        place = (origin + beam * torch.arange(rows, device=source.device)[:, None]).flatten()
        state, last = (state[0][:, place], state[1][:, place]), tokens[..., -1].flatten()
        if _ended(last).all():
            break
    best = (score / length.clamp_min(1)).argmax(dim=1)
    return [
        [t for t in tokens[row, k].tolist() if t not in (PAD, EOS)]
        for row, k in enumerate(best.tolist())
    ]


def _next(
    model: EncoderDecoder, hidden: Tensor, last: Int[Tensor, " n"], state: State
) -> tuple[Float[Tensor, "n V"], State]:
    """Log-probabilities of what may be written next; after the end that is nothing more, at no cost."""
    states, state = model.decoder(model.target_embedding(last)[:, None], state)
    logits = model.logits(model.attend(hidden, states).combined[:, 0])
    logits[:, [PAD, UNK, BOS]] = -torch.inf
    scores = torch.log_softmax(logits, dim=-1)
    ended = _ended(last)
    scores[ended] = -torch.inf
    scores[ended, PAD] = 0.0
    return scores, state


def _extend(
    score: Tensor,
    length: Tensor,
    tokens: Tensor,
    step: Float[Tensor, "B k V"],
    last: Int[Tensor, "B k"],
) -> tuple[Tensor, ...]:
    """The best continuations of every row: their scores, lengths and tokens, and the beam that each goes on from."""
    beam, words = step.shape[1:]
    found, place = (score[..., None] + step).flatten(1).topk(beam, dim=1)
    origin, word = place // words, place % words
    longer = torch.gather(length, 1, origin) + (word != PAD)
    before = torch.gather(tokens, 1, origin[..., None].expand(-1, -1, tokens.shape[2]))
    return found, longer, torch.cat([before, word[..., None]], dim=2), origin


def _ended(last: Tensor) -> Tensor:
    return (last == EOS) | (last == PAD)
