"""Texts to sentences: those that are given, else by spaCy's rule, which ends one at a full stop, a question or an exclamation mark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attnaudit.corpora.corpus import Split


def sentence_lengths(split: Split) -> Iterator[list[int]]:
    """How many words each sentence of every text has."""
    if split.sentences is not None:
        yield from split.sentences
        return
    language = _rule()
    for tokens in split.tokens:
        yield _lengths(language, tokens)


def _rule() -> Any:
    import spacy  # here because it takes two seconds

    language = spacy.blank("en")
    language.add_pipe("sentencizer")
    return language


def _lengths(language: Any, tokens: Sequence[str]) -> list[int]:
    from spacy.tokens import Doc

    document = Doc(language.vocab, words=list(tokens))
    return [len(sentence) for sentence in language.get_pipe("sentencizer")(document).sents]
