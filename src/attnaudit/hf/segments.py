"""Segments of texts: sentences, lines, or parts between the matches of a regular expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Int64

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.texts import Span, Texts
from attnaudit.trace.words import SPECIAL
from attnaudit.tracing.replacement import Drawn, draw_subsets


def with_segments(texts: Texts, how: str | None) -> Texts:
    """Split texts into segments.

    Args:
        texts: The texts.
        how: ``sentences``, ``lines``, or a regular expression for what separates segments. None
            keeps the segments that the texts have.

    Raises:
        InputError: For a wrong expression, or texts that have segments of their own.
    """
    if how is None:
        return texts
    if texts.segments is not None:
        got, do = f"{how}, and a column of segments", "choose one of them"
        raise InputError("split texts", "segments", got, "one kind of segments", do)
    split = _sentences() if how == "sentences" else _between("\n" if how == "lines" else how)
    segments = [tuple(split(text)) or ((0, len(text)),) for text in texts.text]
    return replace(texts, segments=segments)


Split = Callable[[str], Iterator[Span]]


def _sentences() -> Split:
    import spacy

    language = spacy.blank("en")
    language.add_pipe("sentencizer")
    language.max_length = 1 << 62

    def split(text: str) -> Iterator[Span]:
        return ((one.start_char, one.end_char) for one in language(text).sents if one.text.strip())

    return split


def _between(pattern: str) -> Split:
    try:
        separator = re.compile(pattern)
    except re.error as error:
        got, expected = f"{pattern!r} ({error})", "sentences, lines or a regular expression"
        raise InputError("split texts", "segments", got, expected) from error

    def split(text: str) -> Iterator[Span]:
        """Split at matches; what separates two segments belongs to the first."""
        start = 0
        for stop in [*(found.end() for found in separator.finditer(text)), len(text)]:
            if text[start:stop].strip():
                yield start, stop
                start = stop

    return split


@dataclass(frozen=True)
class SegmentDonors:
    """Segments of texts, to replace those of other texts.

    A segment is replaced by the one at the same place of another text, or, if that has fewer, at
    the place modulo their number. If the copy were longer than the longest text, new segments are
    cut to the lengths of the old ones. A second text stays.

    Attributes:
        encoded: The texts.
    """

    encoded: Encoded

    @cached_property
    def _units(self) -> Ragged:
        return self.encoded.unit

    @property
    def words(self) -> Ragged:
        """Flat positions of the tokens of each text."""
        ids = self.encoded.ids
        return ids.with_values(np.arange(len(ids.values)))

    @property
    def texts(self) -> np.ndarray:
        """Mark the texts with a segment that can be replaced."""
        return self._units.max() > SPECIAL

    def copies(self, row: int, copies: int, random: np.random.Generator) -> Drawn:
        """Draw copies of a text.

        Returns:
            The tokens whose segments each copy loses, ``(M, T)``, and the flat positions of the
            tokens of each copy.
        """
        texts, unit = self.encoded, self._units[row]
        names = np.unique(unit[unit > SPECIAL])
        others = np.flatnonzero(self.texts & (texts.instance != texts.instance[row]))
        lost = draw_subsets(len(names), copies, random)
        drawn = others[random.integers(len(others), size=lost.shape)]
        longest, out = int(texts.ids.lengths.max()), []
        for mask, donors in zip(lost, drawn, strict=True):
            new = {
                int(name): self._segment(int(donor), place)
                for place, (name, is_lost, donor) in enumerate(
                    zip(names, mask, donors, strict=True)
                )
                if is_lost
            }
            copy = self._assembled(row, new)
            if len(copy) > longest:
                cut = {name: tokens[: int((unit == name).sum())] for name, tokens in new.items()}
                copy = self._assembled(row, cut)
            out.append(copy)
        is_lost = np.zeros((copies, len(unit)), bool)
        for place, name in enumerate(names):
            is_lost[:, unit == name] = lost[:, [place]]
        return is_lost, out

    def _segment(self, row: int, place: int) -> Int64[np.ndarray, " K"]:
        """Return the flat positions of the tokens of a segment of a text."""
        unit = self._units[row]
        names = np.unique(unit[unit > SPECIAL])
        chosen = np.flatnonzero(unit == names[place % len(names)])
        return chosen + self.encoded.ids.offsets[row]

    def _assembled(self, row: int, new: dict[int, np.ndarray]) -> Int64[np.ndarray, " L"]:
        """Put other segments in place of those of a text, each where the first token was."""
        start, unit, parts = self.encoded.ids.offsets[row], self._units[row], []
        done: set[int] = set()
        for place, name in enumerate(unit.tolist()):
            if name not in new:
                parts.append(np.array([start + place]))
            elif name not in done:
                done.add(name)
                parts.append(new[name])
        return np.concatenate(parts)

    def replaced(self, row: int, copies: list[np.ndarray]) -> Encoded:
        """Return copies of a text as a model reads them."""
        texts = self.encoded.take(np.full(len(copies), row))
        places = Ragged.from_rows(copies, np.int64)
        ids, types = self.encoded.ids, self.encoded.type_ids
        return replace(
            texts,
            ids=places.with_values(ids.values[places.values]),
            type_ids=types and places.with_values(types.values[places.values]),
        )
