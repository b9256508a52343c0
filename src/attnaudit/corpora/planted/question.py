"""Texts that say where several people are, and a question about one of them: the words that answer it are known."""

from __future__ import annotations

import numpy as np

from attnaudit.corpora.corpus import Split
from attnaudit.corpora.planted.grammar import filler

PEOPLE = ("anna", "boris", "clara", "daniel", "edith", "felix", "greta", "hugo")
ROOMS = ("attic", "cellar", "kitchen", "office", "pantry", "studio")
FACTS = 3  # people whose room a text tells
_FACT_WORDS = 3


def question_split(rows: int, length: tuple[int, int], rng: np.random.Generator, share: float | None) -> Split:
    """``rows`` texts with `FACTS` facts "<person> in <room>" each, at random positions; every answer is asked for about equally often."""
    label = rng.permutation(np.arange(rows) % len(ROOMS))
    lengths = rng.integers(length[0], length[1] + 1, size=rows).tolist()
    texts = [_text(answer, tokens, rng) for answer, tokens in zip(label.tolist(), lengths, strict=True)]
    words, marks, questions = (list(column) for column in zip(*texts, strict=True)) if texts else ([], [], [])
    return Split(np.arange(rows, dtype=np.int64), words, label.astype(np.int32), marks, questions)


def _text(answer: int, length: int, rng: np.random.Generator) -> tuple[list[str], list[bool], list[str]]:
    words, marks = filler(length, rng), [False] * length
    people = [PEOPLE[k] for k in rng.choice(len(PEOPLE), FACTS, replace=False)]
    rooms = [ROOMS[answer], *(ROOMS[k] for k in rng.integers(len(ROOMS), size=FACTS - 1))]
    gaps = np.sort(rng.choice(length - FACTS * (_FACT_WORDS - 1), FACTS, replace=False)) + np.arange(FACTS) * (_FACT_WORDS - 1)
    for place, person, room, asked in zip(rng.permutation(gaps).tolist(), people, rooms, (True, False, False), strict=True):
        words[place : place + _FACT_WORDS] = [person, "in", room]
        marks[place : place + _FACT_WORDS] = [asked, False, asked]
    return words, marks, ["where", "is", people[0], "?"]
