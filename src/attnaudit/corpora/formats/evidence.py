"""Stretches of a text that are known to decide its label, as characters and as marked words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from attnaudit.corpora.formats.rows import BadCell

Span = tuple[int, int]  # of characters, the second not among them
_WORD = re.compile(r"\S+")


def usable_spans(value: object, length: int) -> list[Span]:
    """Pairs (start, stop) within a text of ``length`` characters, in order, joined where they overlap. Raises BadCell."""
    if not isinstance(value, (list, tuple)):
        raise BadCell(f"a rationale of type {type(value).__name__} where a list of [start, stop] was expected")
    spans: list[Span] = []
    for start, stop in sorted(_span(item, length) for item in value):
        if spans and start < spans[-1][1]:
            first, end = spans.pop()
            start, stop = first, max(stop, end)
        spans.append((start, stop))
    return spans


def marked_words(text: str, spans: list[Span], tokenise: Callable[[str], list[str]]) -> tuple[list[str], list[bool]]:
    """The words of a text, and which of them lie in a span.

    Pieces between the ends of spans are split into words one by one: where spans end at white space that gives the words of the
    whole text, elsewhere it cuts a word in two.
    """
    words: list[str] = []
    marks: list[bool] = []
    for piece, marked in _pieces(text, spans):
        found = tokenise(piece)
        words += found
        marks += [marked] * len(found)
    return words, marks


def word_spans(text: str, stretches: list[Span]) -> list[Span]:
    """Characters of stretches that are given as (first, last + 1) among the words between white space; empty ones mark nothing.

    Raises BadCell.
    """
    words = [found.span() for found in _WORD.finditer(text)]
    for first, end in stretches:
        if not 0 <= first <= end <= len(words):
            raise BadCell(f"evidence from word {first} to {end} in a text of {len(words)} words")
    return [(words[first][0], words[end - 1][1]) for first, end in stretches if first < end]


def _span(item: object, length: int) -> Span:
    if not isinstance(item, (list, tuple)) or len(item) != 2 or not all(type(end) is int for end in item):
        raise BadCell(f"a rationale with {str(item)[:40]!r} where [start, stop] was expected")
    start, stop = item
    if not 0 <= start < stop <= length:
        raise BadCell(f"a rationale from {start} to {stop} in a text of {length} characters")
    return start, stop


def _pieces(text: str, spans: list[Span]) -> Iterator[tuple[str, bool]]:
    done = 0
    for start, stop in spans:
        yield text[done:start], False
        yield text[start:stop], True
        done = stop
    yield text[done:], False
