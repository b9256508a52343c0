"""Run a transformer on copies of its texts in which words are replaced by words of other texts.

The new word has as many pieces, so that length, positions and special tokens stay.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
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
