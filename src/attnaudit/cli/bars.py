"""How far the work is, on stderr: as a bar where that is a terminal, else as a line now and then."""

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


SOON = 2.0  # seconds that a command has before it tells of its work: what is refused by then is one line
PAUSE = 30.0  # seconds between two lines about one stage
WIDE = 110  # columns of a terminal in which a bar holds its count and for both times
BAR, NARROW_BAR = 20, 10


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """A function that takes what is going on, how much of it is done and how much there is (0: not known)."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    console = Console(stderr=True)
    columns, taken = _columns(console.width >= WIDE)
    with RichProgress(*columns, console=console, transient=True) as bars:
        yield _Bars(bars, console.width - taken)


def _columns(wide: bool) -> tuple[list, int]:
    """What a bar is made of, and how many columns of the terminal all of it but the description takes."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    description = TextColumn("{task.description}", markup=False)
    if wide:
        return [
            SpinnerColumn(),
            description,
            BarColumn(BAR),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        ], 56
    return [
        SpinnerColumn(),
        description,
        BarColumn(NARROW_BAR),
        TimeRemainingColumn(compact=True),
    ], 22


class _Bars:
    """One bar for each stage. Where the description is too long its front goes: the end tells where the work is."""

    def __init__(self, bars: RichProgress, width: int) -> None:
        self.bars, self.width, self.stage, self.done = bars, width, "", 0
        self.task: TaskID | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        what = printable(what)
        stage, text = (
            _stage(what),
            what if len(what) <= self.width else f"…{what[1 - self.width :]}",
        )
        if self.task is None or stage != self.stage or done < self.done:
            if self.task is not None:
                self.bars.remove_task(self.task)
            self.task = self.bars.add_task(text, total=total or None, completed=done)
        self.stage, self.done = stage, done
        self.bars.update(self.task, description=text, completed=done)


class _Lines:
    """A line for each stage when it begins, then how far it is, with the time since the command began; none in its first seconds.

    Of one training among several a line tells when it ends: here only how far it is.
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
            print(f"{minutes}:{seconds:02d} {printable(what)}{share}", file=sys.stderr, flush=True)


def _stage(what: str) -> str:
    return what.partition(", ")[0]
