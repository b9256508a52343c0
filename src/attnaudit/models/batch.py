"""Token ids on their way into a model: padded on the right, BOS and EOS around every text."""

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
from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, SPECIAL, Vocabulary

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
        return cls(vocabulary.ids(split.tokens), question, split.candidates, sentences, split.attention)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> np.ndarray:
        """What a row costs in a padded batch: the longer of text and question, in words."""
        return self.ids.lengths if self.question is None else np.maximum(self.ids.lengths, self.question.lengths)

    @property
    def positions(self) -> Ragged:
        """One entry for each position that attention covers: a word, or a sentence."""
        return self.ids if self.sentences is None else self.sentences

    def take(self, rows: np.ndarray) -> Inputs:
        question = None if self.question is None else self.question.take(rows)
        sentences = None if self.sentences is None else self.sentences.take(rows)
        candidates = None if self.candidates is None else self.candidates[rows]
        weights = None if self.weights is None else self.weights.take(rows)
        return Inputs(self.ids.take(rows), question, candidates, sentences, weights)

    def batch(self, rows: np.ndarray, device: str | torch.device = "cpu") -> Batch:
        """The chosen rows as one batch."""
        if self.sentences is not None:
            return batch_of_sentences(self.ids.take(rows), self.sentences.take(rows), device)
        texts = pad(self.ids, rows, device)
        question = None if self.question is None else pad(self.question, rows, device)
        candidates = None if self.candidates is None else torch.from_numpy(self.candidates[rows]).to(device)
        weights = None if self.weights is None else padded(self.weights, rows, device)
        return Batch(texts.ids, texts.lengths, question, candidates, weights=weights)


def pad(ids: Ragged, rows: np.ndarray, device: str | torch.device = "cpu") -> Batch:
    """The chosen rows of ``ids`` as one batch of texts alone."""
    chosen = ids.take(rows)
    lengths = chosen.lengths
    padded = np.full((len(rows), int(lengths.max(initial=0)) + 2), PAD, dtype=np.int64)
    padded[:, 0] = BOS
    within = np.arange(len(chosen.values)) - chosen.spread(chosen.offsets[:-1])
    padded[chosen.row_of_value, within + 1] = chosen.values
    padded[np.arange(len(rows)), lengths + 1] = EOS
    return Batch(torch.from_numpy(padded).to(device), torch.from_numpy(lengths + 2).to(device))


def padded(values: Ragged, rows: np.ndarray, device: str | torch.device = "cpu") -> Float[torch.Tensor, "B L"]:
    """A value for each position of the chosen rows, laid out as in their batch: 0 at BOS, EOS and padding."""
    chosen = values.take(rows)
    laid = np.zeros((len(rows), int(chosen.lengths.max(initial=0)) + 2), dtype=np.float32)
    within = np.arange(len(chosen.values)) - chosen.spread(chosen.offsets[:-1])
    laid[chosen.row_of_value, within + 1] = chosen.values
    return torch.from_numpy(laid).to(device)


def batch_of_sentences(ids: Ragged, sentences: Ragged, device: str | torch.device) -> Batch:
    """Texts of sentences with ``sentences`` words each; sentences of like length go through the model together."""
    words = Ragged.from_lengths(ids.values, sentences.values)
    chunks = list(batches_by_length(words.lengths, SENTENCE_BUDGET))
    number = np.empty(len(words), dtype=np.int64)
    number[list(chain.from_iterable(chunks))] = np.arange(len(SPECIAL), len(SPECIAL) + len(words))
    texts = pad(sentences.with_values(number), np.arange(len(sentences)), device)
    return Batch(texts.ids, texts.lengths, sentences=tuple(pad(words, chunk, device) for chunk in chunks))


def batches_by_length(lengths: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Row numbers in batches of similar length whose padded size stays within ``budget`` positions (one row at least)."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        sizes = (lengths[order[start:]] + 2) * np.arange(1, len(order) - start + 1)
        count = max(1, int(np.searchsorted(sizes, budget, side="right")))
        yield order[start : start + count]
        start += count
