"""Texts whose deciding words are put there: any corpus, cut to short texts, with planted words that a random label follows.

Every text also has a decoy, a word of two other sets that is drawn without regard to the label. The words of the text itself say nothing
about the label, which is random. So it is known which words decide, and what replacing a word must do (`swapped`, `reworded`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.corpora.corpus import Corpus, Split, fingerprint, keyed, row_digests
from attnaudit.corpora.planted import BAD, COLD_FIRST, GOOD, WARM_FIRST

PlantedRule = Literal["decisive", "twice", "majority", "last", "many", "decoy", "random"]
RULES: tuple[str, ...] = get_args(PlantedRule)
ROWS = {"train": 2000, "dev": 100, "test": 80}  # at most so many rows of each split
WORDS = 24  # at most so many words of a text, around what is marked in it
CLASSES = ("negative", "positive")
TRIGGERS, DECOYS = (BAD, GOOD), (COLD_FIRST, WARM_FIRST)
TRIGGER_WORDS, DECOY_WORDS = (
    frozenset(word for words in both for word in words) for both in (TRIGGERS, DECOYS)
)
_OTHER = {
    word: twin
    for both in (TRIGGERS, DECOYS)
    for pair in zip(*both, strict=True)
    for word, twin in (pair, pair[::-1])
}
_MANY = 0.4  # share of words that decide by the rule many
_LEAST = 4  # words of a text before planting
_MIN_DF = 5  # train texts that a word must occur in to be known: rare words would tell a text, and with it its random label, apart


def with_planted(corpus: Corpus, rule: str, seed: int) -> Corpus:
    """The corpus with words planted into its texts, relabelled at random; the deciding words are its rationale.

    ``decisive``: one word decides. ``twice``: a second word of the same class is there as well. ``majority``: three words, of which two or
    three are of the class. ``last``: the last word decides. ``many``: `_MANY` of all words are of the class. ``decoy``: the decoy is the
    word that decides. ``random``: as decisive, but the label is independent of all words. What is planted follows from ``seed``, the split
    and the row alone, and words and positions are the same for ``decisive``, ``decoy`` and ``random``. Raises InputError.
    """
    if rule not in RULES:
        raise InputError(
            "plant words",
            "setting corpus.planted",
            repr(rule),
            f"one of {', '.join(RULES)}",
            did_you_mean(rule, RULES),
        )
    if corpus.task != "classification":
        raise InputError(
            "plant words",
            corpus.name,
            f"a corpus of the task {corpus.task}",
            "texts without a question",
        )
    splits = {name: _planted(split, name, rule, seed) for name, split in corpus.splits.items()}
    digests = {name: row_digests(split) for name, split in splits.items()}
    note = f"words planted with seed {seed} by the rule {rule} into at most {ROWS['train']} texts of train; labels drawn at random"
    whole = fingerprint(CLASSES, _MIN_DF, splits, digests)
    return replace(
        corpus,
        class_names=CLASSES,
        splits=splits,
        min_df=_MIN_DF,
        fingerprint=whole,
        notes=(*corpus.notes, note),
    )


def swapped(split: Split) -> list[list[str]]:
    """The texts with each deciding word replaced by its twin of the other class."""
    return _each_word(split, lambda word, marked: _OTHER.get(word, word) if marked else word)


def reworded(split: Split) -> list[list[str]]:
    """The texts with every word that does not decide replaced: a planted one by its twin, any other by one of the next text's."""
    fillers = [_fillers(split, row) for row in range(len(split))]
    texts = []
    for row, tokens in enumerate(split.tokens):
        others = fillers[(row + 1) % len(split)]
        replaced = [others[k % len(others)] for k in range(len(tokens))] if others else tokens
        texts.append(
            [
                word if marked else _OTHER.get(word, other)
                for word, other, marked in zip(tokens, replaced, marks_of(split, row), strict=True)
            ]
        )
    return texts


def masked(split: Split) -> list[list[str]]:
    """The texts with each deciding word replaced by the first word of the text that does not decide."""
    first = [(_fillers(split, row) or ["."])[0] for row in range(len(split))]
    return [
        [
            first[row] if marked else word
            for word, marked in zip(tokens, marks_of(split, row), strict=True)
        ]
        for row, tokens in enumerate(split.tokens)
    ]


def marks_of(split: Split, row: int) -> list[bool]:
    """Which words of a planted text decide. Raises InputError where that is not known."""
    if split.rationale is None:
        raise InputError(
            "plant words", "rationale", "no deciding words are marked", "a planted corpus"
        )
    return split.rationale[row]


def _fillers(split: Split, row: int) -> list[str]:
    return [
        word for word in split.tokens[row] if word not in DECOY_WORDS and word not in TRIGGER_WORDS
    ]


def _each_word(split: Split, change: Callable[[str, bool], str]) -> list[list[str]]:
    return [
        [change(word, marked) for word, marked in zip(tokens, marks_of(split, row), strict=True)]
        for row, tokens in enumerate(split.tokens)
    ]


def _planted(split: Split, name: str, rule: str, seed: int) -> Split:
    long_enough = np.array(
        [row for row, tokens in enumerate(split.tokens) if len(_plain(tokens)) >= _LEAST],
        dtype=np.int64,
    )
    chosen = keyed(seed, "planted rows", name).permutation(long_enough)[
        : ROWS.get(name, ROWS["test"])
    ]
    taken = split.take(np.sort(chosen))
    label = keyed(seed, "planted labels", name).permutation(np.arange(len(taken)) % 2)
    made = [
        _text(
            *_window(taken, row), rule, int(label[row]), keyed(seed, "planted", name, str(instance))
        )
        for row, instance in enumerate(taken.instance.tolist())
    ]
    if rule == "random":
        label = keyed(seed, "random labels", name).permutation(label)
    decided = [own for _, _, own in made] if rule == "decoy" else label.tolist()
    words, marks = [text for text, _, _ in made], [row for _, row, _ in made]
    return Split(taken.instance, words, np.array(decided, dtype=np.int32), marks)


def _plain(tokens: list[str]) -> list[str]:
    """A text without words that are planted elsewhere."""
    return [word for word in tokens if word not in _OTHER]


def _window(split: Split, row: int) -> tuple[list[str], list[int]]:
    """`WORDS` words around the first that is marked, if any is, and the positions of those that are."""
    tokens = split.tokens[row]
    known = split.rationale[row] if split.rationale is not None else []
    marks = known or [False] * len(tokens)
    kept = [(word, mark) for word, mark in zip(tokens, marks, strict=True) if word not in _OTHER]
    first = next((k for k, (_, mark) in enumerate(kept) if mark), 0)
    start = max(0, min(first - WORDS // 3, len(kept) - WORDS))
    window = kept[start : start + WORDS]
    return [word for word, _ in window], [k for k, (_, mark) in enumerate(window) if mark]


def _text(
    words: list[str], marked: list[int], rule: str, label: int, rng: np.random.Generator
) -> tuple[list[str], list[bool], int]:
    """A planted text, which of its words decide, and the class of its decoy; planted words replace those at their positions."""
    order = rng.permutation(len(words) - 1).tolist()  # the last word is kept for the rule last
    of_decoy = int(rng.integers(2))
    picked = rng.integers(len(GOOD), size=len(words)).tolist()
    decoy = DECOYS[of_decoy][picked[0] % len(DECOYS[0])]
    first = next((place for place in marked if place < len(words) - 1), order[0])
    where = [first, *(place for place in order if place != first)]
    decoy_at, where = where[-1], where[:-1]
    chosen, classes = _deciding(rule, len(words), where, label, rng)
    text, marks = list(words), [False] * len(words)
    for place, of in zip(chosen, classes, strict=True):
        text[place], marks[place] = TRIGGERS[of][picked[place]], True
    text[decoy_at] = decoy
    if rule == "decoy":
        marks = [place == decoy_at for place in range(len(words))]
    return text, marks, of_decoy


def _deciding(
    rule: str, length: int, where: list[int], label: int, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """The positions of planted words, and the class of each."""
    if rule == "last":
        return [length - 1], [label]
    count = {"twice": 2, "majority": 3, "many": max(2, round(_MANY * length))}.get(rule, 1)
    chosen = where[: min(count, len(where))]
    classes = [label] * len(chosen)
    if rule == "majority" and len(chosen) == 3 and rng.random() < 0.5:
        classes[int(rng.integers(3))] = 1 - label
    return chosen, classes
