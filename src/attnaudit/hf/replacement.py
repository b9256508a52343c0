"""Run a transformer on copies of its texts with words or segments replaced by those of others.

A new word has as many pieces, so that length, positions and special tokens stay.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.gate import Gate
from attnaudit.hf.importance.case import Case, read_logits
from attnaudit.hf.model import positions_per_pass, without_padding
from attnaudit.trace.words import SPECIAL, to_words
from attnaudit.tracing.replacement import (
    Donors,
    Drawn,
    Predicted,
    TextReplacement,
    chosen_texts,
    draw_subsets,
)


class WordDonors:
    """Words of all texts, drawn by their number of pieces.

    A word has a donor if another text has a word of as many pieces. The donor has the same place
    among the words of this size in its text, if there are so many.
    """

    def __init__(self, texts: Encoded) -> None:
        self.encoded, pieces, self.words = texts, texts.word_id, texts.ids
        numbers = np.arange(len(pieces.values))
        first = to_words(pieces.with_values(numbers), pieces, np.minimum)
        size = to_words(pieces.with_values(np.ones_like(numbers)), pieces).values
        is_word = pieces.values[first.values] != SPECIAL
        self._by_size: dict[int, tuple[np.ndarray, Donors]] = {}
        self.texts = np.zeros(len(texts), bool)  # those with a word that has a donor
        for number in np.unique(size[is_word]).tolist():
            words = first.where(is_word & (size == number))
            texts_of = np.flatnonzero(words.lengths)
            if len(np.unique(texts.instance[texts_of])) > 1:
                donors = Donors(words.take(texts_of), texts.instance[texts_of])
                self._by_size[number] = texts_of, donors
                self.texts[texts_of] = True

    def copies(self, row: int, copies: int, random: np.random.Generator) -> Drawn:
        """Draw copies of a text."""
        words = [
            (size, start, drawn)
            for size, (texts, donors) in self._by_size.items()
            for own in np.flatnonzero(texts == row).tolist()
            for start, drawn in zip(
                donors.words[own], donors.draw(own, copies, random).T, strict=True
            )
        ]
        ids = np.tile(self.words[row], (copies, 1))
        lost = np.zeros(ids.shape, bool)
        masks = draw_subsets(len(words), copies, random).T
        for mask, (size, start, drawn) in zip(masks, words, strict=True):
            for k in range(size):
                place = start + k - self.words.offsets[row]
                lost[:, place] = mask
                ids[mask, place] = self.words.values[drawn[mask] + k]
        return lost, ids

    def replaced(self, row: int, copies: np.ndarray) -> Encoded:
        """Return copies of a text as a model reads them."""
        texts = self.encoded.take(np.full(len(copies), row))
        return replace(texts, ids=Ragged.from_rows(copies))


@dataclass(frozen=True)
class SegmentDonors:
    """Segments of texts, to replace those of other texts.

    A segment is replaced by the one at the same place of another text, or, if that has fewer, at
    the place modulo their number. If the copy were longer than the longest text, new segments are
    cut to the lengths of the old ones. A second text stays.

    Attributes:
        encoded: The texts.
    """

    encoded: Encoded

    @cached_property
    def _segments(self) -> list[list[np.ndarray]]:
        """Flat positions of the tokens of each segment of each text, side by side in the text."""
        starts = self.encoded.ids.offsets.tolist()
        return [
            [start + np.flatnonzero(unit == name) for name in np.unique(unit[unit > SPECIAL])]
            for start, unit in zip(starts, self.encoded.unit, strict=False)
        ]

    @property
    def words(self) -> Ragged:
        """Flat positions of the tokens of each text."""
        ids = self.encoded.ids
        return ids.with_values(np.arange(len(ids.values)))

    @cached_property
    def texts(self) -> Bool[np.ndarray, " n"]:
        """Mark the texts with a segment that can be replaced."""
        return np.array(list(map(bool, self._segments)), bool)

    def copies(self, row: int, copies: int, random: np.random.Generator) -> Drawn:
        """Draw copies of a text.

        Returns:
            The tokens whose segments each copy loses, ``(M, T)``, and the flat positions of the
            tokens of each copy.
        """
        texts, own = self.encoded, self._segments[row]
        others = np.flatnonzero(self.texts & (texts.instance != texts.instance[row]))
        lost = draw_subsets(len(own), copies, random)
        drawn = others[random.integers(len(others), size=lost.shape)]
        longest, out = int(texts.ids.lengths.max()), []
        for mask, donors in zip(lost, drawn.tolist(), strict=True):
            known = [self._segments[donor] for donor in donors]
            new = [
                known[k][k % len(known[k])] if is_lost else own[k]
                for k, is_lost in enumerate(mask.tolist())
            ]
            copy = self._with_segments(row, new)
            if len(copy) > longest:
                cut = [one[: len(old)] for one, old in zip(new, own, strict=True)]
                copy = self._with_segments(row, cut)
            out.append(copy)
        is_lost = np.zeros((copies, texts.ids.lengths[row]), bool)
        for segment, mask in zip(own, lost.T, strict=True):
            is_lost[:, segment - texts.ids.offsets[row]] = mask[:, None]
        return is_lost, out

    def _with_segments(self, row: int, new: list[np.ndarray]) -> Int64[np.ndarray, " L"]:
        """Put other segments in place of those of a text."""
        end, stop = self.encoded.ids.offsets[row : row + 2].tolist()
        parts = []
        for old, segment in zip(self._segments[row], new, strict=True):
            parts += [np.arange(end, old[0]), segment]
            end = int(old[-1]) + 1
        return np.concatenate([*parts, np.arange(end, stop)])

    def replaced(self, row: int, copies: list[np.ndarray]) -> Encoded:
        """Return copies of a text as a model reads them."""
        texts = self.encoded.take(np.full(len(copies), row))
        places = Ragged.from_rows(copies, np.int64)
        types = self.encoded.type_ids
        return replace(
            texts,
            ids=places.with_values(self.encoded.ids.values[places.values]),
            type_ids=types and places.with_values(types.values[places.values]),
        )


@dataclass(frozen=True, kw_only=True)
class PieceReplacement(TextReplacement):
    """Replacement of words in the texts of a transformer; a decoder's target stays.

    Attributes:
        model: The model, with frozen weights.
        gate: Its checks.
        budget: Positions of a batch.
    """

    model: Any
    gate: Gate
    budget: int

    def chosen(self) -> Bool[np.ndarray, " n"]:
        """Mark the texts whose words are replaced, among those with replaceable words."""
        chosen = self.donors.texts.copy()
        chosen[chosen] = chosen_texts([key[chosen] for key in self.keys], self.settings)
        return chosen

    def run(self, rows: Int64[np.ndarray, " b"], copies: int) -> Iterator[Predicted]:
        """Run the copies of one text at a time: their length is independent of other texts."""
        size = positions_per_pass(self.model, self.budget)
        # A piece equal to padding would hide the end of the text.
        reads_last = (self.gate.reads or 0) < 0
        padding = without_padding(self.model) if reads_last else nullcontext()
        with padding, torch.no_grad():
            for row in rows.tolist():
                lost, ids = self.copies(row, copies)
                texts = self.donors.replaced(row, ids)
                batches = texts.batches(size, self.gate.batching)
                cases = (Case(self.model, self.gate, texts.take(batch)) for batch in batches)
                logits = [read_logits(self.model, one.inputs, one.ends).double() for one in cases]
                yield [lost], torch.cat(logits).softmax(dim=-1).cpu().numpy()
