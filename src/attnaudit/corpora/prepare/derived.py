"""Corpora made from others: without some of their words, or with what another model does on them."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from typing import Literal

import numpy as np

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.numbers import count
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Corpus, Split, fingerprint, row_digests
from attnaudit.trace import Trace

Removed = Literal["rationale"] | tuple[str, ...]


def without_words(corpus: Corpus, removed: Removed) -> Corpus:
    """The corpus without the listed words, or without those of the rationale; texts without other words are excluded and counted in a note.

    Raises InputError where the rationale of a text is needed and unknown.
    """
    splits, notes = {}, []
    for name, split in corpus.splits.items():
        splits[name], empty = _without(split, name, removed)
        notes += (
            [f"{count(empty, 'row')} of {name} excluded: all their words are removed"]
            if empty
            else []
        )
    digests = {name: row_digests(split) for name, split in splits.items()}
    words = "the words of the rationale" if removed == "rationale" else ", ".join(removed)
    notes.append(f"removed from every text: {words}")
    whole = fingerprint(corpus.class_names, corpus.min_df, splits, digests)
    return replace(corpus, splits=splits, fingerprint=whole, notes=(*corpus.notes, *notes))


def _without(split: Split, name: str, removed: Removed) -> tuple[Split, int]:
    kept = [[not marked for marked in row] for row in marks(split, removed, name)]
    rows = np.array([row for row, words in enumerate(kept) if any(words)], dtype=np.int64)
    taken = split.take(rows)
    tokens = [list(compress(split.tokens[row], kept[row])) for row in rows.tolist()]
    rationale = (
        None
        if split.rationale is None
        else [list(compress(split.rationale[row], kept[row])) for row in rows.tolist()]
    )
    sentences = (
        None
        if split.sentences is None
        else [_left_of(split.sentences[row], kept[row]) for row in rows.tolist()]
    )
    return replace(taken, tokens=tokens, rationale=rationale, sentences=sentences, raw=None), len(
        split
    ) - len(rows)


def _left_of(sentences: list[int], kept: list[bool]) -> list[int]:
    """The number of remaining words of every sentence; empty ones are removed."""
    ends = np.cumsum(sentences)[:-1]
    return [int(part.sum()) for part in np.split(np.array(kept), ends) if part.any()]


def marks(split: Split, chosen: Removed, name: str = "the split") -> list[list[bool]]:
    """Which words of every text are listed, or are of its rationale. Raises InputError where that is not known of a text."""
    if chosen != "rationale":
        listed = frozenset(chosen)
        return [[token in listed for token in tokens] for tokens in split.tokens]
    for row, tokens in enumerate(split.tokens):
        if tokens and not (split.rationale and split.rationale[row]):
            got = (
                f"no rationale of instance {split.instance[row]} of {name}"
                if split.rationale
                else f"no rationales in {name}"
            )
            do = "list the words: --set deceive.words=WORD,WORD"
            raise InputError("mark words", "rationale", got, "the marked words of every text", do)
    return split.rationale or []


OPERATION = "take weights from a trace"
RATIONALE = "rationale"


def taught_by(corpus: Corpus, trace: Trace, column: str, origin: str) -> Corpus:
    """The corpus with the trace's predictions, and the column ``column`` as attention, in every split.

    The trace has a row for every row of train, dev and test, with the same tokens. ``alpha`` is taken as it is; of an importance measure
    the absolute values, of ``rationale`` the marks, are scaled to sum to 1; a row where all are 0 gets uniform weights, and the corpus a
    note. ``origin`` names the trace in errors. Raises InputError.
    """
    known = [
        name
        for name in trace.table.columns
        if name in ("alpha", "gradient", "loo", RATIONALE) or name.startswith("importance_")
    ]
    if column not in known:
        raise InputError(
            OPERATION,
            origin,
            f"no column {column!r}",
            f"one of {', '.join(known)}",
            did_you_mean(column, known),
        )
    splits, notes = {}, []
    for name, split in corpus.splits.items():
        found = trace.take(_rows(trace, name, split, origin))
        weights, even = _weights(found, column, name, origin)
        splits[name] = replace(split, attention=weights, prediction=found.prediction)
        notes += (
            [
                f"{count(even, 'row')} of {name} without any weight by {column}: uniform weights there"
            ]
            if even
            else []
        )
    return replace(corpus, splits=splits, notes=(*corpus.notes, *notes))


def _rows(trace: Trace, name: str, split: Split, origin: str) -> np.ndarray:
    """Where the trace holds each row of the split. Raises InputError where it does not, or holds another text."""
    there = (
        np.flatnonzero(np.array(trace.table["split"].to_list()) == name)
        if trace.has("split")
        else np.arange(0)
    )
    place = dict(zip(trace.instance[there].tolist(), there.tolist(), strict=True))
    if len(place) < len(there):
        raise InputError(
            OPERATION,
            origin,
            f"several rows of one instance of {name}",
            "one attention a text",
            "choose a layer and a head",
        )
    again = "collect the trace from this corpus, all of train, dev and test"
    missing = [instance for instance in split.instance.tolist() if instance not in place]
    if missing:
        got = f"no instance {missing[0]} of {name}" + (
            f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        )
        raise InputError(OPERATION, origin, got, "a row for every row of the corpus", again)
    rows = np.array([place[instance] for instance in split.instance.tolist()], dtype=np.int64)
    for row, tokens in zip(rows.tolist(), split.tokens, strict=True):
        if trace.tokens(row) != tokens:
            got = f"instance {trace.instance[row]} of {name} has other tokens"
            raise InputError(OPERATION, origin, got, "a trace of the same corpus", again)
    return rows


def _weights(trace: Trace, column: str, name: str, origin: str) -> tuple[Ragged, int]:
    """Weights that sum to 1, and how many rows had none."""
    raw = _marks(trace, name, origin) if column == RATIONALE else trace.ragged(column)
    size = raw.with_values(np.abs(raw.values.astype(np.float64)))
    total = size.sum()
    even = ~(total > 0)
    values = np.where(size.spread(even), 1.0, size.values) / size.spread(
        np.where(even, size.lengths, total)
    )
    return size.with_values(values.astype(np.float32)), int(even.sum())


def _marks(trace: Trace, name: str, origin: str) -> Ragged:
    rows = trace.table[RATIONALE].to_list()
    for row, marks in enumerate(rows):
        if marks is None:
            got = f"instance {trace.instance[row]} of {name} has none"
            raise InputError(
                OPERATION,
                f"column {RATIONALE} of {origin}",
                got,
                "known for every row",
                "choose another column",
            )
    return Ragged.from_rows(rows, np.float64)
