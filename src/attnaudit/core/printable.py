"""Escapes for words of files, addresses and traces that could steer a terminal or are no text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Control characters other than tabs and ends of lines, and marks that reverse a line.
_CONTROLS = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]"
)


def printable(text: str) -> str:
    r"""Put ``text`` on one line, each character that does not print as an escape like ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(ord(char)) for char in text)


def without_controls(text: str) -> str:
    r"""Escape control characters and marks that reverse a line as ``\u001b``, as JSON does."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def data_without_controls(data: Any) -> Any:
    """Apply `without_controls` to all texts of data that a script reads, names of values too."""
    if isinstance(data, str):
        return without_controls(data)
    if isinstance(data, Mapping):
        items = data.items()
        return {data_without_controls(key): data_without_controls(value) for key, value in items}
    if isinstance(data, list | tuple):
        return [data_without_controls(value) for value in data]
    return data


def as_markup(text: str) -> str:
    """Apply `printable`, and escape rich's markup too."""
    # Imported here because most callers of this module print no table.
    from rich.markup import escape

    return escape(printable(text))


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
