"""Collect from a translator: a trace row for every gold token, whose attention is over the source.

The model's output is a softmax over a whole vocabulary. A row keeps of it the gold token and the words that come nearest to it, whether
under the model's own attention or with all of it on one position: the readout of these is exact, and ``covered`` says how much of the
model's probability they hold. The model's own choice is always among them, so that a row's prediction is right where the model is. What the
paper calls output relevance is ``importance_relevance``, over the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Pairs
from attnaudit.corpora.prepare.vocabulary import EOS
from attnaudit.models.batch import PairBatch, PairInputs
from attnaudit.models.seq2seq import EncoderDecoder, PairForward
from attnaudit.models.translator import Translator
from attnaudit.trace import Trace, concatenate
from attnaudit.tracing.settings import PairCollectSettings
from attnaudit.tracing.texts import frozen

BUDGET = 512  # padded target tokens of a batch
SHARD_PAIRS = 256
CELLS = 32_000_000  # logits that are held at once
GOLD = "the gold token"
PER_ROW = ("offset", "prediction", "covered")
PER_HEAD = ("alpha", "readout", "offset", "importance_relevance")


def check_settings(translator: Translator, settings: PairCollectSettings) -> None:
    """Raise InputError where a translator's pairs cannot be recorded so."""
    if translator.model.settings.attention == "none":
        raise InputError(
            "collect",
            "model.attention",
            "none",
            "a model with attention",
            "bilinear, additive or uniform",
        )
    if settings.words > len(translator.model.target):
        got = f"{settings.words}, with a vocabulary of {len(translator.model.target)}"
        raise InputError("collect", "setting collect.words", got, "no more than there are words")


def collect_pairs(
    translator: Translator,
    pairs: Pairs,
    name: str,
    settings: PairCollectSettings | None = None,
    *,
    metadata: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Iterator[Trace]:
    """The trace of a translator on ``pairs`` in shards: a row for each gold token (``query``, EOS the last), and head.

    ``prediction`` is over ``words`` words, class 0 the gold token; ``gold`` names it. ``rationale`` marks the source units that are aligned
    with it, where that is known. Raises InputError for a model without attention.
    """
    settings = settings or PairCollectSettings()
    check_settings(translator, settings)
    with frozen(translator.model):
        for start in range(0, len(pairs), SHARD_PAIRS):
            if progress is not None:
                progress("collect", start, len(pairs))
            part = pairs.take(np.arange(start, min(start + SHARD_PAIRS, len(pairs))))
            yield _Work(translator, part, name, settings, dict(metadata or {})).shard()


def change_of_output(
    translator: Translator, pairs: Pairs, trace: Trace, alpha: Ragged, name: str = "test"
) -> Float[np.ndarray, " n"]:
    """TVD over all words of each row of ``trace``, of all ``pairs``, with ``alpha`` as one head's attention, others as they are."""
    model, heads = translator.model, translator.model.settings.heads
    inputs, found = translator.inputs(pairs, f"{name} split"), np.full(len(trace), np.nan)
    order = np.lexsort(
        [trace.array(key) for key in ("head", "query", "instance") if trace.has(key)]
    )
    first = np.searchsorted(trace.instance[order], pairs.instance)
    with frozen(model), torch.no_grad():
        for rows in inputs.batches_by_length(BUDGET):
            done = model(inputs.batch(rows, next(model.parameters()).device))
            base, given = torch.softmax(model.logits(done.combined), dim=-1), done.alpha.clone()
            blocks = [
                order[start : start + heads * size]
                for start, size in zip(first[rows], inputs.tokens[rows], strict=True)
            ]
            for place, block in enumerate(blocks):
                weights = torch.from_numpy(alpha.take(block).values).view(-1, heads, given.shape[3])
                given[place, :, : len(weights)] = weights.transpose(0, 1)
            for head in range(heads):
                mine = done.alpha.clone()
                mine[:, head] = given[:, head]
                changed = torch.softmax(
                    model.logits(model.combined_from_attention(mine, done.hidden, done.states)),
                    dim=-1,
                )
                moved = (0.5 * (changed - base).abs().sum(dim=-1)).cpu().numpy()
                for place, block in enumerate(blocks):
                    found[block[head::heads]] = moved[place, : len(block) // heads]
    return found


@dataclass(frozen=True)
class _Work:
    """What the traces of a shard's batches share."""

    translator: Translator
    pairs: Pairs
    name: str
    settings: PairCollectSettings
    metadata: dict[str, Any]

    def shard(self) -> Trace:
        inputs = self.translator.inputs(self.pairs, f"{self.name} split")
        texts = self.translator.units(self.pairs.source)
        found = [self._batch(inputs, rows, texts) for rows in inputs.batches_by_length(BUDGET)]
        whole = concatenate(found)
        place = [whole.array(name) for name in ("head", "query", "instance") if whole.has(name)]
        return whole.take(np.lexsort(place))

    def _batch(self, inputs: PairInputs, rows: np.ndarray, texts: list[list[str]]) -> Trace:
        model, words = self.translator.model, self.translator.model.target.words
        batch, heads = inputs.batch(rows, next(model.parameters()).device), model.settings.heads
        there, gold = batch.written, batch.gold[batch.written].cpu().numpy()
        with torch.no_grad():
            measured = _measure(model, model(batch), batch, self.settings.words)
            scores = {"loo": _leave_one_out(model, batch)} if "loo" in self.settings.scores else {}
        if "gradient" in self.settings.scores:
            scores = {"gradient": _gradient(model, batch), **scores}
        of, at = (part.cpu().numpy() for part in there.nonzero(as_tuple=True))
        return concatenate(
            [
                Trace.from_arrays(
                    activation="softmax",
                    class_names=(
                        GOLD,
                        *(f"another word ({k})" for k in range(1, self.settings.words)),
                    ),
                    metadata=self.metadata,
                    origin=f"{self.name} split",
                    instance=self.pairs.instance[rows[of]],
                    split=[self.name] * len(of),
                    label=np.zeros(len(of), np.int32),
                    tokens=[texts[rows[row]] for row in of.tolist()],
                    query=at.astype(np.int32),
                    gold=[words[number] for number in gold.tolist()],
                    **{
                        name: _column(value[:, head] if name in PER_HEAD else value, there, name)
                        for name, value in measured.items()
                    },
                    rationale=_aligned(batch, gold),
                    head=None if heads == 1 else np.full(len(of), head, np.int32),
                    **{name: _column(value, there, name) for name, value in scores.items()},
                )
                for head in range(heads)
            ]
        )


def _column(values: Tensor, there: Tensor, name: str) -> Any:
    """A row for each gold token that is no padding; a ragged column of rows of one length where there is a value for each position."""
    rows = values[there].float().cpu().numpy()
    if name in PER_ROW:
        return rows
    return Ragged.from_lengths(rows.reshape(-1, *rows.shape[2:]), np.full(len(rows), rows.shape[1]))


def _aligned(batch: PairBatch, gold: Int[np.ndarray, " n"]) -> list[list[bool] | None] | None:
    """The source units aligned with each gold token; unknown of EOS, and of a token without any."""
    if batch.aligned is None:
        return None
    marks = batch.aligned[batch.written].cpu().numpy() > 0
    return [
        row.tolist() if row.any() and number != EOS else None
        for row, number in zip(marks, gold.tolist(), strict=True)
    ]


def _measure(
    model: EncoderDecoder, done: PairForward, batch: PairBatch, words: int
) -> dict[str, Tensor]:
    """Attention, readout, offset, prediction and relevance of every target position, a few texts at a time."""
    heads, (size, longest), length = done.alpha.shape[1], batch.gold.shape, batch.source.shape[1]
    at_once = max(1, CELLS // (heads * longest * length * len(model.target)))
    parts = [
        _measure_some(model, done, batch, slice(start, start + at_once), words)
        for start in range(0, size, at_once)
    ]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _measure_some(
    model: EncoderDecoder, done: PairForward, batch: PairBatch, rows: slice, words: int
) -> dict[str, Tensor]:
    alpha, gold = done.alpha[rows], batch.gold[rows]
    logits = model.logits(done.combined[rows])
    of_position = model.readouts(done.hidden[rows]) @ model.output.weight.T  # (B, H, T, V)
    of_head = alpha @ of_position  # (B, H, U, V)
    others = logits[:, None] - of_head
    on_one = torch.log_softmax(
        others[:, :, :, None] + of_position[:, :, None], dim=-1
    )  # all weight of a head on one position
    own = torch.log_softmax(logits, dim=-1)
    nearest = torch.maximum(own, on_one.amax(dim=(1, 3)))
    nearest.scatter_(
        -1, own.argmax(dim=-1, keepdim=True), torch.inf
    )  # what the model would write is there
    chosen = _nearest(nearest, gold, words)  # (B, U, K)
    kept = chosen[:, None, :, None].expand(-1, alpha.shape[1], -1, alpha.shape[-1], -1)
    return {
        "alpha": alpha,
        "readout": of_position[:, :, None].expand(-1, -1, alpha.shape[2], -1, -1).gather(-1, kept),
        "offset": others.gather(-1, chosen[:, None].expand(-1, alpha.shape[1], -1, -1)),
        "prediction": torch.softmax(logits.gather(-1, chosen).double(), dim=-1),
        "covered": own.gather(-1, chosen).exp().sum(dim=-1),
        "importance_relevance": on_one.gather(
            -1, gold[:, None, :, None, None].expand(-1, alpha.shape[1], -1, alpha.shape[-1], 1)
        )[..., 0],
    }


def _nearest(
    score: Float[Tensor, "B U V"], gold: Int[Tensor, "B U"], words: int
) -> Int[Tensor, "B U K"]:
    """The gold word, and those of the greatest scores besides it."""
    others = score.scatter(-1, gold[..., None], -torch.inf).topk(words - 1, dim=-1).indices
    return torch.cat([gold[..., None], others], dim=-1)


def _gradient(model: EncoderDecoder, batch: PairBatch) -> Float[Tensor, "B U T"]:
    """``|e_s · ∂p(gold_t)/∂e_s|``, attention held fixed, as Jain & Wallace 2019 do: one backward pass for each target position."""
    embedded = model.source_embedding(batch.source).detach().requires_grad_()
    with torch.enable_grad():
        hidden, start = model.from_embedded(embedded)
        states, _ = model.decoder(model.target_embedding(batch.before), start)
        alpha = model.attend(hidden.detach(), states.detach()).alpha
        gold = torch.softmax(
            model.logits(model.combined_from_attention(alpha, hidden, states)), dim=-1
        ).gather(-1, batch.gold[..., None])[..., 0]
        slopes = [
            torch.autograd.grad(gold[:, at].sum(), embedded, retain_graph=True)[0]
            for at in range(gold.shape[1])
        ]
    return torch.stack([(slope * embedded.detach()).sum(dim=-1).abs() for slope in slopes], dim=1)


def _leave_one_out(model: EncoderDecoder, batch: PairBatch) -> Float[Tensor, "B U T"]:
    """TVD of the distribution over all words when a source token is left out and everything is run again."""
    base = torch.softmax(model.logits(model(batch).combined), dim=-1)
    length, falls = batch.source.shape[1], []
    for place in range(length):
        rest = torch.cat([batch.source[:, :place], batch.source[:, place + 1 :]], dim=1)
        without = model.write(rest, batch.before)
        falls.append(0.5 * (torch.softmax(model.logits(without), dim=-1) - base).abs().sum(dim=-1))
    return torch.stack(falls, dim=-1)
