"""Escapes for untrusted text: characters that steer a terminal, reverse a line or do not print."""

import re
from collections.abc import Mapping
from typing import Any

# Control characters except tab, line feed and carriage return; marks that end a line, or reverse
# its direction, which can make a text read as another; halves of characters, and code points that
# are none, at which the renderer of charts aborts the process.
_CONTROLS = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff"
    "\\ufdd0-\\ufdef\\ufffe\\uffff"
    + "".join(
        chr(plane + end) for plane in range(0x10000, 0x110000, 0x10000) for end in (0xFFFE, 0xFFFF)
    )
    + "]"
)


def printable(text: str) -> str:
    r"""Escape every character that does not print, such as ``\x1b`` and ends of lines."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(ord(char)) for char in text)


def without_controls(text: str) -> str:
    r"""Escape control characters and marks that reverse a line as JSON does, like ``\u001b``."""
    if text.isprintable():
        return text
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def data_without_controls(data: Any) -> Any:
    """Apply `without_controls` to all texts in JSON data, keys included."""
    if isinstance(data, str):
        return without_controls(data)
    if isinstance(data, Mapping):
        items = data.items()
        return {data_without_controls(key): data_without_controls(value) for key, value in items}
    if isinstance(data, list | tuple):
        return [data_without_controls(value) for value in data]
    return data


def as_markup(text: str) -> str:
    """Escape rich's markup, after `printable`."""
    # Imported here because most callers of this module print no table.
    from rich.markup import escape

    return escape(printable(text))


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
