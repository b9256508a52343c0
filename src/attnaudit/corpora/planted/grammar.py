"""Plain sentences about a small town, to hide planted words in. None of the planted words is among its words."""

from __future__ import annotations

import numpy as np

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
    draws = iter(rng.random(2 * length + 40).tolist())  # one for each word and each sentence, and the rest of the last sentence
    words: list[str] = []
    while len(words) < length:
        form = _SENTENCES[int(next(draws) * len(_SENTENCES))]
        words += [pick(_WORDS[slot], next(draws)) for slot in form]
    return words[:length]


def pick(words: tuple[str, ...], draw: float) -> str:
    """The word that a number in [0, 1) stands for."""
    return words[int(draw * len(words))]
