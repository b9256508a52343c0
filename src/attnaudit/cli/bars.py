"""Progress on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING

from attnaudit.core.printable import printable
from attnaudit.core.progress import WITHIN, Progress

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

# Seconds before a command tells of its work, so that what is refused by then is one line.
SOON = 2.0
PAUSE = 30.0  # seconds between two lines about one stage
WIDE = 110  # columns of a terminal in which a bar holds its count and both times
BAR, NARROW_BAR = 20, 10


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """Yield a callback that shows the stage, the amount done and the total."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    console = Console(stderr=True)
    columns, taken = _columns(console.width >= WIDE)
    with RichProgress(*columns, console=console, transient=True) as bars:
        yield _Bars(bars, console.width - taken)


def _columns(is_wide: bool) -> tuple[list, int]:
    """Return the parts of a bar, and the columns that all but the description take."""
    from rich import progress as rich

    begin = [rich.SpinnerColumn(), rich.TextColumn("{task.description}", markup=False)]
    if is_wide:
        times = [rich.TimeElapsedColumn(), rich.TimeRemainingColumn()]
        return [*begin, rich.BarColumn(BAR), rich.MofNCompleteColumn(), *times], 56
    return [*begin, rich.BarColumn(NARROW_BAR), rich.TimeRemainingColumn(compact=True)], 22


class _Bars:
    """One bar for each stage. A description that is too long loses its front: its end matters."""

    def __init__(self, bars: RichProgress, width: int) -> None:
        self.bars, self.width, self.stage, self.done = bars, width, "", 0
        self.task: TaskID | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        what = printable(what)
        stage, text = _stage(what), what
        if len(what) > self.width:
            text = f"…{what[1 - self.width :]}"
        if self.task is None or stage != self.stage or done < self.done:
            if self.task is not None:
                self.bars.remove_task(self.task)
            self.task = self.bars.add_task(text, total=total or None, completed=done)
        self.stage, self.done = stage, done
        self.bars.update(self.task, description=text, completed=done)


class _Lines:
    """A line for each stage when it begins, then how far it is, with the time since the start.

    Of one training among several another line tells when it ends: here only how far it is.
    """

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()
        self.lock, self.begun = Lock(), set()

    def __call__(self, what: str, done: int, total: int) -> None:
        now, stage = time.monotonic(), _stage(what)
        with self.lock:
            begins = stage not in self.begun and WITHIN not in stage and now >= self.began + SOON
            if not begins and now < self.last + PAUSE:
                return
            self.last = now
            self.begun.add(stage)
            share = f" ({100 * done / total:.0f} %)" if done and total else ""
            minutes, seconds = divmod(int(now - self.began), 60)
            line = f"{minutes}:{seconds:02d} {printable(what)}{share}"
            print(line, file=sys.stderr, flush=True)


def _stage(what: str) -> str:
    return what.partition(", ")[0]
