"""Corpora made from others: without some words, or with another model's attention on them."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from typing import Literal

import numpy as np

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.numbers import count
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Corpus, Split, fingerprint
from attnaudit.trace import Trace

Removed = Literal["rationale"] | tuple[str, ...]


def without_words(corpus: Corpus, removed: Removed) -> Corpus:
    """Remove the listed words, or those of the rationale, from every text.

    Texts without other words are excluded and counted in a note.

    Raises:
        InputError: If the rationale of a text is needed and unknown.
    """
    splits, notes = {}, []
    for name, split in corpus.splits.items():
        kept = [[not marked for marked in row] for row in marks(split, removed, name)]
        rows = np.flatnonzero([any(words) for words in kept])
        splits[name] = _compressed(split.take(rows), [kept[row] for row in rows])
        if excluded := len(split) - len(rows):
            told = f"{count(excluded, 'row')} of {name} excluded"
            notes.append(f"{told}: all their words are removed")
    words = "the words of the rationale" if removed == "rationale" else ", ".join(removed)
    notes = (*corpus.notes, *notes, f"removed from every text: {words}")
    whole = fingerprint(corpus.class_names, corpus.min_df, splits)
    return replace(corpus, splits=splits, fingerprint=whole, notes=notes)


def _compressed(split: Split, kept: list[list[bool]]) -> Split:
    def column(rows: list | None) -> list | None:
        return rows and [list(compress(row, keep)) for row, keep in zip(rows, kept, strict=True)]

    sentences = split.sentences and [
        [int(part.sum()) for part in np.split(keep, np.cumsum(lengths)[:-1]) if part.any()]
        for lengths, keep in zip(split.sentences, map(np.array, kept), strict=True)
    ]
    tokens, rationale = column(split.tokens) or [], column(split.rationale)
    return replace(split, tokens=tokens, rationale=rationale, sentences=sentences, raw=None)


def marks(split: Split, chosen: Removed, name: str = "the split") -> list[list[bool]]:
    """Mark the words of every text that are listed, or are of its rationale.

    Raises:
        InputError: If the rationale of a text is needed and unknown.
    """
    if chosen != "rationale":
        return [[token in chosen for token in tokens] for tokens in split.tokens]
    known = split.rationale or [[] for _ in split.tokens]
    for row, tokens in enumerate(split.tokens):
        if tokens and not known[row]:
            got = f"no rationale of instance {split.instance[row]} of {name}"
            do = "list the words: --set deceive.words=WORD,WORD"
            raise InputError("mark words", "rationale", got, "the marked words of every text", do)
    return known


def taught_by(corpus: Corpus, trace: Trace, column: str, origin: str) -> Corpus:
    """Attach a model's predictions and attention to every split, from its trace.

    Args:
        corpus: The corpus.
        trace: A row for every row of train, dev and test, with the same tokens.
        column: Attention: ``alpha`` as it is, or the absolute values of an importance measure, or
            the marks of ``rationale``, scaled to sum to 1; a row of zeros gets uniform weights, and
            the corpus a note.
        origin: Name of the trace in errors.

    Raises:
        InputError: If the trace lacks the column or a row, or has another text.
    """
    known = [
        name
        for name in trace.table.columns
        if name in ("alpha", "gradient", "loo", "rationale") or name.startswith("importance_")
    ]
    if column not in known:
        do = did_you_mean(column, known)
        raise _wrong(origin, f"no column {column!r}", f"one of {', '.join(known)}", do)
    splits, notes, again = {}, list(corpus.notes), "collect the trace from this corpus, all of it"
    of = trace.table["split"].to_list() if trace.has("split") else [""] * len(trace)
    keys = zip(of, trace.instance.tolist(), strict=True)
    place = {key: row for row, key in enumerate(keys)}
    if len(place) < len(trace):
        got, do = "several rows of one instance", "choose a layer and a head"
        raise _wrong(origin, got, "one attention a text", do)
    for name, split in corpus.splits.items():
        rows = [place.get((name, instance), -1) for instance in split.instance.tolist()]
        if missing := rows.count(-1):
            more = f" and {missing - 1} more" if missing > 1 else ""
            got = f"no instance {split.instance[rows.index(-1)]} of {name}{more}"
            raise _wrong(origin, got, "a row for every row of the corpus", again)
        found = trace.take(np.array(rows))
        for row, tokens in enumerate(split.tokens):
            if found.tokens(row) != tokens:
                got = f"instance {found.instance[row]} of {name} has other tokens"
                raise _wrong(origin, got, "a trace of the same corpus", again)
        weights = found.table[column].to_list()
        if None in weights:
            got = f"instance {found.instance[weights.index(None)]} of {name} has none"
            where, do = f"column {column} of {origin}", "choose another column"
            raise _wrong(where, got, "known for every row", do)
        size = Ragged.from_rows(weights, np.float64)
        size = size.with_values(np.abs(size.values))
        total = size.sum()
        even = total == 0
        values = np.where(size.spread(even), 1.0, size.values)
        values /= size.spread(np.where(even, size.lengths, total))
        attention = size.with_values(values.astype(np.float32))
        splits[name] = replace(split, attention=attention, prediction=found.prediction)
        if even.any():
            told = f"{count(int(even.sum()), 'row')} of {name} without any weight by {column}"
            notes.append(f"{told}: uniform weights there")
    return replace(corpus, splits=splits, notes=tuple(notes))


def _wrong(where: str, got: str, expected: str, do: str) -> InputError:
    return InputError("take weights from a trace", where, got, expected, do)
