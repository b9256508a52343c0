"""Joins the pieces of a tokenizer to the words of a text."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from attnaudit.core.ragged import Ragged

SPECIAL = -1  # the word of a special token
# Prefix of a piece that continues a word, in WordPiece vocabularies.
CONTINUES = "##"


def to_words(scores: Ragged, word_id: Ragged, ufunc: np.ufunc = np.add) -> Ragged:
    """Reduce scores over the pieces of each word; a special token is a word of its own.

    Args:
        scores: A value per piece.
        word_id: Number of each piece's word, `SPECIAL` for special tokens.
        ufunc: Reduction; the sum by default, so that weights of attention still sum to 1.

    Returns:
        A value per word, in order.
    """
    is_first = begins_word(word_id.values)
    # A text may end with the word number that the next one starts with.
    is_first[word_id.offsets[:-1][word_id.lengths > 0]] = True
    starts = np.flatnonzero(is_first)
    values = ufunc.reduceat(scores.values, starts, axis=0) if len(starts) else scores.values[:0]
    words = np.bincount(word_id.row_of_value[starts], minlength=len(word_id))
    return Ragged.from_lengths(values, words)


def join_tokens(tokens: Sequence[Sequence[str]], word_id: Ragged) -> list[list[str]]:
    """Join the pieces of each word, in the order of `to_words`.

    Args:
        tokens: Pieces of every row.
        word_id: Number of each piece's word, `SPECIAL` for special tokens.
    """
    texts = []
    for row, ids in zip(tokens, word_id, strict=True):
        words: list[str] = []
        for piece, begins in zip(row, begins_word(ids), strict=True):
            if begins:
                words.append(piece)
            else:
                # A piece of nothing but the prefix is literal text, so it stays.
                words[-1] += piece.removeprefix(CONTINUES) or piece
        texts.append(words)
    return texts


def begins_word(word_id: np.ndarray) -> Bool[np.ndarray, " N"]:
    """Mark the pieces of a text that begin a word; every special token does."""
    # The prepended number differs from all words and from `SPECIAL`, so the first piece begins one.
    return (word_id == SPECIAL) | (np.diff(word_id, prepend=SPECIAL - 1) != 0)
