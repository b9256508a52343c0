"""A text in the pieces of its tokenizer: what a reader sees of each, and which make a word."""

from __future__ import annotations

import sys
import unicodedata
from dataclasses import dataclass, field
from typing import Any

from attnaudit.corpora.prepare.tokenise import MARK
from attnaudit.trace.words import SPECIAL

Span = tuple[int, int]
_BLANKS = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"})


@dataclass(frozen=True)
class Pieces:
    """A text in pieces, as the columns of `Encoded` have them; ``cut``: it is longer than the model reads."""

    ids: list[int]
    type_ids: list[int]
    cut: bool
    special: list[bool] = field(default_factory=list)
    word_id: list[int] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    rationale: list[bool] = field(default_factory=list)

    def add(self, token: str, word: int, marked: bool = False) -> None:
        self.tokens.append(sys.intern(token))  # a corpus has many pieces, of few kinds
        self.word_id.append(word)
        self.special.append(word == SPECIAL)
        self.rationale.append(marked)


@dataclass(frozen=True)
class _Place:
    """Where a piece is: the text of a pair, the tokenizer's own word, and its characters without the white space around them."""

    sequence: int
    own: int | None
    start: int
    stop: int

    def begins_word(self, before: _Place | None, text: str) -> bool:
        """Whether a new word begins with this piece."""
        if before is None or before.sequence != self.sequence:
            return True
        if before.start == before.stop:
            return False
        if (
            before.own != self.own
            or text[before.stop : self.start].strip() != text[before.stop : self.start]
            or self.start == self.stop
        ):
            return True
        return _is_mark(text[before.stop - 1]) != _is_mark(text[self.start])


def _is_mark(character: str) -> bool:
    """Whether a character is of punctuation, or a symbol."""
    return unicodedata.category(character)[0] in "PS"


def in_pieces(
    encoding: Any, parts: tuple[str, ...], structural: frozenset[int], spans: tuple[Span, ...] | None, of_bytes: bool = False
) -> Pieces:  # fmt: skip
    """The pieces of a text, or of a pair, as an ``Encoding`` of the tokenizers library gives them.

    ``structural`` are the ids of tokens that are no part of a text, even where it spells them; ``spans`` the characters of the first
    text that are marked. ``of_bytes``: the names of the pieces spell bytes (byte-level BPE).
    """
    out = Pieces(encoding.ids, encoding.type_ids, bool(encoding.overflowing))
    before = first = None  # the piece before, and the first of its word
    word = SPECIAL
    rows = zip(
        encoding.ids,
        encoding.tokens,
        encoding.offsets,
        encoding.sequence_ids,
        encoding.word_ids,
        strict=True,
    )
    for token, name, offsets, sequence, own in rows:
        if sequence is None or token in structural:
            before = None
            out.add(name, SPECIAL)
            out.words.append(name)
            continue
        text = parts[sequence]
        place = _placed(text, offsets, sequence, own, name)
        shown = _shown(
            text,
            offsets,
            place,
            before,
            _without_space(of_spelled_bytes(name)) if of_bytes else name,
        )
        if first is None or place.begins_word(before, text):
            word, first = word + 1, place
            out.words.append(sys.intern(shown))
        else:
            first = place if first.start == first.stop else first
            out.words[-1] = sys.intern(text[first.start : place.stop] or out.words[-1] + shown)
        out.add(
            shown,
            word,
            sequence == 0
            and any(place.start < stop and start < place.stop for start, stop in spans or ()),
        )
        before = place
    return out


def _placed(text: str, offsets: Span, sequence: int, own: int | None, name: str) -> _Place:
    """A piece without the white space around it; one of white space alone is empty, and before the next."""
    inside = text[slice(*offsets)]
    start = offsets[0] + len(inside) - len(inside.lstrip())
    core = (
        inside.strip() if name.strip(MARK) else ""
    )  # some tokenizers put a mark before a text, and say that it is the first character
    return _Place(sequence, own, start, start + len(core))


def _shown(text: str, offsets: Span, place: _Place, before: _Place | None, name: str) -> str:
    """What a reader sees of a piece: its characters; white space as signs; the tokenizer's own name for one of several of a character."""
    if place.start == place.stop:
        inside = text[slice(*offsets)]
        return inside.translate(_BLANKS) if inside.isspace() else name.replace(MARK, "␣")
    start = (
        max(place.start, before.stop)
        if before is not None and before.sequence == place.sequence
        else place.start
    )
    return text[start : place.stop] or name


def _without_space(shown: str) -> str:
    """A piece without the space before it; a space alone is shown."""
    return shown.strip("␣") or shown


def spells_bytes(tokenizer: Any) -> bool:
    """Whether the names of a tokenizer's pieces spell bytes (byte-level BPE)."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return any(
        "ByteLevel" in repr(getattr(backend, part, None)) for part in ("pre_tokenizer", "decoder")
    )


def of_spelled_bytes(name: str) -> str:
    """The text that a piece of a byte-level tokenizer stands for, whose name has a character for every byte.

    White space is shown as signs, and bytes that are not whole characters as ``‹F0 9F›``; a name in other characters is as it is.
    """
    if not name or any(character not in _BYTE_OF for character in name):
        return name
    found = bytes(_BYTE_OF[character] for character in name)
    try:
        text = found.decode()
    except UnicodeDecodeError:
        return f"‹{found.hex(' ').upper()}›"
    return text.translate(_BLANKS)


def _bytes_by_character() -> dict[str, int]:
    """The alphabet of byte-level BPE: a printable byte is its own character, the others follow from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + number): byte for number, byte in enumerate(others)
    }


_BYTE_OF = _bytes_by_character()
