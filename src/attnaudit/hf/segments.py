"""Segments of texts: sentences, lines, or parts between the matches of a regular expression."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int64

from attnaudit.core import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.formats.rows import Span
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.texts import Texts
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
    spans = [tuple(split(text)) or ((0, len(text)),) for text in texts.text]
    segments = [tuple((*span, "") for span in row) for row in spans]
    return replace(texts, segments=segments)


Split = Callable[[str], Iterator[Span]]


def _sentences() -> Split:
    import spacy

    language = spacy.blank("en")
    language.add_pipe("sentencizer")
    language.max_length = 1 << 62

    def split(text):
        return ((one.start_char, one.end_char) for one in language(text).sents if one.text.strip())

    return split


def _between(pattern: str) -> Split:
    try:
        separator = re.compile(pattern)
    except re.error as error:
        expected = "sentences, lines or a regular expression"
        raise InputError("split texts", "segments", f"{pattern!r} ({error})", expected) from error

    def split(text):
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
    def _segments(self) -> list[list[np.ndarray]]:
        """Flat positions of the tokens of each segment of each text, side by side in the text."""
        starts = self.encoded.ids.offsets.tolist()
        return [
            [start + np.flatnonzero(unit == name) for name in np.unique(unit[unit > SPECIAL])]
            for start, unit in zip(starts, self.encoded.unit, strict=False)
        ]

    @property
    def words(self) -> Ragged:
        """Flat positions of the tokens of each text."""
        ids = self.encoded.ids
        return ids.with_values(np.arange(len(ids.values)))

    @cached_property
    def texts(self) -> Bool[np.ndarray, " n"]:
        """Mark the texts with a segment that can be replaced."""
        return np.array(list(map(bool, self._segments)), bool)

    def copies(self, row: int, copies: int, random: np.random.Generator) -> Drawn:
        """Draw copies of a text.

        Returns:
            The tokens whose segments each copy loses, ``(M, T)``, and the flat positions of the
            tokens of each copy.
        """
        texts, own = self.encoded, self._segments[row]
        others = np.flatnonzero(self.texts & (texts.instance != texts.instance[row]))
        lost = draw_subsets(len(own), copies, random)
        drawn = others[random.integers(len(others), size=lost.shape)]
        longest, out = int(texts.ids.lengths.max()), []
        for mask, donors in zip(lost, drawn.tolist(), strict=True):
            known = [self._segments[donor] for donor in donors]
            new = [
                known[k][k % len(known[k])] if is_lost else own[k]
                for k, is_lost in enumerate(mask.tolist())
            ]
            copy = self._with_segments(row, new)
            if len(copy) > longest:
                cut = [one[: len(old)] for one, old in zip(new, own, strict=True)]
                copy = self._with_segments(row, cut)
            out.append(copy)
        is_lost = np.zeros((copies, texts.ids.lengths[row]), bool)
        for segment, mask in zip(own, lost.T, strict=True):
            is_lost[:, segment - texts.ids.offsets[row]] = mask[:, None]
        return is_lost, out

    def _with_segments(self, row: int, new: list[np.ndarray]) -> Int64[np.ndarray, " L"]:
        """Put other segments in place of those of a text."""
        end, stop = self.encoded.ids.offsets[row : row + 2].tolist()
        parts = []
        for old, segment in zip(self._segments[row], new, strict=True):
            parts += [np.arange(end, old[0]), segment]
            end = int(old[-1]) + 1
        return np.concatenate([*parts, np.arange(end, stop)])

    def replaced(self, row: int, copies: list[np.ndarray]) -> Encoded:
        """Return copies of a text as a model reads them."""
        texts = self.encoded.take(np.full(len(copies), row))
        places = Ragged.from_rows(copies, np.int64)
        types = self.encoded.type_ids
        return replace(
            texts,
            ids=places.with_values(self.encoded.ids.values[places.values]),
            type_ids=types and places.with_values(types.values[places.values]),
        )
