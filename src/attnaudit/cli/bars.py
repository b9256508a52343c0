"""Progress bars on stderr, when that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from attnaudit.progress import silent

Show = Callable[[str, int, int], None]


@contextlib.contextmanager
def progress() -> Iterator[Show]:
    """A function that takes what is going on, how much of it is done and how much there is (0: not known)."""
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _Bars(bars)


class _Bars:
    """One bar for each thing that goes on; one that starts again from the front counts its rounds (the epochs of a training)."""

    def __init__(self, bars) -> None:
        self.bars, self.task, self.what, self.done, self.round = bars, None, "", 0, 1

    def __call__(self, what: str, done: int, total: int) -> None:
        again = what == self.what and done < self.done
        if what != self.what or again:
            self.round = self.round + 1 if again else 1
            if self.task is not None:
                self.bars.remove_task(self.task)
            self.task = self.bars.add_task(f"{what} (round {self.round})" if again else what, total=total or None)
        self.what, self.done = what, done
        self.bars.update(self.task, completed=done)
