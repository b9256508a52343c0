"""Corpora made from others: of some classes or words, or with another model's attention on them."""

from dataclasses import replace
from itertools import compress
from typing import Literal

import numpy as np

from attnaudit.core import InputError, count, require_known
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import shuffled, stream_keys
from attnaudit.corpora.corpus import Corpus, Split, fingerprint
from attnaudit.trace import Trace

_OPERATION = "take weights from a trace"
SHUFFLED = "shuffled"  # attention, in another order within each text
Removed = Literal["rationale"] | tuple[str, ...]


def of_classes(corpus: Corpus, number: int) -> Corpus:
    """Keep only the texts of the first classes.

    Raises:
        InputError: If the labels belong to questions, or the corpus has fewer classes.
    """
    if corpus.task != "classification" or number > len(corpus.class_names):
        got = f"{number}, of {', '.join(corpus.class_names)}"
        expected = "at most as many as there are, in a classification of texts"
        raise InputError("read settings", "setting corpus.classes", got, expected)
    splits = {
        name: split.take(np.flatnonzero(split.label < number))
        for name, split in corpus.splits.items()
    }
    names = corpus.class_names[:number]
    whole = fingerprint(names, corpus.min_df, splits)
    notes = (*corpus.notes, f"classes kept: {', '.join(names)}")
    return replace(corpus, class_names=names, splits=splits, fingerprint=whole, notes=notes)


def without_words(corpus: Corpus, removed: Removed) -> Corpus:
    """Remove the listed words, or those of the rationale, from every text.

    Texts without other words are excluded and counted in a note.

    Raises:
        InputError: If the rationale of a text is needed and unknown.
    """
    splits, notes = {}, []
    for name, split in corpus.splits.items():
        every = [[not marked for marked in row] for row in marks(split, removed, name)]
        rows = np.flatnonzero([any(keep) for keep in every])
        kept, part = [every[row] for row in rows], split.take(rows)
        tokens, rationale = (
            column and [list(compress(row, keep)) for row, keep in zip(column, kept, strict=True)]
            for column in (part.tokens, part.rationale)
        )
        sentences = part.sentences and [
            [int(words.sum()) for words in np.split(keep, np.cumsum(lengths)[:-1]) if words.any()]
            for lengths, keep in zip(part.sentences, map(np.array, kept), strict=True)
        ]
        splits[name] = replace(
            part, tokens=tokens or [], rationale=rationale, sentences=sentences, raw=None
        )
        if excluded := len(split) - len(rows):
            told = f"{count(excluded, 'row')} of {name} excluded"
            notes.append(f"{told}: all their words are removed")
    words = "the words of the rationale" if removed == "rationale" else ", ".join(removed)
    notes = (*corpus.notes, *notes, f"removed from every text: {words}")
    whole = fingerprint(corpus.class_names, corpus.min_df, splits)
    return replace(corpus, splits=splits, fingerprint=whole, notes=notes)


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
        column: Attention: ``alpha`` as it is, ``shuffled`` within each text, or the absolute values
            of an importance measure, or the marks of ``rationale``, scaled to sum to 1; a row of
            zeros gets uniform weights, and the corpus a note.
        origin: Name of the trace in errors.

    Raises:
        InputError: If the trace lacks the column or a row, or has another text.
    """
    known = [
        name
        for name in trace.table.columns
        if name in ("alpha", "gradient", "loo", "rationale") or name.startswith("importance_")
    ]
    require_known(_OPERATION, f"{origin}: column", column, [*known, SHUFFLED])
    texts = trace.table["tokens"].to_list()
    if column == SHUFFLED:
        every = list(shuffled(trace.alpha, stream_keys(0, SHUFFLED, trace.instance), 0))
    else:
        every = trace.table[column].to_list()
    of = trace.table["split"].to_list() if trace.has("split") else [""] * len(trace)
    place = {key: row for row, key in enumerate(zip(of, trace.instance.tolist(), strict=True))}
    if len(place) < len(trace):
        got, do = "several rows of one instance", "choose a layer and a head"
        raise InputError(_OPERATION, origin, got, "one attention a text", do)
    splits, notes = {}, list(corpus.notes)
    for name, split in corpus.splits.items():
        rows = [place.get((name, instance), -1) for instance in split.instance.tolist()]
        for row, instance, tokens in zip(rows, split.instance, split.tokens, strict=True):
            if row < 0 or texts[row] != tokens or every[row] is None:
                got = "other tokens" if row >= 0 and texts[row] != tokens else f"no {column}"
                where, do = f"{origin}: instance {instance} of {name}", "collect all of this corpus"
                raise InputError(_OPERATION, where, got, "the corpus's text and its weights", do)
        weights = Ragged.from_rows([every[row] for row in rows], np.float64)
        weights = weights.with_values(np.abs(weights.values))
        even = weights.sum() == 0
        values = np.where(weights.spread(even), 1.0, weights.values)
        values /= weights.spread(np.where(even, weights.lengths, weights.sum()))
        attention = weights.with_values(values.astype(np.float32))
        prediction = trace.prediction[rows]
        splits[name] = replace(split, attention=attention, prediction=prediction)
        if even.any():
            told = f"{count(int(even.sum()), 'row')} of {name} without any weight by {column}"
            notes.append(f"{told}: uniform weights there")
    return replace(corpus, splits=splits, notes=tuple(notes))
