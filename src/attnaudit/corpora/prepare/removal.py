"""Texts without some of their words: what is left to learn from."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from attnaudit.core.errors import InputError
from attnaudit.corpora.corpus import Corpus, Split, fingerprint, row_digests

Removed = Literal["rationale"] | tuple[str, ...]


def without_words(corpus: Corpus, removed: Removed) -> Corpus:
    """The corpus without the listed words, or without those of the rationale; texts with no other are excluded, and counted in a note.

    Raises InputError where the rationale is needed and not known of a text.
    """
    splits, notes = {}, []
    for name, split in corpus.splits.items():
        splits[name], empty = _without(split, name, removed)
        notes += [f"{empty} row(s) of {name} are skipped: all their words are removed"] if empty else []
    digests = {name: row_digests(split) for name, split in splits.items()}
    told = "the words of the rationale" if removed == "rationale" else ", ".join(removed)
    notes.append(f"removed from every text: {told}")
    whole = fingerprint(corpus.class_names, corpus.min_df, splits, digests)
    return replace(corpus, splits=splits, fingerprint=whole, notes=(*corpus.notes, *notes))


def _without(split: Split, name: str, removed: Removed) -> tuple[Split, int]:
    kept = [[not gone for gone in row] for row in marks(split, removed, name)]
    rows = np.array([row for row, places in enumerate(kept) if any(places)], dtype=np.int64)
    taken = split.take(rows)
    tokens = [_chosen(split.tokens[row], kept[row]) for row in rows.tolist()]
    rationale = None if split.rationale is None else [_chosen(split.rationale[row], kept[row]) for row in rows.tolist()]
    sentences = None if split.sentences is None else [_left_of(split.sentences[row], kept[row]) for row in rows.tolist()]
    return replace(taken, tokens=tokens, rationale=rationale, sentences=sentences), len(split) - len(rows)


def _left_of(sentences: list[int], kept: list[bool]) -> list[int]:
    """The words that are left of every sentence; one without any is gone."""
    ends = np.cumsum(sentences)[:-1]
    return [int(part.sum()) for part in np.split(np.array(kept), ends) if part.any()]


def marks(split: Split, chosen: Removed, name: str = "the split") -> list[list[bool]]:
    """Which words of every text are listed, or are of its rationale. Raises InputError where that is not known of a text."""
    if chosen != "rationale":
        listed = frozenset(chosen)
        return [[token in listed for token in tokens] for tokens in split.tokens]
    for row, tokens in enumerate(split.tokens):
        if tokens and not (split.rationale and split.rationale[row]):
            got = f"no rationale of instance {split.instance[row]} of {name}" if split.rationale else f"no rationales in {name}"
            raise InputError("mark words", "rationale", got, "the marked words of every text", "give a list of words in its place")
    return split.rationale or []


def _chosen(values: list, kept: list[bool]) -> list:
    return [value for value, stays in zip(values, kept, strict=False) if stays]
