"""How long work tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

# What is going on, how much of it is done, how much there is (0: not known). Of "train, epoch 2 of 5" what stands before the comma is the
# stage of the work, the rest where in it.
Progress = Callable[[str, int, int], None]
WITHIN = " · "


def silent(what: str, done: int, total: int) -> None:
    """Show no progress."""


def within(label: str, progress: Progress) -> Progress:
    """``progress`` for the work on one of several, a training or a run, that ``label`` names and of whose end a line tells."""
    return lambda what, done, total: progress(f"{label}{WITHIN}{what}", done, total)
