"""Words of files, addresses and traces as a terminal may show them: what would steer it, or is no text, becomes an escape."""

from __future__ import annotations


def printable(text: str) -> str:
    """``text`` on one line: each character that does not print (control, bidirectional mark, half a surrogate pair) as ``\\x1b``."""
    return text if text.isprintable() else "".join(char if char.isprintable() else _escape(ord(char)) for char in text)


def without_controls(text: str) -> str:
    """``text`` as it is but for control characters and marks that reverse a line: those as ``\\u001b``, as JSON writes them too."""
    return text.translate(_CONTROLS)


def as_markup(text: str) -> str:
    """``printable``, with what rich would take for markup escaped too."""
    from rich.markup import escape  # here because most of what imports this prints no table

    return escape(printable(text))


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_BUT_TABS_AND_LINES = (*range(9), 11, 12, *range(14, 32), *range(0x7F, 0xA0))
_TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS = {code: f"\\u{code:04x}" for code in (*_BUT_TABS_AND_LINES, *_TURNING)}
