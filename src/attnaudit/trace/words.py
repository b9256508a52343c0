"""Pieces of a tokenizer joined to the words of a text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from jaxtyping import Bool, Int64

from attnaudit.core.ragged import Ragged

SPECIAL = -1  # the word of a special token
CONTINUES = "##"  # begins a piece that continues a word, in traces whose tokens are the tokenizer's own names


def to_words(scores: Ragged, word_id: Ragged, ufunc: np.ufunc = np.add) -> Ragged:
    """The sums of scores over the pieces of each word, in order, or another ``ufunc``; every special token is a word of its own."""
    starts = _starts(word_id)
    found = ufunc.reduceat(scores.values, starts, axis=0) if len(starts) else scores.values[:0]
    return Ragged.from_lengths(
        found, np.bincount(word_id.row_of_value[starts], minlength=len(word_id))
    )


def join_tokens(tokens: Sequence[Sequence[str]], word_id: Ragged) -> list[list[str]]:
    """The pieces of each word, joined, in the order of `to_words`."""
    return [
        [
            _joined([piece for piece, _ in group])
            for _, group in groupby(zip(row, _runs(ids), strict=True), key=lambda pair: pair[1])
        ]
        for row, ids in zip(tokens, word_id, strict=True)
    ]


def _joined(pieces: list[str]) -> str:
    return "".join([pieces[0], *(piece.removeprefix(CONTINUES) or piece for piece in pieces[1:])])


def _runs(word_id: np.ndarray) -> list[int]:
    """A number for each piece, that of the others of its word."""
    return np.cumsum(begins_word(word_id)).tolist()


def begins_word(word_id: np.ndarray) -> Bool[np.ndarray, " N"]:
    """Which pieces of a text begin a word; every special token does."""
    return (word_id == SPECIAL) | (np.diff(word_id, prepend=SPECIAL - 1) != 0)


def _starts(word_id: Ragged) -> Int64[np.ndarray, " words"]:
    first = begins_word(word_id.values)
    first[word_id.offsets[:-1][word_id.lengths > 0]] = True
    return np.flatnonzero(first)
