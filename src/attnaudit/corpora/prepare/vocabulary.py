"""The words a model knows, by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged

PAD, UNK, BOS, EOS = range(4)
SPECIAL = ("<pad>", "<unk>", "<bos>", "<eos>")
UNKNOWN = SPECIAL[UNK]


@dataclass(frozen=True)
class Vocabulary:
    """``words[i]`` is the word of number ``i``; numbers 0 to 3 are ``<pad>``, ``<unk>``, ``<bos>`` and ``<eos>``."""

    words: tuple[str, ...]

    @classmethod
    def build(cls, token_lists: Iterable[Sequence[str]], min_df: int) -> Vocabulary:
        """The words that occur in at least ``min_df`` lists: those in most lists first, equal ones by alphabet."""
        lists_with: Counter[str] = Counter()
        for tokens in token_lists:
            lists_with.update(set(tokens))
        kept = [word for word, count in lists_with.items() if count >= min_df and word not in SPECIAL]
        return cls((*SPECIAL, *sorted(kept, key=lambda word: (-lists_with[word], word))))

    def __len__(self) -> int:
        return len(self.words)

    @property
    def known(self) -> tuple[str, ...]:
        """The words of texts, without the four that stand for something else."""
        return self.words[len(SPECIAL) :]

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words) if number >= len(SPECIAL)}

    def __contains__(self, word: str) -> bool:
        """Whether a word of a text has a number of its own."""
        return word in self._number_of

    def ids(self, token_lists: Sequence[Sequence[str]]) -> Ragged:
        """Numbers of all words, int64, a row for each list, without BOS and EOS; a word that is not known is ``<unk>``."""
        lengths = np.fromiter(map(len, token_lists), dtype=np.int64, count=len(token_lists))
        number_of = self._number_of
        flat = (number_of.get(word, UNK) for word in chain.from_iterable(token_lists))
        return Ragged.from_lengths(np.fromiter(flat, dtype=np.int64, count=int(lengths.sum())), lengths)

    def to_json(self) -> dict[str, Any]:
        """The vocabulary as a value for JSON."""
        return {"words": list(self.words)}

    @classmethod
    def from_json(cls, value: Any, origin: str = "vocabulary") -> Vocabulary:
        """The vocabulary that `to_json` gave; ``origin`` names it in errors. Raises InputError."""
        words = value.get("words") if isinstance(value, dict) else None
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise InputError("read vocabulary", origin, "no list of words", "what attnaudit wrote")
        if tuple(words[: len(SPECIAL)]) != SPECIAL or len(set(words)) != len(words):
            got = "a word twice" if len(set(words)) != len(words) else "other first words"
            raise InputError("read vocabulary", origin, got, f"{', '.join(SPECIAL)} and then every word once")
        return cls(tuple(words))
