"""Generated corpora: texts whose deciding words are known, among plain sentences about a small town, and pairs with exact alignments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from jaxtyping import Int64

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.corpora.corpus import (
    SPLITS,
    Corpus,
    Pairs,
    ParallelCorpus,
    Split,
    Task,
    fingerprint,
    keyed,
    row_digests,
)
from attnaudit.corpora.planted.sequences import TARGETS, Sequences, right_positions

_WORDS: dict[str, tuple[str, ...]] = {
    "article": ("the", "this", "that", "each", "another", "one"),
    "person": (
        "baker", "gardener", "teacher", "ferryman", "neighbour", "clerk", "painter", "farmer", "nurse", "tailor", "cousin", "student",
        "postman", "carpenter", "librarian", "visitor",
    ),
    "thing": (
        "basket", "lantern", "letter", "ladder", "kettle", "bicycle", "blanket", "notebook", "umbrella", "bench", "bucket", "ticket",
        "map", "coat", "parcel", "window", "table", "clock", "rope", "cup",
    ),
    "place": (
        "market", "harbour", "station", "orchard", "bridge", "square", "mill", "garden", "library", "field", "workshop", "river",
        "tower", "school", "barn", "street",
    ),
    "adjective": (
        "small", "round", "wooden", "narrow", "old", "quiet", "heavy", "tall", "local", "distant", "folded", "empty", "striped", "wide",
    ),
    "did": (
        "carried", "found", "moved", "left", "kept", "opened", "borrowed", "measured", "painted", "showed", "counted", "lifted",
        "noticed", "brought",
    ),
    "went": ("walked", "waited", "stayed", "arrived", "turned", "worked", "stood", "slept"),
    "where": ("near", "behind", "beside", "towards", "inside", "across", "from", "past"),
    "when": ("yesterday", "later", "again", "early", "often", "today", "twice", "soon", "then", "once"),
    "joined": ("and", "while", "because", "before", "after", "so"),
    "stop": (".",),
    "comma": (",",),
}  # fmt: skip

_SENTENCES: tuple[tuple[str, ...], ...] = tuple(
    tuple(line.split())
    for line in (
        "article person did article thing where article place stop",
        "article adjective person went where article place stop",
        "when comma article person did article adjective thing stop",
        "article thing went where article adjective place when stop",
        "article person went joined article person did article thing stop",
        "where article place comma article adjective thing went stop",
        "article person did article thing joined went where article place when stop",
    )
)

VOCABULARY = frozenset(word for words in _WORDS.values() for word in words)


def filler(length: int, rng: np.random.Generator) -> list[str]:
    """``length`` words of running text; the last sentence may be cut off."""
    draws = iter(
        rng.random(2 * length + 40).tolist()
    )  # one for each word and each sentence, and the rest of the last sentence
    words: list[str] = []
    while len(words) < length:
        form = _SENTENCES[int(next(draws) * len(_SENTENCES))]
        words += [pick(_WORDS[slot], next(draws)) for slot in form]
    return words[:length]


def pick(words: tuple[str, ...], draw: float) -> str:
    """The word that a number in [0, 1) stands for."""
    return words[int(draw * len(words))]


PEOPLE = ("anna", "boris", "clara", "daniel", "edith", "felix", "greta", "hugo")
ROOMS = ("attic", "cellar", "kitchen", "office", "pantry", "studio")
FACTS = 3  # people whose room a text states
_FACT_WORDS = 3


def question_split(
    rows: int, length: tuple[int, int], rng: np.random.Generator, share: float | None
) -> Split:
    """``rows`` texts with `FACTS` facts "<person> in <room>" each, at random positions; every answer is asked for about equally often."""
    label = rng.permutation(np.arange(rows) % len(ROOMS))
    lengths = rng.integers(length[0], length[1] + 1, size=rows).tolist()
    texts = [
        _facts(answer, tokens, rng) for answer, tokens in zip(label.tolist(), lengths, strict=True)
    ]
    words, marks, questions = (
        (list(column) for column in zip(*texts, strict=True)) if texts else ([], [], [])
    )
    return Split(np.arange(rows, dtype=np.int64), words, label.astype(np.int32), marks, questions)


def _facts(
    answer: int, length: int, rng: np.random.Generator
) -> tuple[list[str], list[bool], list[str]]:
    words, marks = filler(length, rng), [False] * length
    people = [PEOPLE[k] for k in rng.choice(len(PEOPLE), FACTS, replace=False)]
    rooms = [ROOMS[answer], *(ROOMS[k] for k in rng.integers(len(ROOMS), size=FACTS - 1))]
    gaps = np.sort(
        rng.choice(length - FACTS * (_FACT_WORDS - 1), FACTS, replace=False)
    ) + np.arange(FACTS) * (_FACT_WORDS - 1)
    for place, person, room, asked in zip(
        rng.permutation(gaps).tolist(), people, rooms, (True, False, False), strict=True
    ):
        words[place : place + _FACT_WORDS] = [person, "in", room]
        marks[place : place + _FACT_WORDS] = [asked, False, asked]
    return words, marks, ["where", "is", people[0], "?"]


PlantedKind = Literal["decisive", "negation", "conjunction", "prior", "question"]
Choice = tuple[str, ...]  # words of which one is planted

GOOD = ("excellent", "delightful", "superb", "charming", "splendid", "lovely")
BAD = ("awful", "dreadful", "horrible", "dismal", "terrible", "tedious")
NEGATING = ("not",)
AFFIRMING = ("truly", "indeed", "really")
WARM_FIRST, WARM_SECOND = ("scarlet", "crimson", "amber"), ("ruby", "coral", "cherry")
COLD_FIRST, COLD_SECOND = ("azure", "indigo", "navy"), ("sapphire", "teal", "cobalt")

_SHORTEST = 10
_SMALLEST, _FEWEST_PAIRS = 40, 10  # a row of each class, or one pair, for dev and one for test
_MOST_SYMBOLS = 1_000_000
_SHARES = (("train", 0.8), ("dev", 0.1), ("test", 0.1))


@dataclass(frozen=True)
class Planting:
    """``cases`` are the ways to plant: a label and one choice of words for each planted position; ``positions(T, rng)`` draws those."""

    cases: tuple[tuple[int, tuple[Choice, ...]], ...]
    positions: Callable[[int, np.random.Generator], tuple[int, ...]]


def _two_neighbours(length: int, rng: np.random.Generator) -> tuple[int, ...]:
    first = int(rng.integers(length - 1))
    return (first, first + 1)


def _both_ends(length: int, rng: np.random.Generator) -> tuple[int, ...]:
    third = length // 3
    return (int(rng.integers(third)), int(rng.integers(length - third, length)))


_DECISIVE = Planting(((0, (BAD,)), (1, (GOOD,))), lambda length, rng: (int(rng.integers(length)),))
_NEGATION = Planting(
    ((0, (NEGATING, GOOD)), (0, (AFFIRMING, BAD)), (1, (NEGATING, BAD)), (1, (AFFIRMING, GOOD))),
    _two_neighbours,
)
_CONJUNCTION = Planting(
    (
        (0, (WARM_FIRST, COLD_SECOND)),
        (0, (COLD_FIRST, WARM_SECOND)),
        (1, (WARM_FIRST, WARM_SECOND)),
        (1, (COLD_FIRST, COLD_SECOND)),
    ),
    _both_ends,
)
_PRIOR = Planting(((0, ()), (1, ())), lambda length, rng: ())


@dataclass(frozen=True)
class Kind:
    """A way to make a corpus: ``make(rows, length, rng, prior)`` gives one split."""

    title: str
    class_names: tuple[str, ...]
    make: Callable[[int, tuple[int, int], np.random.Generator, float | None], Split]
    task: Task = "classification"


def _split(
    planting: Planting,
    rows: int,
    length: tuple[int, int],
    rng: np.random.Generator,
    share: float | None,
) -> Split:
    if share is None:
        case = rng.permutation(np.arange(rows) % len(planting.cases))
    else:
        case = rng.permutation((np.arange(rows) < round(share * rows)).astype(np.int64))
    lengths = rng.integers(length[0], length[1] + 1, size=rows).tolist()
    texts = [
        _text(planting, number, tokens, rng)
        for number, tokens in zip(case.tolist(), lengths, strict=True)
    ]
    label = np.array([planting.cases[number][0] for number in case], dtype=np.int32)
    return Split(
        np.arange(rows, dtype=np.int64),
        [words for words, _ in texts],
        label,
        [marks for _, marks in texts],
    )


def _text(
    planting: Planting, case: int, length: int, rng: np.random.Generator
) -> tuple[list[str], list[bool]]:
    words, marks = filler(length, rng), [False] * length
    choices = planting.cases[case][1]
    for place, choice in zip(planting.positions(length, rng), choices, strict=True):
        words[place], marks[place] = pick(choice, rng.random()), True
    return words, marks


KINDS = {
    "decisive": Kind("one word decides", ("negative", "positive"), partial(_split, _DECISIVE)),
    "negation": Kind(
        "two neighbouring words decide together",
        ("negative", "positive"),
        partial(_split, _NEGATION),
    ),
    "conjunction": Kind(
        "two distant words decide together", ("different", "alike"), partial(_split, _CONJUNCTION)
    ),
    "prior": Kind("no word decides", ("rare", "common"), partial(_split, _PRIOR)),
    "question": Kind("questions about rooms", ROOMS, question_split, "question_answering"),
}


def planted_corpus(
    kind: PlantedKind | str = "decisive",
    *,
    size: int = 2000,
    length: tuple[int, int] = (10, 40),
    seed: int = 0,
    prior: float = 0.7,
) -> Corpus:
    """A corpus whose deciding words are known and marked in each split's ``rationale``.

    ``decisive``: one word of feeling among distractors decides. ``negation``: a word of feeling and the word before it (``not``
    or an affirming one) decide together; neither alone is informative. ``conjunction``: a colour in the first third and one in
    the last third of the text decide by being of the same kind; neither alone is informative. ``prior``: no word decides; a share
    ``prior`` of the rows is of class 1. ``question``: the text states the rooms of three people, a question asks for one of them.

    ``size`` rows in all (80/10/10, at least 40), ``length`` the fewest and most tokens of a text (at least 10). All kinds but
    ``prior`` are balanced in each split. The same arguments give the same corpus. Raises InputError.
    """
    operation = "plant corpus"
    _check(operation, kind, KINDS, size, _SMALLEST)
    if not _SHORTEST <= length[0] <= length[1]:
        raise InputError(
            operation,
            "length",
            f"{length[0]} to {length[1]}",
            f"at least {_SHORTEST}, the shorter first",
        )
    if not 0 < prior < 1:
        raise InputError(operation, "prior", str(prior), "a share between 0 and 1")
    made = KINDS[kind]
    share = prior if kind == "prior" else None
    splits = {
        name: made.make(round(part * size), length, keyed(seed, "planted", kind, name), share)
        for name, part in _SHARES
    }
    digests = {name: row_digests(split) for name, split in splits.items()}
    note = f"planted corpus, {kind}: {size} texts of {length[0]} to {length[1]} tokens made with seed {seed}"
    total = fingerprint(made.class_names, 1, splits, digests)
    return Corpus(f"planted-{kind}", made.class_names, splits, 1, total, (note,), task=made.task)


def planted_pairs(
    kind: str,
    seed: int = 0,
    size: int = 10_000,
    length: tuple[int, int] = (8, 16),
    symbols: int = 100,
) -> ParallelCorpus:
    """Pairs in which every target word comes from one source word, and it is known which (Pruthi et al. 2020, section 5).

    A source has words ``s0``, ``s1``, … of ``symbols``, each drawn by itself, as its number of words is (``length``: fewest, most); its
    target has their twins ``t0``, ``t1``, … in the order that ``kind`` names. ``copy``: the same. ``reverse``: the last first.
    ``bigram_flip``: the two of each pair swapped, the last of an odd number kept. There are ``size`` pairs in all (80/10/10). A
    source follows from the seed, its split and its number in it: neither more rows nor another kind change it. Raises InputError.
    """
    operation = "plant pairs"
    _check(operation, kind, TARGETS, size, _FEWEST_PAIRS)
    if not 1 <= length[0] <= length[1]:
        raise InputError(
            operation, "length", f"{length[0]} to {length[1]}", "1 or more, the shorter first"
        )
    if not 2 <= symbols <= _MOST_SYMBOLS:
        raise InputError(operation, "symbols", str(symbols), f"2 to {_MOST_SYMBOLS}")
    held_out = size // 10
    splits = {
        split: _pairs(
            kind,
            seed,
            split,
            held_out if split != "train" else size - 2 * held_out,
            length,
            symbols,
        )
        for split in SPLITS
    }
    note = f"planted pairs, {kind}: {size} of {length[0]} to {length[1]} words out of {symbols}, made with seed {seed}"
    return ParallelCorpus.of(f"planted-{kind}", splits, (note,))


def _pairs(
    kind: str, seed: int, split: str, count: int, length: tuple[int, int], symbols: int
) -> Pairs:
    fewest, most = length
    lengths = (
        fewest
        + Sequences("iid", 1, most - fewest + 1).draw(seed, f"planted lengths/{split}", 0, count)[
            :, 0
        ]
    )
    drawn = Sequences("iid", most, symbols).draw(seed, f"planted symbols/{split}", 0, count)
    order = {words: right_positions(kind, words) for words in np.unique(lengths).tolist()}
    sources = [row[:words] for row, words in zip(drawn, lengths.tolist(), strict=True)]
    targets = [source[order[len(source)]] for source in sources]
    return Pairs(
        np.arange(count), _texts("s", sources), _texts("t", targets), _links(lengths, order)
    )


def _texts(side: str, rows: list[np.ndarray]) -> tuple[str, ...]:
    return tuple(" ".join(f"{side}{symbol}" for symbol in row.tolist()) for row in rows)


def _links(
    lengths: Int64[np.ndarray, " n"], order: dict[int, Int64[np.ndarray, " words"]]
) -> Int64[np.ndarray, "three k"]:
    """Row, source word and target word: ``order`` gives for every length the source word of each target word."""
    goes_to = {words: np.argsort(positions) for words, positions in order.items()}
    parts = [
        np.vstack([np.full(words, row), np.arange(words), goes_to[words]])
        for row, words in enumerate(lengths.tolist())
    ]
    return np.hstack(parts)


def _check(operation: str, kind: str, kinds: Iterable[str], size: int, smallest: int) -> None:
    if kind not in kinds:
        raise InputError(
            operation, "kind", repr(kind), f"one of {', '.join(kinds)}", did_you_mean(kind, kinds)
        )
    if size < smallest:
        raise InputError(operation, "size", str(size), f"at least {smallest}")
