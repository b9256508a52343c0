"""Pairs of a source and a target on their way into a model: batches whose sources have one length, so that none is padded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from attnaudit.core.ragged import Ragged
from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, UNK

POOL = 8  # batches of one source length that are sorted by target length together


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
        lengths = target.lengths
        place = target.row_of_value, np.arange(len(target.values)) - target.spread(target.offsets[:-1])
        before, gold = (np.full((len(rows), int(lengths.max(initial=0)) + 1), PAD, dtype=np.int64) for _ in range(2))
        before[:, 0] = BOS
        before[place[0], place[1] + 1] = target.values
        gold[place] = target.values
        gold[np.arange(len(rows)), lengths] = EOS
        of_source = source.values.reshape(len(rows), -1)
        aligned = None
        if self.links is not None:
            row, here, there = self._links_of(rows)
            aligned = np.zeros((*gold.shape, of_source.shape[1]), dtype=np.float32)
            aligned[row, there, here] = 1.0
        links = None if aligned is None else torch.from_numpy(aligned).to(device)
        ids, before_ids, gold_ids = (torch.from_numpy(part).to(device) for part in (of_source, before, gold))
        return PairBatch(ids, before_ids, gold_ids, links)

    def shuffled_batches(self, size: int, random: np.random.Generator) -> list[np.ndarray]:
        """All rows in batches of at most ``size`` whose sources have one length and whose targets are much alike in length."""
        order = random.permutation(len(self))
        batches: list[np.ndarray] = []
        for group in _of_one_length(order, self.source.lengths):
            pools = [group[start : start + POOL * size] for start in range(0, len(group), POOL * size)]
            ordered = [pool[np.argsort(self.target.lengths[pool], kind="stable")] for pool in pools]
            batches += [pool[start : start + size] for pool in ordered for start in range(0, len(pool), size)]
        return [batches[k] for k in random.permutation(len(batches))]

    def batches_by_length(self, budget: int) -> Iterator[np.ndarray]:
        """All rows in batches of sources of one length, of at most ``budget`` padded target tokens (one row at least)."""
        order = np.argsort(self.target.lengths, kind="stable")
        for group in _of_one_length(order, self.source.lengths):
            start = 0
            while start < len(group):
                sizes = self.tokens[group[start:]] * np.arange(1, len(group) - start + 1)
                count = max(1, int(np.searchsorted(sizes, budget, side="right")))
                yield group[start : start + count]
                start += count


def _of_one_length(order: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """The rows of ``order`` by length, those of each in the order they came in."""
    ordered = order[np.argsort(lengths[order], kind="stable")]
    return np.split(ordered, np.flatnonzero(np.diff(lengths[ordered])) + 1) if len(ordered) else []
