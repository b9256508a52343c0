"""Numbers of things as people read them."""

from __future__ import annotations


def thousands(number: int) -> str:
    """Format ``1725`` and ``25,000``."""
    return f"{number:,}" if number >= 10_000 else str(number)


def count(number: int, noun: str) -> str:
    """Format ``1 instance`` and ``1725 instances``."""
    return f"{thousands(number)} {noun}{'' if number == 1 else 's'}"
