"""Collect the trace of a translator: one row per gold token and head.

A row keeps only a few words of the vocabulary. These are the gold token and the words with the
highest probability, under the model's own attention or with all of it on one position. Their
readouts are exact, and ``covered`` is the model's probability of all kept words. The model's own
choice is always kept, so a row's prediction is right exactly when the model is right.
``importance_relevance`` is the output relevance of Snell et al. 2021, over the whole vocabulary.
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

# Padded target tokens of a batch.
BUDGET = 512
SHARD_PAIRS = 256
# Logits in memory at a time, 128 MB in float32. Output relevance has one per head, target position,
# source position and word, so the vocabulary would otherwise decide the memory.
CELLS = 32_000_000
GOLD = "the gold token"
PER_ROW = ("offset", "prediction", "covered")
PER_HEAD = ("alpha", "readout", "offset", "importance_relevance")


def check_settings(translator: Translator, settings: PairCollectSettings) -> None:
    """Check that a translator can be traced with these settings.

    Args:
        translator: The translator.
        settings: Settings of the trace.

    Raises:
        InputError: The model has no attention, or fewer words than a row is to keep.
    """
    if translator.model.settings.attention == "none":
        expected, advice = "a model with attention", "bilinear, additive or uniform"
        raise InputError("collect", "model.attention", "none", expected, advice)
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
    """Collect the trace of a translator shard by shard.

    Args:
        translator: A trained translator.
        pairs: The pairs.
        name: Name of their split.
        settings: Settings of the trace.
        metadata: Entries to add to the trace's metadata.
        progress: Receives the number of pairs done.

    Yields:
        Shards with one row per gold token (``query``; the last one is EOS) and head. ``prediction``
        has a class for each kept word; class 0 is the gold token, which ``gold`` names.
        ``rationale`` marks the source units aligned with it, if alignments are known.

    Raises:
        InputError: The model has no attention, or fewer words than a row is to keep.
    """
    settings = settings or PairCollectSettings()
    check_settings(translator, settings)
    with frozen(translator.model):
        for start in range(0, len(pairs), SHARD_PAIRS):
            if progress is not None:
                progress("collect", start, len(pairs))
            part = pairs.take(np.arange(start, min(start + SHARD_PAIRS, len(pairs))))
            yield _Collector(translator, part, name, settings, dict(metadata or {})).shard()


def change_of_output(
    translator: Translator, pairs: Pairs, trace: Trace, alpha: Ragged, name: str = "test"
) -> Float[np.ndarray, " n"]:
    """Measure how far other attention of one head moves the distribution over all words.

    Args:
        translator: The translator.
        pairs: The traced pairs.
        trace: Their trace.
        alpha: Other attention for the head of each row; the other heads keep their own.
        name: Name of the split.

    Returns:
        TVD over all words, for each row of the trace.
    """
    model, heads = translator.model, translator.model.settings.heads
    inputs, moved = translator.inputs(pairs, f"{name} split"), np.full(len(trace), np.nan)
    # In this order each pair is one block of rows; the trace itself may have any order.
    order = _by_place(trace)
    first = np.searchsorted(trace.instance[order], pairs.instance)
    with frozen(model), torch.no_grad():
        for rows in inputs.batches_by_length(BUDGET):
            done = model(inputs.batch(rows, next(model.parameters()).device))
            for head in range(heads):
                # A row asks about its own head only, so heads are replaced one at a time.
                given = done.alpha.clone()
                own = [
                    order[start + head : start + heads * size : heads]
                    for start, size in zip(first[rows], inputs.tokens[rows], strict=True)
                ]
                for place, block in enumerate(own):
                    weights = alpha.take(block).values.reshape(len(block), -1)
                    given[place, head, : len(block)] = torch.from_numpy(weights)
                combined = model.combined_from_attention(given, done.hidden, done.states)
                distance = _tvd(model, combined, done.combined).cpu().numpy()
                for place, block in enumerate(own):
                    moved[block] = distance[place, : len(block)]
    return moved


def _by_place(trace: Trace) -> np.ndarray:
    """Return row numbers, sorted by instance, query and head."""
    names = ("head", "query", "instance")
    return np.lexsort([trace.array(name) for name in names if trace.has(name)])


def _tvd(
    model: EncoderDecoder, one: Float[Tensor, "B U e"], other: Float[Tensor, "B U e"]
) -> Float[Tensor, "B U"]:
    """Return the TVD over all words between two inputs of the output layer."""
    p, q = (torch.softmax(model.logits(combined), dim=-1) for combined in (one, other))
    return 0.5 * (p - q).abs().sum(dim=-1)


@dataclass(frozen=True)
class _Collector:
    """State shared by the batches of a shard."""

    translator: Translator
    pairs: Pairs
    name: str
    settings: PairCollectSettings
    metadata: dict[str, Any]

    def shard(self) -> Trace:
        inputs = self.translator.inputs(self.pairs, f"{self.name} split")
        texts = self.translator.units(self.pairs.source)
        batches = inputs.batches_by_length(BUDGET)
        whole = concatenate([self._batch(inputs, rows, texts) for rows in batches])
        return whole.take(_by_place(whole))

    def _batch(self, inputs: PairInputs, rows: np.ndarray, texts: list[list[str]]) -> Trace:
        model, scores = self.translator.model, self.settings.scores
        batch, heads = inputs.batch(rows, next(model.parameters()).device), model.settings.heads
        with torch.no_grad():
            columns = _measure(model, model(batch), batch, self.settings.words)
        if "gradient" in scores:
            columns["gradient"] = _gradient(model, batch)
        if "loo" in scores:
            with torch.no_grad():
                columns["loo"] = _leave_one_out(model, batch)
        written = batch.written
        gold = batch.gold[written].cpu().numpy()
        row, query = (part.cpu().numpy() for part in written.nonzero(as_tuple=True))
        others = (f"another word ({k})" for k in range(1, self.settings.words))
        shared = {
            "activation": "softmax",
            "class_names": (GOLD, *others),
            "metadata": self.metadata,
            "origin": f"{self.name} split",
            "instance": self.pairs.instance[rows[row]],
            "split": [self.name] * len(row),
            "label": np.zeros(len(row), np.int32),
            "tokens": [texts[rows[place]] for place in row.tolist()],
            "query": query.astype(np.int32),
            "gold": [model.target.words[number] for number in gold.tolist()],
            "rationale": _aligned(batch, gold),
        }

        def of_head(head: int) -> Trace:
            values = {
                name: _column(value[:, head] if name in PER_HEAD else value, written, name)
                for name, value in columns.items()
            }
            number = None if heads == 1 else np.full(len(row), head, np.int32)
            return Trace.from_arrays(**shared, **values, head=number)

        return concatenate([of_head(head) for head in range(heads)])


def _column(values: Tensor, written: Tensor, name: str) -> Any:
    """Return one row per gold token; columns with a value per source position are ragged."""
    rows = values[written].float().cpu().numpy()
    if name in PER_ROW:
        return rows
    return Ragged.from_lengths(rows.reshape(-1, *rows.shape[2:]), np.full(len(rows), rows.shape[1]))


def _aligned(batch: PairBatch, gold: Int[np.ndarray, " n"]) -> list[list[bool] | None] | None:
    """Mark the source units aligned with each gold token; None for EOS and unaligned tokens."""
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
    """Return attention, readout, offset, prediction and relevance of every target position."""
    heads, (size, longest), length = done.alpha.shape[1], batch.gold.shape, batch.source.shape[1]
    # With all weight on one position, there are logits for each head, target and source position.
    at_once = max(1, CELLS // (heads * longest * length * len(model.target)))
    parts = [
        _measure_some(model, done, batch.gold, slice(start, start + at_once), words)
        for start in range(0, size, at_once)
    ]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _measure_some(
    model: EncoderDecoder,
    done: PairForward,
    gold: Int[Tensor, "B U"],
    rows: slice,
    words: int,
) -> dict[str, Tensor]:
    alpha, gold = done.alpha[rows], gold[rows]
    heads, length = alpha.shape[1], alpha.shape[3]
    logits = model.logits(done.combined[rows])
    of_position = model.readouts(done.hidden[rows]) @ model.output.weight.T  # (B, H, T, V)
    others = logits[:, None] - alpha @ of_position  # (B, H, U, V), without the head's own part
    # With all weight of a head on one position, (B, H, U, T, V).
    on_one = torch.log_softmax(others[:, :, :, None] + of_position[:, :, None], dim=-1)
    own = torch.log_softmax(logits, dim=-1)
    nearest = torch.maximum(own, on_one.amax(dim=(1, 3)))
    # The model's own choice is always kept; else a wrong prediction could look right.
    nearest.scatter_(-1, own.argmax(dim=-1, keepdim=True), torch.inf)
    # The gold word, then the other words with the highest scores: (B, U, K).
    rest = nearest.scatter(-1, gold[..., None], -torch.inf).topk(words - 1, dim=-1).indices
    chosen = torch.cat([gold[..., None], rest], dim=-1)
    of_queries = of_position[:, :, None].expand(-1, -1, alpha.shape[2], -1, -1)
    expected = gold[:, None, :, None, None].expand(-1, heads, -1, length, 1)
    return {
        "alpha": alpha,
        "readout": of_queries.gather(
            -1, chosen[:, None, :, None].expand(-1, heads, -1, length, -1)
        ),
        "offset": others.gather(-1, chosen[:, None].expand(-1, heads, -1, -1)),
        "prediction": torch.softmax(logits.gather(-1, chosen).double(), dim=-1),
        "covered": own.gather(-1, chosen).exp().sum(dim=-1),
        "importance_relevance": on_one.gather(-1, expected)[..., 0],
    }


def _gradient(model: EncoderDecoder, batch: PairBatch) -> Float[Tensor, "B U T"]:
    """Return ``|e_s · ∂p(gold_t)/∂e_s|`` with attention held fixed, as in Jain & Wallace 2019."""
    embedded = model.source_embedding(batch.source).detach().requires_grad_()
    with torch.enable_grad():
        hidden, start = model.from_embedded(embedded)
        states, _ = model.decoder(model.target_embedding(batch.before), start)
        # Detached states hold attention fixed: no gradient flows through its scores.
        alpha = model.attend(hidden.detach(), states.detach()).alpha
        logits = model.logits(model.combined_from_attention(alpha, hidden, states))
        gold = torch.softmax(logits, dim=-1).gather(-1, batch.gold[..., None])[..., 0]
        # All gold tokens of a pair depend on the same source tokens, so each needs its own backward
        # pass. The pairs of a batch share a pass, because they are independent.
        slopes = [
            torch.autograd.grad(column.sum(), embedded, retain_graph=True)[0]
            for column in gold.unbind(1)
        ]
    return torch.stack([(slope * embedded.detach()).sum(dim=-1).abs() for slope in slopes], dim=1)


def _leave_one_out(model: EncoderDecoder, batch: PairBatch) -> Float[Tensor, "B U T"]:
    """Return the TVD over all words when each source token is deleted and the model run again."""
    base, source, falls = model(batch).combined, batch.source, []
    for place in range(source.shape[1]):
        rest = torch.cat([source[:, :place], source[:, place + 1 :]], dim=1)
        falls.append(_tvd(model, model.write(rest, batch.before), base))
    return torch.stack(falls, dim=-1)
