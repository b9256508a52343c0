"""Words of files, addresses and traces as a terminal may show them: what would steer it, or is no text, becomes an escape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def printable(text: str) -> str:
    """``text`` on one line: each character that does not print (control, bidirectional mark, half a surrogate pair) as ``\\x1b``."""
    return (
        text
        if text.isprintable()
        else "".join(char if char.isprintable() else _escape(ord(char)) for char in text)
    )


def without_controls(text: str) -> str:
    """``text`` as it is but for control characters and marks that reverse a line: those as ``\\u001b``, as JSON writes them too."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def data_without_controls(data: Any) -> Any:
    """`without_controls` of all texts, names of values too, of data that a script reads."""
    if isinstance(data, str):
        return without_controls(data)
    if isinstance(data, Mapping):
        return {
            data_without_controls(key): data_without_controls(value) for key, value in data.items()
        }
    return (
        [data_without_controls(value) for value in data] if isinstance(data, list | tuple) else data
    )


def as_markup(text: str) -> str:
    """``printable``, with what rich would take for markup escaped too."""
    from rich.markup import escape  # here because most of what imports this prints no table

    return escape(printable(text))


def _escape(code: int) -> str:
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )


_CONTROLS = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]"
)  # but tabs and ends of lines
