"""Words of files, addresses and traces as a terminal may show them: what would steer it, or is no text, becomes an escape."""

from __future__ import annotations


def printable(text: str) -> str:
    """``text`` on one line: each character that does not print (control, bidirectional mark, half a surrogate pair) as ``\\x1b``."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _escape(ord(char)) for char in text)


def as_markup(text: str) -> str:
    """``printable``, with what rich would take for markup escaped too."""
    from rich.markup import escape  # here because most of what imports this prints no table

    return escape(printable(text))


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
