"""Batches of token ids.

Texts begin with BOS, end with EOS and are padded on the right. The sources of a batch of pairs have
one length and no padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from attnaudit.core.ragged import Ragged
from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, SPECIAL, UNK

# Batches that are sorted by length together. Sorting the whole split would pad less, but each batch
# would then hold nearly the same texts in every epoch.
POOL = 50
# The same for pairs of one source length, which are sorted by target length.
PAIR_POOL = 8
# Padded words of the sentences that are encoded together; it bounds memory for long texts.
SENTENCE_BUDGET = 8_192


@dataclass(frozen=True)
class Batch:
    """Texts of similar length.

    Attributes:
        ids: Word ids, with ``L = max T + 2``.
        lengths: Lengths, including BOS and EOS.
        question: Questions of the same rows.
        candidates: Answers that each row allows.
        sentences: Batches of sentences, each encoded as a text, if positions are sentences.
            ``ids`` then number the sentences, batch after batch, starting at ``len(SPECIAL)``.
        weights: Attention imposed on the model.
    """

    ids: Int[torch.Tensor, "B L"]
    lengths: Int[torch.Tensor, " B"]
    question: Batch | None = None
    candidates: Bool[torch.Tensor, "B C"] | None = None
    sentences: tuple[Batch, ...] = ()
    weights: Float[torch.Tensor, "B L"] | None = None

    @property
    def attended(self) -> Bool[torch.Tensor, "B L"]:
        """Mask of the positions that attention covers: all but BOS, EOS and padding."""
        place = torch.arange(self.ids.shape[1], device=self.ids.device)
        return (place > 0) & (place < self.lengths[:, None] - 1)

    @property
    def inside(self) -> Bool[torch.Tensor, "B L"]:
        """Mask of the positions that are not padding."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]


@dataclass(frozen=True)
class Inputs:
    """The texts of a split, as ids of a vocabulary.

    Attributes:
        ids: Word ids of the texts.
        question: Word ids of the questions.
        candidates: Answers that each row allows.
        sentences: Length of each sentence in words, for a model whose positions are sentences.
        weights: Weight of each position, for a model with imposed attention.
    """

    ids: Ragged
    question: Ragged | None = None
    candidates: Bool[np.ndarray, "n C"] | None = None
    sentences: Ragged | None = None
    weights: Ragged | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> np.ndarray:
        """Length of each row for batching: the longer of text and question, in words."""
        if self.question is None:
            return self.ids.lengths
        return np.maximum(self.ids.lengths, self.question.lengths)

    @property
    def positions(self) -> Ragged:
        """One entry per position that attention covers: a word, or a sentence."""
        return self.ids if self.sentences is None else self.sentences

    def shuffled_batches(self, size: int, random: np.random.Generator) -> list[np.ndarray]:
        """Return all row numbers in random batches of similar length.

        Args:
            size: Rows per batch; the last one may be smaller.
            random: Source of the order.

        Returns:
            The batches. Rows are shuffled, sorted by length within pools of `POOL` batches, and
            then the batches are shuffled.
        """
        batches = _pooled(random.permutation(len(self)), self.lengths, size, POOL)
        # Without this second shuffle each pool would go from its shortest texts to its longest.
        return [batches[k] for k in random.permutation(len(batches))]

    def batches_by_length(self, budget: int) -> Iterator[np.ndarray]:
        """Return all row numbers in batches of similar length.

        Args:
            budget: Largest padded size of a batch in positions; a batch has at least one row.

        Returns:
            An iterator over batches, short rows first.
        """
        # BOS and EOS make each row two positions longer. A stable sort makes the order of equal
        # lengths the same on every processor; numpy's default sort does not promise that.
        return _within(budget, np.argsort(self.lengths, kind="stable"), self.lengths + 2)

    def batch(self, rows: np.ndarray, device: str | torch.device = "cpu") -> Batch:
        """Return the chosen rows as one batch."""
        if self.sentences is not None:
            return batch_of_sentences(self.ids.take(rows), self.sentences.take(rows), device)
        candidates = self.candidates
        return replace(
            pad(self.ids, rows, device),
            question=None if self.question is None else pad(self.question, rows, device),
            candidates=None
            if candidates is None
            else torch.from_numpy(candidates[rows]).to(device),
            weights=None if self.weights is None else padded(self.weights, rows, device),
        )


def _grid(rows: Ragged, empty: int, dtype: type, before: int = 1, after: int = 1) -> np.ndarray:
    """Pad ``rows`` to the longest, and add ``before`` and ``after`` empty entries to each row."""
    grid = np.full((len(rows), before + int(rows.lengths.max(initial=0)) + after), empty, dtype)
    grid[rows.row_of_value, before + rows.places] = rows.values
    return grid


def pad(ids: Ragged, rows: np.ndarray, device: str | torch.device = "cpu") -> Batch:
    """Pad texts to a batch.

    Args:
        ids: Word ids of all texts.
        rows: Numbers of the rows to take.
        device: Device of the tensors.

    Returns:
        The batch, with BOS and EOS.
    """
    chosen = ids.take(rows)
    padded = _grid(chosen, PAD, np.int64)
    padded[:, 0] = BOS
    padded[np.arange(len(rows)), chosen.lengths + 1] = EOS
    return Batch(
        torch.from_numpy(padded).to(device), torch.from_numpy(chosen.lengths + 2).to(device)
    )


def padded(
    values: Ragged, rows: np.ndarray, device: str | torch.device = "cpu"
) -> Float[torch.Tensor, "B L"]:
    """Pad values of positions to the shape of a batch.

    Args:
        values: Values of the positions of all texts.
        rows: Numbers of the rows to take.
        device: Device of the tensor.

    Returns:
        The values in float32, as models use them, with 0 at BOS, EOS and padding.
    """
    return torch.from_numpy(_grid(values.take(rows), 0, np.float32)).to(device)


def batch_of_sentences(ids: Ragged, sentences: Ragged, device: str | torch.device) -> Batch:
    """Build a batch of texts whose positions are sentences.

    Args:
        ids: Word ids of each text.
        sentences: Lengths of each text's sentences, in words.
        device: Device of the tensors.

    Returns:
        The batch; sentences of similar length are encoded together.
    """
    words = Ragged.from_lengths(ids.values, sentences.values)
    chunks = list(Inputs(words).batches_by_length(SENTENCE_BUDGET))
    # The model stacks sentence vectors in the order of these chunks, so ids follow that order.
    number = np.empty(len(words), dtype=np.int64)
    number[list(chain.from_iterable(chunks))] = np.arange(len(SPECIAL), len(SPECIAL) + len(words))
    texts = pad(sentences.with_values(number), np.arange(len(sentences)), device)
    return Batch(
        texts.ids, texts.lengths, sentences=tuple(pad(words, chunk, device) for chunk in chunks)
    )


def _within(budget: int, order: np.ndarray, width: np.ndarray) -> Iterator[np.ndarray]:
    """Cut ``order``, sorted by ``width``, into batches of at most ``budget`` padded entries."""
    start = 0
    while start < len(order):
        # Widths increase, so the last row of a batch decides its padded size.
        sizes = width[order[start:]] * np.arange(1, len(order) - start + 1)
        count = max(1, int(np.searchsorted(sizes, budget, side="right")))
        yield order[start : start + count]
        start += count


def _pooled(order: np.ndarray, lengths: np.ndarray, size: int, pool: int) -> list[np.ndarray]:
    """Cut ``order`` into batches of ``size`` rows, sorted by length within ``pool`` batches."""
    pools = [order[start : start + pool * size] for start in range(0, len(order), pool * size)]
    ordered = [rows[np.argsort(lengths[rows], kind="stable")] for rows in pools]
    return [rows[start : start + size] for rows in ordered for start in range(0, len(rows), size)]


@dataclass(frozen=True)
class PairBatch:
    """Pairs whose sources have the same length.

    Attributes:
        source: Source tokens, unpadded.
        before: Input of the decoder: BOS and the target.
        gold: Expected output: the target and EOS, padded on the right.
        aligned: 1 if a source token is aligned with the gold token, else 0; None if alignments are
            not known.
    """

    source: Int[torch.Tensor, "B T"]
    before: Int[torch.Tensor, "B U"]
    gold: Int[torch.Tensor, "B U"]
    aligned: Float[torch.Tensor, "B U T"] | None = None

    @property
    def written(self) -> Bool[torch.Tensor, "B U"]:
        """Mask of the target positions that are not padding."""
        return self.gold != PAD


@dataclass(frozen=True)
class PairInputs:
    """The pairs of a split, as ids of two vocabularies.

    Attributes:
        source: Source tokens.
        target: Target tokens.
        links: Alignments of each row: source position, target position.
        unlinked: Lines that lose alignments, because it is not known which pieces belong to the
            linked words.
    """

    source: Ragged
    target: Ragged
    links: Ragged | None = None
    unlinked: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.source)

    @property
    def tokens(self) -> Int[np.ndarray, " n"]:
        """Number of gold tokens in each row, including EOS."""
        return self.target.lengths + 1

    @property
    def unknown(self) -> int:
        """Number of gold tokens that are not in the vocabulary."""
        return int((self.target.values == UNK).sum())

    def batch(self, rows: np.ndarray, device: str | torch.device = "cpu") -> PairBatch:
        """Return the chosen rows, whose sources have one length, as a batch."""
        source, target = self.source.take(rows), self.target.take(rows)
        before = _grid(target, PAD, np.int64, after=0)
        gold = _grid(target, PAD, np.int64, before=0)
        before[:, 0] = BOS
        gold[np.arange(len(rows)), target.lengths] = EOS
        parts = [source.values.reshape(len(rows), -1), before, gold]
        # A dense matrix per row makes a penalty on alignments one product with alpha.
        if self.links is not None:
            links = self.links.take(rows)
            position, target_position = links.values.T
            aligned = np.zeros((*gold.shape, parts[0].shape[1]), dtype=np.float32)
            aligned[links.row_of_value, target_position, position] = 1.0
            parts.append(aligned)
        return PairBatch(*(torch.from_numpy(part).to(device) for part in parts))

    def shuffled_batches(self, size: int, random: np.random.Generator) -> list[np.ndarray]:
        """Return all row numbers in random batches of at most ``size`` rows.

        The sources of a batch have the same length, and its targets have similar lengths.
        """
        # Sources of one length need no padding. Packed sequences would need none either, but an
        # LSTM takes twice as long for them.
        groups = _by_length(random.permutation(len(self)), self.source.lengths)
        pooled = [_pooled(group, self.target.lengths, size, PAIR_POOL) for group in groups]
        batches = list(chain.from_iterable(pooled))
        return [batches[k] for k in random.permutation(len(batches))]

    def batches_by_length(self, budget: int) -> Iterator[np.ndarray]:
        """Return all row numbers in batches of at most ``budget`` padded target tokens.

        The sources of a batch have the same length. A batch has at least one row.
        """
        groups = _by_length(np.argsort(self.target.lengths, kind="stable"), self.source.lengths)
        return chain.from_iterable(_within(budget, group, self.tokens) for group in groups)


def _by_length(order: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Group the rows of ``order`` by length, each group in the order of its rows."""
    ordered = order[np.argsort(lengths[order], kind="stable")]
    return np.split(ordered, np.flatnonzero(np.diff(lengths[ordered])) + 1) if len(ordered) else []
