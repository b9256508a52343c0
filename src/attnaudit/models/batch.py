"""Token ids on their way into a model: padded on the right, BOS and EOS around every text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int

from attnaudit.corpora.corpus import Split
from attnaudit.corpora.vocabulary import BOS, EOS, PAD, Vocabulary
from attnaudit.ragged import Ragged


@dataclass(frozen=True)
class Batch:
    """``ids`` is ``(B, L)`` with ``L = max T + 2``; ``lengths`` counts BOS and EOS too.

    ``question`` holds the questions of the same rows, ``candidates`` ``(B, C)`` the answers they allow; None where there are none.
    """

    ids: Int[torch.Tensor, "B L"]
    lengths: Int[torch.Tensor, " B"]
    question: Batch | None = None
    candidates: Bool[torch.Tensor, "B C"] | None = None

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
    """The texts of a split as numbers of a vocabulary, with their questions and the answers allowed, where there are such."""

    ids: Ragged
    question: Ragged | None = None
    candidates: Bool[np.ndarray, "n C"] | None = None

    @classmethod
    def of(cls, split: Split, vocabulary: Vocabulary) -> Inputs:
        question = None if split.question is None else vocabulary.ids(split.question)
        return cls(vocabulary.ids(split.tokens), question, split.candidates)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> np.ndarray:
        """What a row costs in a padded batch: the longer of text and question."""
        return self.ids.lengths if self.question is None else np.maximum(self.ids.lengths, self.question.lengths)

    def take(self, rows: np.ndarray) -> Inputs:
        question = None if self.question is None else self.question.take(rows)
        return Inputs(self.ids.take(rows), question, None if self.candidates is None else self.candidates[rows])

    def batch(self, rows: np.ndarray, device: str | torch.device = "cpu") -> Batch:
        """The chosen rows as one batch."""
        texts = pad(self.ids, rows, device)
        question = None if self.question is None else pad(self.question, rows, device)
        candidates = None if self.candidates is None else torch.from_numpy(self.candidates[rows]).to(device)
        return Batch(texts.ids, texts.lengths, question, candidates)


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


def batches_by_length(lengths: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Row numbers in batches of similar length whose padded size stays within ``budget`` positions (one row at least)."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        sizes = (lengths[order[start:]] + 2) * np.arange(1, len(order) - start + 1)
        count = max(1, int(np.searchsorted(sizes, budget, side="right")))
        yield order[start : start + count]
        start += count
