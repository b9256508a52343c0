"""Texts that came to harm on their way: read with the wrong encoding, or with markup left in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.entities import html5

# Words are lower case by now, and a word may have been cut at a sign: so Ã© may stand as «ã» «©».
_HIGH = "\u0080-\u00bf€ƒ†‡ˆ‰œžÿ™š"  # the second byte of a UTF-8 character in latin-1 or cp1252, without quotation marks and dashes
_PATTERNS: dict[str, re.Pattern[str]] = {
    "replacement character": re.compile("\ufffd"),
    "UTF-8 read as latin-1": re.compile(rf"[âã] ?[{_HIGH}]|ð ?[\u009fÿ]|ï ?» ?¿"),
    "control character": re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\ufeff]"),
    "HTML tag": re.compile(
        r"< ?/? ?(?:br|p|b|i|u|em|strong|a|div|span|font|table|tr|td|ul|ol|li|h[1-6]|img|hr|html|body|head|script)"
        r"(?: [^<>]{0,200}=[^<>]{0,200})? ?/? ?>"
    ),
}
_ENTITY = re.compile(r"& ?(?:# ?\w|([a-z]{2,8}) ?;)")  # the number of an entity, and what is glued to it, may be masked
HTML_ENTITY = "HTML entity"
KINDS = (*_PATTERNS, HTML_ENTITY)
_NAMES = {name.rstrip(";").lower() for name in html5}
_AROUND = 12  # characters shown on each side


def damage_in(words: Sequence[str]) -> dict[str, str]:
    """The kinds of damage in a text, each with the first place where it shows."""
    text = " ".join(words)
    found = {kind: _shown(text, match) for kind, pattern in _PATTERNS.items() if (match := pattern.search(text))}
    if entity := next((match for match in _ENTITY.finditer(text) if match[1] is None or match[1] in _NAMES), None):
        found[HTML_ENTITY] = _shown(text, entity)
    return found


def _shown(text: str, match: re.Match[str]) -> str:
    return text[max(0, match.start() - _AROUND) : match.end() + _AROUND]
