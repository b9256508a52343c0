"""The words a model knows, and their vectors."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32

from attnaudit.core.errors import InputError
from attnaudit.core.files import content_key
from attnaudit.core.numbers import count
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import key_number, keyed
from attnaudit.corpora.formats.lines import invalid_utf8, numbered_lines

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
        kept = [
            word for word, count in lists_with.items() if count >= min_df and word not in SPECIAL
        ]
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
        return Ragged.from_lengths(
            np.fromiter(flat, dtype=np.int64, count=int(lengths.sum())), lengths
        )

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
            raise InputError(
                "read vocabulary", origin, got, f"{', '.join(SPECIAL)} and then every word once"
            )
        return cls(tuple(words))


Missing = Literal["normal", "zero"]
_WINDOW = 10
_WORDS_TO_SEE = 20_000_000  # small corpora are read up to 15 times, large ones at least 3 times
_MOST_EPOCHS, _FEWEST_EPOCHS = 15, 3
_LAST_TRAINED: dict[str, dict[int, np.ndarray]] = {}  # by what they follow from


@dataclass(frozen=True)
class WordVectors:
    """``matrix`` (V, D) float32 has a row for each word of a vocabulary, zeros for ``<pad>``.

    ``covered`` words have a vector from ``source``; ``note`` says in one line where all of them come from.
    """

    matrix: Float32[np.ndarray, "V D"]
    covered: int
    source: str
    note: str


def word_vectors(
    source: str | Path, vocabulary: Vocabulary, train_tokens: Sequence[Sequence[str]], *, dimension: int = 300, seed: int = 0,
    missing: Missing | str = "zero",
) -> WordVectors:  # fmt: skip
    """Vectors for every word of ``vocabulary``.

    ``source`` is ``corpus`` (word2vec, CBOW, trained on ``train_tokens``; ``<unk>`` stands for words below ``min_df`` or, where there
    are none, is the mean of the rarest words), ``random`` (N(0, 1)), or a file of GloVe's or
    fastText's text format, also gzipped, whose own dimension then holds. Words that have no vector are zero, as in the
    released code of Jain & Wallace 2019, or drawn from N(0, 1) (``missing="normal"``). The same arguments give the same bits.

    Raises InputError for a file that cannot be used, with the line.
    """
    if missing not in ("normal", "zero"):
        raise InputError("read vectors", "missing", f"'{missing}'", "normal or zero")
    if str(source) == "random":
        return WordVectors(
            _start(vocabulary, dimension, seed, "normal"),
            0,
            "random",
            f"random vectors of {dimension} numbers",
        )
    if str(source) == "corpus":
        found = _trained(vocabulary, train_tokens, dimension, seed)
        origin = f"word2vec trained on the train split, {dimension} numbers"
    else:
        found = _from_file(Path(source).expanduser(), vocabulary)
        dimension = len(next(iter(found.values())))
        origin = f"{Path(source).name}, {dimension} numbers"
    matrix = _start(vocabulary, dimension, seed, missing)
    matrix[list(found)] = np.stack(list(found.values()))
    words = len(vocabulary) - 1
    others = "zero" if missing == "zero" else "drawn from N(0, 1)"
    note = f"{origin}: {len(found)} of {words} words have a vector" + (
        f", the others are {others}" if len(found) < words else ""
    )
    return WordVectors(matrix, len(found), str(source), note)


def _start(vocabulary: Vocabulary, dimension: int, seed: int, missing: str) -> np.ndarray:
    shape = (len(vocabulary), dimension)
    if missing == "zero":
        return np.zeros(shape, dtype=np.float32)
    matrix = keyed(seed, "vectors").standard_normal(shape, dtype=np.float32)
    matrix[PAD] = 0
    return matrix


class _Sentences:
    """The train rows between BOS and EOS, rare words as ``<unk>``, as often as they are asked for."""

    def __init__(self, vocabulary: Vocabulary, token_lists: Sequence[Sequence[str]]) -> None:
        self.vocabulary, self.token_lists = vocabulary, token_lists

    def __iter__(self) -> Iterator[list[str]]:
        words, known = self.vocabulary.words, self.vocabulary
        for tokens in self.token_lists:
            yield [
                words[BOS],
                *(word if word in known else words[UNK] for word in tokens),
                words[EOS],
            ]

    def digest(self) -> str:
        """Equal for the same words in the same rows."""
        found = hashlib.blake2b(digest_size=16)
        for words in self:
            found.update("\x1f".join([*words, ""]).encode())
        return found.hexdigest()


def _trained(
    vocabulary: Vocabulary, train_tokens: Sequence[Sequence[str]], dimension: int, seed: int
) -> dict[int, np.ndarray]:
    """The vector of each word's number. Those trained last are kept: models that are compared are often trained with the same."""
    sentences = _Sentences(vocabulary, train_tokens)
    key = content_key(vocabulary.words, sentences.digest(), dimension, seed)
    if key not in _LAST_TRAINED:
        _LAST_TRAINED.clear()
        _LAST_TRAINED[key] = _word2vec(sentences, dimension, seed)
    return _LAST_TRAINED[key]


def _word2vec(sentences: _Sentences, dimension: int, seed: int) -> dict[int, np.ndarray]:
    from gensim.models import Word2Vec  # here because it takes a second

    vocabulary = sentences.vocabulary
    total = sum(map(len, sentences.token_lists))
    epochs = min(_MOST_EPOCHS, max(_FEWEST_EPOCHS, _WORDS_TO_SEE // max(total, 1)))
    model = Word2Vec(
        sentences,
        vector_size=dimension, window=_WINDOW, min_count=1, epochs=epochs, workers=1, seed=key_number(seed, "word2vec") % 2**32,
    )  # fmt: skip
    number_of = {word: number for number, word in enumerate(vocabulary.words)}
    vectors = model.wv
    found = {number_of[str(word)]: vectors.get_vector(str(word)) for word in vectors.index_to_key}
    if UNK not in found:
        counts = vectors.expandos["count"]
        found[UNK] = vectors.vectors[counts == counts.min()].mean(
            axis=0
        )  # a word that train lacks is most like its rarest ones
    return found


def _from_file(path: Path, vocabulary: Vocabulary) -> dict[int, np.ndarray]:
    number_of = {word: number for number, word in enumerate(vocabulary.words)}
    found: dict[int, np.ndarray] = {}
    dimension = 0
    for line_number, line in numbered_lines(path, "read vectors"):
        line = line.rstrip()
        if (
            line_number == 1
            and len(pieces := line.split()) == 2
            and all(map(str.isdecimal, pieces))
        ):
            continue  # a header
        dimension = dimension or line.count(" ")
        word, *numbers = line.rsplit(" ", dimension)
        if len(numbers) != dimension or dimension < 2:
            raise _bad_line(
                path,
                line_number,
                count(len(numbers), "number"),
                f"a word and {dimension or 'several'} numbers",
            )
        number = number_of.get(word)
        if number is not None and number not in found:
            found[number] = _vector(path, line_number, numbers)
    if not found:
        got = f"no vector for any of {len(vocabulary)} words" if dimension else "no vector"
        raise InputError(
            "read vectors",
            str(path),
            got,
            "vectors for words of the corpus",
            "choose vectors of the same language",
        )
    return found


def _vector(path: Path, line_number: int, numbers: list[str]) -> np.ndarray:
    try:
        vector = np.array([float(number) for number in numbers], dtype=np.float32)
    except ValueError as error:
        wrong = invalid_utf8(" ".join(numbers)) or str(error)
        raise _bad_line(path, line_number, wrong, f"{len(numbers)} numbers") from error
    if not np.isfinite(vector).all():
        raise _bad_line(path, line_number, "a number that is not finite", "finite numbers")
    return vector


def _bad_line(path: Path, line_number: int, got: str, expected: str) -> InputError:
    return InputError(
        "read vectors",
        f"{path}: line {line_number}",
        got,
        expected,
        "use GloVe's or fastText's text format",
    )
