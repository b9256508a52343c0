"""Progress callbacks."""

from collections.abc import Callable

# Arguments: the stage of the work, the amount done, and the total (0 if unknown). A stage may have
# a detail after a comma, as in "train, epoch 2 of 5".
Progress = Callable[[str, int, int], None]
WITHIN = " · "


def silent(stage: str, done: int, total: int) -> None:
    """Show no progress."""


def ignore(number: int) -> None:
    """Do nothing with the amount just done."""


def within(label: str, progress: Progress) -> Progress:
    """Prefix the stages of one of several trainings or runs with its label."""
    return lambda stage, done, total: progress(f"{label}{WITHIN}{stage}", done, total)
