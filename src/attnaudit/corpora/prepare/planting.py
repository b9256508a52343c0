"""Texts whose deciding words are put there: any corpus, shortened, with planted words and labels.

The label is random, so the words of the text itself say nothing about it, and planted words follow
it. Every text also has a decoy, a word of two other sets that is drawn without regard to the label.
So it is known which words decide, and what replacing a word must do (`swapped`, `reworded`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np

from attnaudit.core.errors import InputError
from attnaudit.corpora.corpus import Corpus, Split, fingerprint, keyed
from attnaudit.corpora.planted import BAD, COLD_FIRST, GOOD, WARM_FIRST
from attnaudit.corpora.spec import PlantedRule

RULES: tuple[str, ...] = get_args(PlantedRule)
ROWS = {"train": 2000, "dev": 100, "test": 80}  # at most so many rows of each split
WORDS = 24  # at most so many words of a text, around what is marked in it
CLASSES = ("negative", "positive")
TRIGGERS, DECOYS = (BAD, GOOD), (COLD_FIRST, WARM_FIRST)
TRIGGER_WORDS, DECOY_WORDS = frozenset(BAD + GOOD), frozenset(COLD_FIRST + WARM_FIRST)
_TWINS = dict(zip(BAD + COLD_FIRST, GOOD + WARM_FIRST, strict=True))
_OTHER = _TWINS | {other: word for word, other in _TWINS.items()}
_MANY = 0.4  # share of words that decide by the rule many
_LEAST = 4  # words of a text before planting
# Rare words would tell a text, and with it its random label, apart.
_MIN_DF = 5


def with_planted(corpus: Corpus, rule: PlantedRule, seed: int) -> Corpus:
    """Plant words into texts, relabelled at random; the deciding words are the rationale.

    What is planted follows from the seed, the split and the row only, and words and positions are
    the same for ``decisive``, ``decoy`` and ``random``.

    Args:
        corpus: Any texts without questions.
        rule: ``decisive``: one word decides. ``twice``: a second word of the same class is there as
            well. ``majority``: three words, of which two or three are of the class. ``last``: the
            last word decides. ``many``: `_MANY` of all words are of the class. ``decoy``: the decoy
            is the word that decides. ``random``: as decisive, but the label is independent of all
            words.
        seed: Seed of labels and words.

    Raises:
        InputError: For texts with questions.
    """
    if corpus.task != "classification":
        got = f"a corpus of the task {corpus.task}"
        raise InputError("plant words", corpus.name, got, "texts without a question")
    splits = {name: _planted(split, name, rule, seed) for name, split in corpus.splits.items()}
    texts = f"at most {ROWS['train']} texts of train; labels drawn at random"
    note = f"words planted with seed {seed} by the rule {rule} into {texts}"
    return replace(
        corpus,
        class_names=CLASSES,
        splits=splits,
        min_df=_MIN_DF,
        fingerprint=fingerprint(CLASSES, _MIN_DF, splits),
        notes=(*corpus.notes, note),
    )


def swapped(split: Split) -> list[list[str]]:
    """Replace each deciding word by its twin of the other class."""
    return [
        [_OTHER.get(word, word) if marked else word for word, marked in _marked(split, row)]
        for row in range(len(split))
    ]


def reworded(split: Split) -> list[list[str]]:
    """Replace every word that does not decide, a planted one by its twin, others by fillers."""
    texts = []
    for row, tokens in enumerate(split.tokens):
        others = _fillers(split, (row + 1) % len(split)) or tokens
        texts.append(
            [
                word if marked else _OTHER.get(word, others[k % len(others)])
                for k, (word, marked) in enumerate(_marked(split, row))
            ]
        )
    return texts


def masked(split: Split) -> list[list[str]]:
    """Replace each deciding word by the first word of the text that does not decide."""
    texts = []
    for row in range(len(split)):
        first = (_fillers(split, row) or ["."])[0]
        texts.append([first if marked else word for word, marked in _marked(split, row)])
    return texts


def _marked(split: Split, row: int) -> list[tuple[str, bool]]:
    assert split.rationale is not None
    return list(zip(split.tokens[row], split.rationale[row], strict=True))


def _fillers(split: Split, row: int) -> list[str]:
    return [word for word in split.tokens[row] if word not in _OTHER]


def _planted(split: Split, name: str, rule: str, seed: int) -> Split:
    enough = [row for row in range(len(split)) if len(_fillers(split, row)) >= _LEAST]
    chosen = keyed(seed, "planted rows", name).permutation(np.array(enough, dtype=np.int64))
    taken = split.take(np.sort(chosen[: ROWS.get(name, ROWS["test"])]))
    label = keyed(seed, "planted labels", name).permutation(np.arange(len(taken)) % 2)
    made = [
        _text(taken, row, rule, int(label[row]), keyed(seed, "planted", name, str(instance)))
        for row, instance in enumerate(taken.instance.tolist())
    ]
    if rule == "random":
        label = keyed(seed, "random labels", name).permutation(label)
    decided = [own for _, _, own in made] if rule == "decoy" else label
    words, marks = [text for text, _, _ in made], [row for _, row, _ in made]
    return Split(taken.instance, words, np.array(decided, dtype=np.int32), marks)


def _text(
    split: Split, row: int, rule: str, label: int, rng: np.random.Generator
) -> tuple[list[str], list[bool], int]:
    """Plant words into one text; return it, its marks and the class of its decoy.

    Planted words replace those at their positions, the first one a word of the rationale if there
    is one.
    """
    # A window around the first marked word, without words that are planted elsewhere.
    known = split.rationale[row] if split.rationale is not None else []
    known = known or [False] * len(split.tokens[row])
    pairs = zip(split.tokens[row], known, strict=True)
    kept = [(word, mark) for word, mark in pairs if word not in _OTHER]
    first = next((k for k, (_, mark) in enumerate(kept) if mark), 0)
    start = max(0, min(first - WORDS // 3, len(kept) - WORDS))
    words = [word for word, _ in kept[start : start + WORDS]]
    marked = [k for k, (_, mark) in enumerate(kept[start : start + WORDS]) if mark]

    last = len(words) - 1  # kept for the rule last
    order = rng.permutation(last).tolist()
    of_decoy = int(rng.integers(2))
    picked = rng.integers(len(GOOD), size=len(words)).tolist()
    first = next((place for place in marked if place < last), order[0])
    *places, decoy_at = first, *(place for place in order if place != first)
    number = {"twice": 2, "majority": 3, "many": max(2, round(_MANY * len(words)))}.get(rule, 1)
    places = [last] if rule == "last" else places[:number]
    classes = [label] * len(places)
    if rule == "majority" and len(places) == 3 and rng.random() < 0.5:
        classes[int(rng.integers(3))] = 1 - label
    for place, own in zip(places, classes, strict=True):
        words[place] = TRIGGERS[own][picked[place]]
    words[decoy_at] = DECOYS[of_decoy][picked[0] % len(DECOYS[0])]
    deciding = {decoy_at} if rule == "decoy" else set(places)
    return words, [place in deciding for place in range(len(words))], of_decoy
