"""Targets that a model writes by itself: beam search, of which a beam of one is the greedy choice."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnaudit.core.progress import Progress
from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, UNK
from attnaudit.models.batch import PairInputs
from attnaudit.models.seq2seq import EncoderDecoder, State
from attnaudit.training.loop import evaluating

BUDGET = 4_096  # padded target tokens of the pairs that are decoded together


def decode(model: EncoderDecoder, inputs: PairInputs, beam: int = 5, progress: Progress | None = None) -> list[list[int]]:
    """The target that the model writes for every source: of the ``beam`` hypotheses kept at each step, the one with the highest mean
    log-probability.

    A target ends with EOS, or at twice the source's length and ten tokens more. Unknown words are never written.
    """
    written: list[list[int]] = [[] for _ in range(len(inputs))]
    device = next(model.parameters()).device
    done = 0
    with torch.inference_mode(), evaluating(model):
        for rows in inputs.batches_by_length(BUDGET):
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
        score, length, tokens, origin = _extend(score, length, tokens, step.view(rows, beam, -1), last.view(rows, beam))
        place = (origin + beam * torch.arange(rows, device=source.device)[:, None]).flatten()
        state, last = (state[0][:, place], state[1][:, place]), tokens[..., -1].flatten()
        if _ended(last).all():
            break
    best = (score / length.clamp_min(1)).argmax(dim=1)
    return [[t for t in tokens[row, k].tolist() if t not in (PAD, EOS)] for row, k in enumerate(best.tolist())]


def _next(model: EncoderDecoder, hidden: Tensor, last: Int[Tensor, " n"], state: State) -> tuple[Float[Tensor, "n V"], State]:
    """Log-probabilities of what may be written next; after the end that is nothing more, at no cost."""
    states, state = model.decoder(model.target_embedding(last)[:, None], state)
    logits = model.logits(model.attend(hidden, states).combined[:, 0])
    logits[:, [PAD, UNK, BOS]] = -torch.inf
    scores = torch.log_softmax(logits, dim=-1)
    ended = _ended(last)
    scores[ended] = -torch.inf
    scores[ended, PAD] = 0.0
    return scores, state


def _extend(score: Tensor, length: Tensor, tokens: Tensor, step: Float[Tensor, "B k V"], last: Int[Tensor, "B k"]) -> tuple[Tensor, ...]:
    """The best continuations of every row: their scores, lengths and tokens, and the beam that each goes on from."""
    beam, words = step.shape[1:]
    found, place = (score[..., None] + step).flatten(1).topk(beam, dim=1)
    origin, word = place // words, place % words
    longer = torch.gather(length, 1, origin) + (word != PAD)
    before = torch.gather(tokens, 1, origin[..., None].expand(-1, -1, tokens.shape[2]))
    return found, longer, torch.cat([before, word[..., None]], dim=2), origin


def _ended(last: Tensor) -> Tensor:
    return (last == EOS) | (last == PAD)


def words_of(model: EncoderDecoder, written: list[list[int]]) -> list[list[str]]:
    """Numbers of the target's vocabulary as its words."""
    return [[model.target.words[number] for number in row] for row in written]
