"""Collect the trace of a translator: one row per gold token and head.

A prediction is over the whole vocabulary, and the readout is exact. For few words it has a logit
for each; for more it is the input of the output layer, which is the tail. ``importance_relevance``
is the output relevance of Snell et al. 2021.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

from attnaudit.core import InputError, Progress, silent
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Pairs
from attnaudit.corpora.prepare.vocabulary import EOS
from attnaudit.models.batch import PairBatch, PairInputs
from attnaudit.models.seq2seq import EncoderDecoder, PairForward
from attnaudit.models.translator import Translator
from attnaudit.trace import LinearTail, Trace, concatenate
from attnaudit.tracing.replacement import Donors, Predicted, TextReplacement
from attnaudit.tracing.settings import PairCollectSettings, ReplacementSettings
from attnaudit.tracing.texts import frozen

# Padded target tokens of a batch.
BUDGET = 512
SHARD_PAIRS = 64  # with many words, the prediction is most of a row
# Logits in memory at a time, 128 MB in float32. Output relevance has one per head, target position,
# source position and word, so the vocabulary would otherwise decide the memory.
CELLS = 32_000_000
# Up to this many words a row stores logits, and experiments prove most of their bounds. With more
# words that is too slow.
FEW = 128
PER_ROW = ("offset", "prediction")
PER_HEAD = ("alpha", "readout", "offset", "importance_relevance")


def collect_pairs(
    translator: Translator,
    pairs: Pairs,
    name: str,
    settings: PairCollectSettings,
    *,
    replacement: ReplacementSettings | None = None,
    part: np.ndarray | None = None,
    metadata: Mapping[str, Any] | None = None,
    progress: Progress = silent,
) -> Iterator[Trace]:
    """Collect the trace of a translator shard by shard.

    Args:
        translator: A trained translator.
        pairs: The pairs.
        name: Name of their split.
        settings: Settings of the trace.
        replacement: Settings of the copies of sources with words replaced; None for no copies.
        part: Pairs to trace, ascending; by default all. Replacement words come from all pairs.
        metadata: Entries to add to the trace's metadata.
        progress: Receives the number of pairs done.

    Yields:
        Shards with one row per gold token (``query``; the last one is EOS) and head. ``prediction``
        has a class for each word of the vocabulary; ``label`` is the gold token, as is ``gold`` by
        name. ``rationale`` marks the source units aligned with it, if alignments are known.

    Raises:
        InputError: The model has no attention.
    """
    if translator.model.settings.attention == "none":
        advice = "bilinear, additive or uniform"
        raise InputError("collect", "model.attention", "none", "a model with attention", advice)
    replaced = None
    every = np.arange(len(pairs)) if part is None else part
    with frozen(translator.model):
        if replacement is not None and replacement.texts:
            options = {"settings": replacement, "progress": progress}
            replaced = PairReplacement.of(translator, pairs, name, **options)
        for start in range(0, len(every), SHARD_PAIRS):
            progress("collect", start, len(every))
            own = every[start : start + SHARD_PAIRS]
            columns = replaced.of_pairs(own) if replaced else {}
            shared = name, settings, metadata or {}, columns
            yield _Collector(translator, pairs.take(own), *shared).shard()


@dataclass(frozen=True, kw_only=True)
class PairReplacement(TextReplacement):
    """Replacement of source words; a text is a source and the target before a gold token.

    Attributes:
        model: The model, with frozen weights.
        inputs: The pairs.
        pair: Number of each text's pair.
    """

    model: EncoderDecoder
    inputs: PairInputs
    pair: Int64[np.ndarray, " n"]

    @classmethod
    def of(cls, translator: Translator, pairs: Pairs, name: str, **options: Any) -> PairReplacement:
        """Prepare the gold tokens of pairs; ``options`` are settings and progress."""
        inputs = translator.inputs(pairs, f"{name} split")
        pair = np.repeat(np.arange(len(pairs)), inputs.tokens)
        words, instance = inputs.source.take(pair), pairs.instance[pair]
        return cls(
            model=translator.model,
            inputs=inputs,
            pair=pair,
            keys=(instance, Ragged.from_lengths(pair, inputs.tokens).places),
            donors=Donors(words, instance),
            outputs=len(translator.model.target),
            **options,
        )

    def of_pairs(self, pairs: Int64[np.ndarray, " b"]) -> dict[str, pl.Series]:
        """Return the columns of all gold tokens of pairs, which are in ascending order."""
        return self.columns(np.flatnonzero(np.isin(self.pair, pairs)))

    def run(self, rows: Int64[np.ndarray, " b"], copies: int) -> Iterator[Predicted]:
        """Run the copies of one text at a time."""
        model, device = self.model, next(self.model.parameters()).device
        with torch.no_grad():
            for row in rows.tolist():
                lost, ids = self.copies(row, copies)
                written = self.inputs.batch(self.pair[[row]], device).before
                before = written[:, : self.keys[1][row] + 1].expand(copies, -1)
                combined = model.write(torch.from_numpy(ids).to(device), before)
                logits = model.logits(combined[:, -1]).double()
                yield [lost], logits.softmax(dim=-1).cpu().numpy()


@dataclass(frozen=True)
class _Collector:
    """State shared by the batches of a shard."""

    translator: Translator
    pairs: Pairs
    name: str
    settings: PairCollectSettings
    metadata: Mapping[str, Any]
    replaced: Mapping[str, pl.Series]

    def shard(self) -> Trace:
        inputs = self.translator.inputs(self.pairs, f"{self.name} split")
        texts = self.translator.units(self.pairs.source)
        batches = inputs.batches_by_length(BUDGET)
        whole = concatenate([self._batch(inputs, rows, texts) for rows in batches])
        names = ("head", "query", "instance")
        return whole.take(np.lexsort([whole.array(name) for name in names if whole.has(name)]))

    def _batch(self, inputs: PairInputs, rows: np.ndarray, texts: list[list[str]]) -> Trace:
        model, scores = self.translator.model, self.settings.scores
        batch, heads = inputs.batch(rows, next(model.parameters()).device), model.settings.heads
        with torch.no_grad():
            columns = _measure(model, model(batch), batch)
        if "gradient" in scores:
            columns["gradient"] = _gradient(model, batch)
        if "loo" in scores:
            with torch.no_grad():
                columns["loo"] = _leave_one_out(model, batch)
        written = batch.written
        gold = batch.gold[written].cpu().numpy()
        row, query = (part.cpu().numpy() for part in written.nonzero(as_tuple=True))
        token = (np.cumsum(inputs.tokens) - inputs.tokens)[rows[row]] + query
        shared = {
            "activation": "softmax",
            "class_names": model.target.words,
            "tail": _tail(model),
            "metadata": dict(self.metadata),
            "origin": f"{self.name} split",
            "instance": self.pairs.instance[rows[row]],
            "split": [self.name] * len(row),
            "label": gold.astype(np.int32),
            "tokens": [texts[rows[place]] for place in row.tolist()],
            "query": query.astype(np.int32),
            "gold": [model.target.words[number] for number in gold.tolist()],
            "rationale": _aligned(batch, gold),
            **{name: one.gather(token) for name, one in self.replaced.items()},
        }

        def of_head(head):
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


def _measure(model: EncoderDecoder, done: PairForward, batch: PairBatch) -> dict[str, Tensor]:
    """Return attention, readout, offset, prediction and relevance of every target position."""
    alpha, readout = done.alpha, model.readouts(done.hidden)
    offset = done.combined[:, None] - alpha @ readout  # (B, H, U, e), without the head's own part
    at_once = max(1, CELLS // (alpha[0].numel() * len(model.target)))
    pairs = [slice(start, start + at_once) for start in range(0, len(alpha), at_once)]
    relevance = [_relevance(model, readout[k], offset[k], batch.gold[k]) for k in pairs]
    if _tail(model) is None:
        readout, offset = readout @ model.output.weight.T, model.logits(offset)
    return {
        "alpha": alpha,
        "readout": readout[:, :, None].expand(*alpha.shape, -1),
        "offset": offset,
        "prediction": torch.softmax(model.logits(done.combined).double(), dim=-1),
        "importance_relevance": torch.cat(relevance),
    }


def _tail(model: EncoderDecoder) -> LinearTail | None:
    """Return the output layer of a vocabulary; None if readouts of few words are logits."""
    if len(model.target) <= FEW:
        return None
    layer = model.output
    return LinearTail(*(one.detach().cpu().numpy() for one in (layer.weight, layer.bias)))


def _relevance(
    model: EncoderDecoder, readout: Tensor, offset: Tensor, gold: Int[Tensor, "B U"]
) -> Float[Tensor, "B H U T"]:
    """Return the log-probability of gold tokens with all weight of a head on each position."""
    # (B, H, U, T, V), of the inputs of the output layer.
    on_one = model.logits(offset[:, :, :, None] + readout[:, :, None])
    expected = gold[:, None, :, None, None].expand(*on_one.shape[:-1], 1)
    return torch.log_softmax(on_one, dim=-1).gather(-1, expected)[..., 0]


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
        one = model.write(rest, batch.before)
        p, q = (torch.softmax(model.logits(combined), dim=-1) for combined in (one, base))
        falls.append(0.5 * (p - q).abs().sum(dim=-1))
    return torch.stack(falls, dim=-1)
