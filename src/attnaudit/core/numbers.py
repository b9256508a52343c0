"""Counts in readable form."""


def thousands(number: int) -> str:
    """Format a number, with separators from five digits on: ``1725``, ``25,000``."""
    return f"{number:,}" if number >= 10_000 else str(number)


def count(number: int, noun: str) -> str:
    """Format a number with its noun: ``1 instance``, ``1725 instances``."""
    return f"{thousands(number)} {noun}{'' if number == 1 else 's'}"
