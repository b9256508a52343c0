"""How long work tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]  # what is going on, how much of it is done, how much there is (0: not known)


def silent(what: str, done: int, total: int) -> None:
    """Show no progress."""
