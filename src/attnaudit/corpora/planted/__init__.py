"""Generated corpora: texts whose deciding words are known, and pairs with exact alignments."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from attnaudit.core import InputError, require_known
from attnaudit.corpora.corpus import (
    SPLITS,
    Corpus,
    Pairs,
    ParallelCorpus,
    Split,
    fingerprint,
    keyed,
)
from attnaudit.corpora.planted.sequences import TARGETS, Sequences, right_positions

Choice = tuple[str, ...]  # words of which one is planted


def _words(text: str) -> Choice:
    return tuple(text.split())


_FILLER = tomllib.loads(Path(__file__).with_name("filler.toml").read_text(encoding="utf-8"))
_WORDS = {slot: _words(text) for slot, text in _FILLER["words"].items()}
_SENTENCES = tuple(map(_words, _FILLER["sentences"]))
GOOD = _words("excellent delightful superb charming splendid lovely")
BAD = _words("awful dreadful horrible dismal terrible tedious")
NEGATING, AFFIRMING = ("not",), _words("truly indeed really")
WARM_FIRST, WARM_SECOND = _words("scarlet crimson amber"), _words("ruby coral cherry")
COLD_FIRST, COLD_SECOND = _words("azure indigo navy"), _words("sapphire teal cobalt")
PEOPLE = _words("anna boris clara daniel edith felix greta hugo")
ROOMS = _words("attic cellar kitchen office pantry studio")
_FACTS = 3  # people whose room a text states, in so many words each
_SHORTEST = 10  # tokens, with room for the facts
# A row of each class, or one pair, for dev and one for test.
_SMALLEST, _FEWEST_PAIRS = 40, 10
_MOST_SYMBOLS = 1_000_000
_PRIOR = 0.7  # share of the common class
_SHARES = {"train": 0.8, "dev": 0.1, "test": 0.1}


def filler(length: int, rng: np.random.Generator) -> list[str]:
    """Draw ``length`` words of running text; the last sentence may be cut off."""
    # One draw for each word and each sentence, and the rest of the last sentence.
    draws = iter(rng.random(2 * length + 40).tolist())
    words: list[str] = []
    while len(words) < length:
        form = pick(_SENTENCES, next(draws))
        words += [pick(_WORDS[slot], next(draws)) for slot in form]
    return words[:length]


def pick(items: Sequence[Any], draw: float) -> Any:
    """Return the item that a number in [0, 1) stands for."""
    return items[int(draw * len(items))]


Rng = np.random.Generator
Text = tuple[list[str], list[bool], list[str]]  # words, which of them decide, and a question


def _one(length: int, rng: Rng) -> Sequence[int]:
    return (int(rng.integers(length)),)


def _neighbours(length: int, rng: Rng) -> Sequence[int]:
    first = int(rng.integers(length - 1))
    return first, first + 1


def _ends(length: int, rng: Rng) -> Sequence[int]:
    third = length // 3
    return int(rng.integers(third)), int(rng.integers(length - third, length))


@dataclass(frozen=True)
class Kind:
    """A way to make texts.

    Attributes:
        class_names: The classes.
        labels: Class of each case; cases are equally frequent.
        text: Function of a case, a length and a generator that makes a text.
    """

    class_names: tuple[str, ...]
    labels: Sequence[int]
    text: Callable[[int, int, Rng], Text]


def _planted(
    cases: Sequence[Sequence[Choice]],
    positions: Callable[[int, Rng], Sequence[int]],
    case: int,
    length: int,
    rng: Rng,
) -> Text:
    """Plant one word of each choice of a case at positions of a running text."""
    words, marks = filler(length, rng), [False] * length
    for place, choice in zip(positions(length, rng), cases[case], strict=True):
        words[place], marks[place] = pick(choice, rng.random()), True
    return words, marks, []


def _facts(answer: int, length: int, rng: Rng) -> Text:
    """State the rooms of some people in a running text, and ask for one of them."""
    words, marks = filler(length, rng), [False] * length
    people = [PEOPLE[k] for k in rng.choice(len(PEOPLE), _FACTS, replace=False)]
    rooms = [answer, *rng.integers(len(ROOMS), size=_FACTS - 1)]
    # Facts of three words do not overlap: two words of each are added to drawn positions.
    gaps = np.sort(rng.choice(length - 2 * _FACTS, _FACTS, replace=False)) + 2 * np.arange(_FACTS)
    for fact, place in enumerate(rng.permutation(gaps).tolist()):
        words[place : place + 3] = [people[fact], "in", ROOMS[rooms[fact]]]
        marks[place : place + 3] = [fact == 0, False, fact == 0]
    return words, marks, ["where", "is", people[0], "?"]


_FEELING = ("negative", "positive")
_NEGATIONS = ((NEGATING, GOOD), (AFFIRMING, BAD), (NEGATING, BAD), (AFFIRMING, GOOD))
_COLOURS = (
    (WARM_FIRST, COLD_SECOND),
    (COLD_FIRST, WARM_SECOND),
    (WARM_FIRST, WARM_SECOND),
    (COLD_FIRST, COLD_SECOND),
)
KINDS = {
    "decisive": Kind(_FEELING, (0, 1), partial(_planted, ((BAD,), (GOOD,)), _one)),
    "negation": Kind(_FEELING, (0, 0, 1, 1), partial(_planted, _NEGATIONS, _neighbours)),
    "conjunction": Kind(("different", "alike"), (0, 0, 1, 1), partial(_planted, _COLOURS, _ends)),
    "prior": Kind(("rare", "common"), (0, 1), partial(_planted, ((), ()), lambda *_: ())),
    "question": Kind(ROOMS, range(len(ROOMS)), _facts),
}


def planted_corpus(
    kind: str = "decisive",
    *,
    size: int = 2000,
    length: tuple[int, int] = (10, 40),
    seed: int = 0,
) -> Corpus:
    """Make a corpus whose deciding words are known and marked in each split's ``rationale``.

    All kinds but ``prior`` are balanced in each split. The same arguments give the same corpus.

    Args:
        kind: ``decisive``: one word of feeling among distractors decides. ``negation``: a word of
            feeling and the word before it (``not`` or an affirming one) decide together; neither
            alone is informative. ``conjunction``: a colour in the first third and one in the last
            third of the text decide by being of the same kind; neither alone is informative.
            ``prior``: no word decides, and 70 % of rows are of class 1. ``question``: the text
            states the rooms of three people, and a question asks for one of them.
        size: Rows in all, 80/10/10.
        length: Fewest and most tokens of a text.
        seed: Seed of the texts.

    Raises:
        InputError: For an unknown kind or a size out of range.
    """
    require_known("plant corpus", "kind", kind, KINDS)
    fewest, most = _lengths("plant corpus", size, _SMALLEST, length, _SHORTEST)
    made, splits = KINDS[kind], {}
    for name, share in _SHARES.items():
        rng, rows = keyed(seed, "planted", kind, name), round(share * size)
        cases = np.arange(rows) % len(made.labels)
        if kind == "prior":
            cases = (np.arange(rows) < round(_PRIOR * rows)).astype(np.int64)
        cases = rng.permutation(cases).tolist()
        lengths = rng.integers(fewest, most + 1, size=rows).tolist()
        texts = [made.text(case, size, rng) for case, size in zip(cases, lengths, strict=True)]
        words, marks, questions = (list(column) for column in zip(*texts, strict=True))
        labels = np.array([made.labels[case] for case in cases], dtype=np.int32)
        asked = questions if any(questions) else None
        splits[name] = Split(np.arange(rows, dtype=np.int64), words, labels, marks, asked)
    note = (
        f"planted corpus, {kind}: {size} texts of {fewest} to {most} tokens made with seed {seed}"
    )
    total = fingerprint(made.class_names, 1, splits)
    task = "question_answering" if kind == "question" else "classification"
    return Corpus(f"planted-{kind}", made.class_names, splits, 1, total, (note,), task=task)


def planted_pairs(
    kind: str,
    seed: int = 0,
    size: int = 10_000,
    length: tuple[int, int] = (8, 16),
    symbols: int = 100,
) -> ParallelCorpus:
    """Make pairs in which every target word comes from one known source word.

    A source has words ``s0``, ``s1``, …, each drawn independently; its target has their twins
    ``t0``, ``t1``, … in another order. A source follows from the seed, its split and its number in
    it: neither more rows nor another kind change it (Pruthi et al. 2020, section 5).

    Args:
        kind: Order of the target (`TARGETS`).
        seed: Seed of the pairs.
        size: Pairs in all, 80/10/10.
        length: Fewest and most words of a text.
        symbols: Number of different words on each side.

    Raises:
        InputError: For an unknown kind or a size out of range.
    """
    operation = "plant pairs"
    require_known(operation, "kind", kind, TARGETS)
    fewest, most = _lengths(operation, size, _FEWEST_PAIRS, length, 1)
    if not 2 <= symbols <= _MOST_SYMBOLS:
        raise InputError(operation, "symbols", str(symbols), f"2 to {_MOST_SYMBOLS}")
    splits = {}
    for split in SPLITS:
        rows = size // 10 if split != "train" else size - 2 * (size // 10)
        words = Sequences("iid", 1, most - fewest + 1)
        lengths = fewest + words.draw(seed, f"planted lengths/{split}", 0, rows)[:, 0]
        drawn = Sequences("iid", most, symbols).draw(seed, f"planted symbols/{split}", 0, rows)
        sources = [row[:words] for row, words in zip(drawn, lengths, strict=True)]
        order = {words: right_positions(kind, words) for words in range(fewest, most + 1)}
        targets = [source[order[len(source)]] for source in sources]
        links = [
            np.vstack([np.full(words, row), np.arange(words), np.argsort(order[words])])
            for row, words in enumerate(lengths.tolist())
        ]
        texts = _texts("s", sources), _texts("t", targets)
        splits[split] = Pairs(np.arange(rows), *texts, np.hstack(links))
    sizes = f"{size} of {fewest} to {most} words out of {symbols}"
    note = f"planted pairs, {kind}: {sizes}, made with seed {seed}"
    return ParallelCorpus(f"planted-{kind}", splits, (note,))


def _lengths(
    operation: str, size: int, least: int, length: tuple[int, int], shortest: int
) -> tuple[int, int]:
    """Return the bounds of the lengths; raise InputError if they or the size are out of range."""
    fewest, most = length
    if size < least:
        raise InputError(operation, "size", str(size), f"at least {least}")
    if not shortest <= fewest <= most:
        expected = f"at least {shortest}, the shorter first"
        raise InputError(operation, "length", f"{fewest} to {most}", expected)
    return length


def _texts(side: str, rows: list[Int64[np.ndarray, " words"]]) -> tuple[str, ...]:
    return tuple(" ".join(f"{side}{symbol}" for symbol in row.tolist()) for row in rows)
