"""Pieces of a tokenizer joined to the words of a text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int64

from attnaudit.core.ragged import Ragged

SPECIAL = -1  # the word of a special token
# Begins a piece that continues a word, where tokens are the tokenizer's own names.
CONTINUES = "##"


def to_words(scores: Ragged, word_id: Ragged, ufunc: np.ufunc = np.add) -> Ragged:
    """Reduce scores over the pieces of each word; a special token is a word of its own.

    Args:
        scores: A value per piece.
        word_id: Number of each piece's word, `SPECIAL` for special tokens.
        ufunc: Reduction; the sum by default.

    Returns:
        A value per word, in order.
    """
    starts = _starts(word_id)
    values = ufunc.reduceat(scores.values, starts, axis=0) if len(starts) else scores.values[:0]
    words = np.bincount(word_id.row_of_value[starts], minlength=len(word_id))
    return Ragged.from_lengths(values, words)


def join_tokens(tokens: Sequence[Sequence[str]], word_id: Ragged) -> list[list[str]]:
    """Join the pieces of each word, in the order of `to_words`."""
    texts = []
    for row, ids in zip(tokens, word_id, strict=True):
        words: list[str] = []
        for piece, begins in zip(row, begins_word(ids), strict=True):
            if begins:
                words.append(piece)
            else:
                words[-1] += piece.removeprefix(CONTINUES) or piece
        texts.append(words)
    return texts


def begins_word(word_id: np.ndarray) -> Bool[np.ndarray, " N"]:
    """Tell which pieces of a text begin a word; every special token does."""
    return (word_id == SPECIAL) | (np.diff(word_id, prepend=SPECIAL - 1) != 0)


def _starts(word_id: Ragged) -> Int64[np.ndarray, " words"]:
    is_first = begins_word(word_id.values)
    is_first[word_id.offsets[:-1][word_id.lengths > 0]] = True
    return np.flatnonzero(is_first)
