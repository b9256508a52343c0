"""The words a model knows, and their vectors."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32

from attnaudit.core import InputError, content_key, expanded
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import key_number, keyed
from attnaudit.corpora.formats.lines import numbered_lines

PAD, UNK, BOS, EOS = range(4)
SPECIAL = ("<pad>", "<unk>", "<bos>", "<eos>")
UNKNOWN = SPECIAL[UNK]


@dataclass(frozen=True)
class Vocabulary:
    """Words by number; numbers 0 to 3 are ``<pad>``, ``<unk>``, ``<bos>`` and ``<eos>``."""

    words: tuple[str, ...]

    @classmethod
    def build(cls, token_lists: Iterable[Sequence[str]], min_df: int) -> Vocabulary:
        """Take the words of at least ``min_df`` lists: those in most first, then by alphabet."""
        lists_with: Counter[str] = Counter()
        for tokens in token_lists:
            lists_with.update(set(tokens))
        known = [word for word, lists in lists_with.items() if lists >= min_df]
        known = sorted(set(known) - set(SPECIAL), key=lambda word: (-lists_with[word], word))
        return cls((*SPECIAL, *known))

    def __len__(self) -> int:
        return len(self.words)

    @property
    def known(self) -> tuple[str, ...]:
        """The words of texts, without the four that stand for something else."""
        return self.words[len(SPECIAL) :]

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.known, start=len(SPECIAL))}

    def __contains__(self, word: str) -> bool:
        """Return True for a word of texts that has a number of its own."""
        return word in self._number_of

    def ids(self, token_lists: Sequence[Sequence[str]]) -> Ragged:
        """Return the numbers of all words, a row for each list, without BOS and EOS."""
        flat = [self._number_of.get(word, UNK) for word in chain.from_iterable(token_lists)]
        return Ragged.from_lengths(np.array(flat, dtype=np.int64), map(len, token_lists))

    def to_json(self) -> dict[str, Any]:
        """Return the vocabulary as a value for JSON."""
        return {"words": list(self.words)}

    @classmethod
    def from_json(cls, value: Any, origin: str = "vocabulary") -> Vocabulary:
        """Return the vocabulary of `to_json`; ``origin`` names it in errors. Raises InputError."""
        words: Any = value.get("words") if isinstance(value, dict) else None
        is_list = isinstance(words, list) and all(isinstance(word, str) for word in words)
        if not is_list or tuple(words[:4]) != SPECIAL or len(set(words)) != len(words):
            expected = f"a list of {', '.join(SPECIAL)} and then every word once"
            raise InputError("read vocabulary", origin, f"{words!r:.80}", expected)
        return cls(tuple(words))


Missing = Literal["normal", "zero"]
_WINDOW = 10
# Small corpora are read up to 15 times, large ones at least 3 times.
_WORDS_TO_SEE, _FEWEST_EPOCHS, _MOST_EPOCHS = 20_000_000, 3, 15
_LAST_TRAINED: dict[str, dict[int, np.ndarray]] = {}  # by what they follow from


@dataclass(frozen=True)
class WordVectors:
    """Word vectors.

    Attributes:
        matrix: A row for each word of a vocabulary, zeros for ``<pad>``.
        covered: Number of words that have a vector from ``source``.
        source: Where they come from.
        note: The same in one line for the user.
    """

    matrix: Float32[np.ndarray, "V D"]
    covered: int
    source: str
    note: str


def word_vectors(
    source: str | Path,
    vocabulary: Vocabulary,
    train_tokens: Sequence[Sequence[str]],
    *,
    dimension: int = 300,
    seed: int = 0,
    missing: Missing = "zero",
) -> WordVectors:
    """Find a vector for every word of a vocabulary; the same arguments give the same bits.

    Args:
        source: ``corpus`` (word2vec, CBOW, trained on the train texts; ``<unk>`` stands for rare
            words or, if there are none, is the mean of the rarest), ``random`` (N(0, 1)), or a file
            in the text format of GloVe or fastText, also gzipped.
        vocabulary: The words.
        train_tokens: Train texts.
        dimension: Numbers of a vector, unless a file has its own.
        seed: Seed of what is drawn or trained.
        missing: Words without a vector are ``zero``, as in the released code of Jain & Wallace
            2019, or drawn from N(0, 1) (``normal``).

    Raises:
        InputError: For a file that cannot be used, with the line.
    """
    name = str(source)
    if name == "corpus":
        found = _trained(vocabulary, train_tokens, dimension, seed)
    else:
        found = {} if name == "random" else _from_file(expanded(source), vocabulary)
    dimension = len(next(iter(found.values()))) if found else dimension
    matrix = np.zeros((len(vocabulary), dimension), dtype=np.float32)
    if name == "random" or missing == "normal":
        matrix = keyed(seed, "vectors").standard_normal(matrix.shape, dtype=np.float32)
        matrix[PAD] = 0
    for number, vector in found.items():
        matrix[number] = vector
    words, note = len(vocabulary) - 1, f"random vectors of {dimension} numbers"
    if found:
        origin = "word2vec trained on the train split" if name == "corpus" else Path(source).name
        note = f"{origin}, {dimension} numbers: {len(found)} of {words} words have a vector"
        others = "zero" if missing == "zero" else "drawn from N(0, 1)"
        note += f", the others are {others}" if len(found) < words else ""
    return WordVectors(matrix, len(found), name, note)


def _trained(
    vocabulary: Vocabulary, train_tokens: Sequence[Sequence[str]], dimension: int, seed: int
) -> dict[int, np.ndarray]:
    """Return the vector of each word's number.

    Those trained last are kept: models that are compared are often trained with the same.
    """
    # The train rows between BOS and EOS, rare words as <unk>.
    sentences = [
        [SPECIAL[BOS], *(word if word in vocabulary else UNKNOWN for word in tokens), SPECIAL[EOS]]
        for tokens in train_tokens
    ]
    digest = hashlib.sha256()
    for words in sentences:
        digest.update("\x1f".join([*words, ""]).encode())
    key = content_key(vocabulary.words, digest.hexdigest(), dimension, seed)
    if key not in _LAST_TRAINED:
        _LAST_TRAINED.clear()
        _LAST_TRAINED[key] = _word2vec(sentences, vocabulary, dimension, seed)
    return _LAST_TRAINED[key]


def _word2vec(
    sentences: list[list[str]], vocabulary: Vocabulary, dimension: int, seed: int
) -> dict[int, np.ndarray]:
    from gensim.models import Word2Vec  # takes a second

    total = sum(map(len, sentences)) - 2 * len(sentences)  # words of the texts
    epochs = min(_MOST_EPOCHS, max(_FEWEST_EPOCHS, _WORDS_TO_SEE // max(total, 1)))
    vectors = Word2Vec(
        sentences,
        vector_size=dimension,
        window=_WINDOW,
        min_count=1,
        epochs=epochs,
        workers=1,
        seed=key_number(seed, "word2vec") % 2**32,
    ).wv
    words = {word: number for number, word in enumerate(vocabulary.words)}
    found = {words[str(word)]: vectors.get_vector(str(word)) for word in vectors.index_to_key}
    if UNK not in found:
        # A word that train lacks is most like its rarest ones.
        counts = vectors.expandos["count"]
        found[UNK] = vectors.vectors[counts == counts.min()].mean(axis=0)
    return found


def _from_file(path: Path, vocabulary: Vocabulary) -> dict[int, np.ndarray]:
    operation, do = "read vectors", "use GloVe's or fastText's text format"
    words = {word: number for number, word in enumerate(vocabulary.words)}
    found: dict[int, np.ndarray] = {}
    dimension = 0
    for line_number, line in numbered_lines(path):
        if line_number == 1 and re.fullmatch(r"\d+ \d+\s*", line):
            continue  # a header
        dimension = dimension or line.rstrip().count(" ")
        word, *numbers = line.rstrip().rsplit(" ", dimension)
        is_whole, number = len(numbers) == dimension >= 2, words.get(word, -1)
        if is_whole and (number < 0 or number in found):
            continue
        try:
            vector = np.array(numbers, dtype=np.float32)
        except ValueError:
            is_whole = False
        if not is_whole or not np.isfinite(vector).all():
            where, got = f"{path}: line {line_number}", ascii(line.strip()[:40])
            raise InputError(operation, where, got, f"a word and {dimension} finite numbers", do)
        found[number] = vector
    if not found:
        got, do = f"no vector for any of {len(words)} words", "choose vectors of the same language"
        raise InputError(operation, str(path), got, "vectors for words of the corpus", do)
    return found
