"""Progress callbacks."""

from __future__ import annotations

from collections.abc import Callable

# Called with the stage of the work, how much of it is done, and how much there is (0: unknown). In
# "train, epoch 2 of 5" the part before the comma is the stage.
Progress = Callable[[str, int, int], None]
WITHIN = " · "


def silent(stage: str, done: int, total: int) -> None:
    """Show no progress."""


def within(label: str, progress: Progress) -> Progress:
    """Report the progress of one of several trainings or runs, under its label."""
    return lambda stage, done, total: progress(f"{label}{WITHIN}{stage}", done, total)
