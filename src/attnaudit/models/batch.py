"""Token ids as a model reads them: texts padded on the right, with BOS and EOS; pairs whose sources have one length, unpadded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Split
from attnaudit.corpora.prepare.tokenise import sentence_lengths
from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, SPECIAL, UNK, Vocabulary

POOL = 50  # batches that are sorted by length together: little padding, and still another order every epoch
PAIR_POOL = 8  # batches of one source length that are sorted by target length together
SENTENCE_BUDGET = 8_192  # padded words of sentences that are encoded together


@dataclass(frozen=True)
class Batch:
    """``ids`` is ``(B, L)`` with ``L = max T + 2``; ``lengths`` counts BOS and EOS too.

    ``question`` holds the questions of the same rows, ``candidates`` ``(B, C)`` the answers they allow; None where there are none.
    Positions may stand for ``sentences``: these are then batches of sentences, each as a text of its own, and ``ids`` number them, one
    batch after another, from `SPECIAL` on as words are numbered. ``weights`` ``(B, L)`` is attention that the model is to take as given.
    """

    ids: Int[torch.Tensor, "B L"]
    lengths: Int[torch.Tensor, " B"]
    question: Batch | None = None
    candidates: Bool[torch.Tensor, "B C"] | None = None
    sentences: tuple[Batch, ...] = ()
    weights: Float[torch.Tensor, "B L"] | None = None

    @property
    def attended(self) -> Bool[torch.Tensor, "B L"]:
        """The positions that attention covers: all but BOS, EOS and padding."""
        place = torch.arange(self.ids.shape[1], device=self.ids.device)
        return (place > 0) & (place < self.lengths[:, None] - 1)

    @property
    def inside(self) -> Bool[torch.Tensor, "B L"]:
        """The positions that are no padding."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]


@dataclass(frozen=True)
class Inputs:
    """The texts of a split as numbers of a vocabulary, with their questions and the answers allowed, where there are such.

    ``sentences`` holds the words of every sentence of each text, for a model whose positions are sentences; ``weights`` the attention of
    each position, for a model that takes it as given.
    """

    ids: Ragged
    question: Ragged | None = None
    candidates: Bool[np.ndarray, "n C"] | None = None
    sentences: Ragged | None = None
    weights: Ragged | None = None

    @classmethod
    def of(cls, split: Split, vocabulary: Vocabulary, hierarchical: bool = False) -> Inputs:
        question = None if split.question is None else vocabulary.ids(split.question)
        sentences = Ragged.from_rows(sentence_lengths(split), np.int64) if hierarchical else None
        return cls(
            vocabulary.ids(split.tokens), question, split.candidates, sentences, split.attention
        )

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> np.ndarray:
        """What a row costs in a padded batch: the longer of text and question, in words."""
        return (
            self.ids.lengths
            if self.question is None
            else np.maximum(self.ids.lengths, self.question.lengths)
        )

    @property
    def positions(self) -> Ragged:
        """One entry for each position that attention covers: a word, or a sentence."""
        return self.ids if self.sentences is None else self.sentences

    def take(self, rows: np.ndarray) -> Inputs:
        question, sentences, weights = (
            part and part.take(rows) for part in (self.question, self.sentences, self.weights)
        )
        candidates = None if self.candidates is None else self.candidates[rows]
        return Inputs(self.ids.take(rows), question, candidates, sentences, weights)

    def shuffled_batches(self, size: int, random: np.random.Generator) -> list[np.ndarray]:
        return shuffled_batches(self.lengths, size, random)

    def batches_by_length(self, budget: int) -> Iterator[np.ndarray]:
        return batches_by_length(self.lengths, budget)

    def batch(self, rows: np.ndarray, device: str | torch.device = "cpu") -> Batch:
        """The chosen rows as one batch."""
        if self.sentences is not None:
            return batch_of_sentences(self.ids.take(rows), self.sentences.take(rows), device)
        texts = pad(self.ids, rows, device)
        question = None if self.question is None else pad(self.question, rows, device)
        candidates = (
            None if self.candidates is None else torch.from_numpy(self.candidates[rows]).to(device)
        )
        weights = None if self.weights is None else padded(self.weights, rows, device)
        return Batch(texts.ids, texts.lengths, question, candidates, weights=weights)


def _laid_out(rows: Ragged, empty: int, dtype: type, before: int = 1, after: int = 1) -> np.ndarray:
    """A row for each of ``rows``, as long as the longest, with room for so many entries ``before`` and ``after`` its own."""
    grid = np.full((len(rows), before + int(rows.lengths.max(initial=0)) + after), empty, dtype)
    place = np.arange(len(rows.values)) - rows.spread(rows.offsets[:-1])
    grid[rows.row_of_value, before + place] = rows.values
    return grid


def pad(ids: Ragged, rows: np.ndarray, device: str | torch.device = "cpu") -> Batch:
    """The chosen rows of ``ids`` as one batch of texts alone."""
    chosen = ids.take(rows)
    padded = _laid_out(chosen, PAD, np.int64)
    padded[:, 0] = BOS
    padded[np.arange(len(rows)), chosen.lengths + 1] = EOS
    return Batch(
        torch.from_numpy(padded).to(device), torch.from_numpy(chosen.lengths + 2).to(device)
    )


def padded(
    values: Ragged, rows: np.ndarray, device: str | torch.device = "cpu"
) -> Float[torch.Tensor, "B L"]:
    """A value for each position of the chosen rows, laid out as in their batch: 0 at BOS, EOS and padding."""
    return torch.from_numpy(_laid_out(values.take(rows), 0, np.float32)).to(device)


def batch_of_sentences(ids: Ragged, sentences: Ragged, device: str | torch.device) -> Batch:
    """Texts of sentences with ``sentences`` words each; sentences of like length go through the model together."""
    words = Ragged.from_lengths(ids.values, sentences.values)
    chunks = list(batches_by_length(words.lengths, SENTENCE_BUDGET))
    number = np.empty(len(words), dtype=np.int64)
    number[list(chain.from_iterable(chunks))] = np.arange(len(SPECIAL), len(SPECIAL) + len(words))
    texts = pad(sentences.with_values(number), np.arange(len(sentences)), device)
    return Batch(
        texts.ids, texts.lengths, sentences=tuple(pad(words, chunk, device) for chunk in chunks)
    )


def batches_by_length(lengths: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Row numbers in batches of similar length whose padded size stays within ``budget`` positions (one row at least)."""
    return _within(budget, np.argsort(lengths, kind="stable"), lengths + 2)


def _within(budget: int, order: np.ndarray, width: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of ``order``, which goes up in ``width``, in batches of at most so many entries once padded (one row at least)."""
    start = 0
    while start < len(order):
        sizes = width[order[start:]] * np.arange(1, len(order) - start + 1)
        count = max(1, int(np.searchsorted(sizes, budget, side="right")))
        yield order[start : start + count]
        start += count


def shuffled_batches(
    lengths: np.ndarray, size: int, random: np.random.Generator
) -> list[np.ndarray]:
    """All rows in batches of ``size``: shuffled, sorted by length within pools of `POOL` batches, the batches shuffled again."""
    batches = _pooled(random.permutation(len(lengths)), lengths, size, POOL)
    return [batches[k] for k in random.permutation(len(batches))]


def _pooled(order: np.ndarray, lengths: np.ndarray, size: int, pool: int) -> list[np.ndarray]:
    """Batches of ``size`` rows in the given order, those of every ``pool`` batches sorted by length."""
    pools = [order[start : start + pool * size] for start in range(0, len(order), pool * size)]
    ordered = [rows[np.argsort(lengths[rows], kind="stable")] for rows in pools]
    return [rows[start : start + size] for rows in ordered for start in range(0, len(rows), size)]


@dataclass(frozen=True)
class PairBatch:
    """``source`` ``(B, T)``, none padded; ``before`` ``(B, U)`` what the decoder has written before each gold token: BOS and the target.

    ``gold`` ``(B, U)`` is the target and EOS, padded on the right. ``aligned`` ``(B, U, T)`` has 1 where a source token is aligned with the
    gold token, where alignments are known.
    """

    source: Int[torch.Tensor, "B T"]
    before: Int[torch.Tensor, "B U"]
    gold: Int[torch.Tensor, "B U"]
    aligned: Float[torch.Tensor, "B U T"] | None = None

    @property
    def written(self) -> Bool[torch.Tensor, "B U"]:
        """The target positions that are no padding."""
        return self.gold != PAD


@dataclass(frozen=True)
class PairInputs:
    """The pairs of a split as numbers of two vocabularies.

    ``links`` (3, k) are the alignments: row, source position, target position. ``unlinked`` are the lines with excluded alignments, where
    it is not known which pieces belong to the linked words.
    """

    source: Ragged
    target: Ragged
    links: Int[np.ndarray, "three k"] | None = None
    unlinked: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.source)

    @property
    def tokens(self) -> Int[np.ndarray, " n"]:
        """Gold tokens of every row, EOS among them."""
        return self.target.lengths + 1

    @property
    def unknown(self) -> int:
        """Gold tokens that the vocabulary lacks."""
        return int((self.target.values == UNK).sum())

    def _links_of(self, rows: np.ndarray) -> Int[np.ndarray, "three k"]:
        """The alignments of the chosen rows, numbered by their place among them."""
        assert self.links is not None
        first, last = (np.searchsorted(self.links[0], rows, side) for side in ("left", "right"))
        counts = last - first
        starts = np.repeat(first - np.r_[0, np.cumsum(counts)[:-1]], counts)
        found = self.links[1:, starts + np.arange(counts.sum())]
        return np.vstack([np.repeat(np.arange(len(rows)), counts), found])

    def batch(self, rows: np.ndarray, device: str | torch.device = "cpu") -> PairBatch:
        """The chosen rows, whose sources are of one length, as a batch."""
        source, target = self.source.take(rows), self.target.take(rows)
        before, gold = (
            _laid_out(target, PAD, np.int64, after=0),
            _laid_out(target, PAD, np.int64, before=0),
        )
        before[:, 0] = BOS
        gold[np.arange(len(rows)), target.lengths] = EOS
        parts = [source.values.reshape(len(rows), -1), before, gold]
        if self.links is not None:
            row, here, there = self._links_of(rows)
            aligned = np.zeros((*gold.shape, parts[0].shape[1]), dtype=np.float32)
            aligned[row, there, here] = 1.0
            parts.append(aligned)
        return PairBatch(*(torch.from_numpy(part).to(device) for part in parts))

    def shuffled_batches(self, size: int, random: np.random.Generator) -> list[np.ndarray]:
        """All rows in batches of at most ``size`` whose sources have one length and whose targets are much alike in length."""
        groups = _of_one_length(random.permutation(len(self)), self.source.lengths)
        batches = [
            batch
            for group in groups
            for batch in _pooled(group, self.target.lengths, size, PAIR_POOL)
        ]
        return [batches[k] for k in random.permutation(len(batches))]

    def batches_by_length(self, budget: int) -> Iterator[np.ndarray]:
        """All rows in batches of sources of one length, of at most ``budget`` padded target tokens (one row at least)."""
        groups = _of_one_length(np.argsort(self.target.lengths, kind="stable"), self.source.lengths)
        return chain.from_iterable(_within(budget, group, self.tokens) for group in groups)


def _of_one_length(order: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """The rows of ``order`` by length, those of each in the order they came in."""
    ordered = order[np.argsort(lengths[order], kind="stable")]
    return np.split(ordered, np.flatnonzero(np.diff(lengths[ordered])) + 1) if len(ordered) else []
