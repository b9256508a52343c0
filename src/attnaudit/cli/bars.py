"""Progress on stderr: a bar on a terminal, else a line now and then."""

import contextlib
import sys
import time
from collections.abc import Iterator
from threading import Lock

from attnaudit.core import Progress, printable
from attnaudit.core.progress import WITHIN

# Seconds before a command tells of its work, so that what is refused by then is one line.
SOON = 2.0
PAUSE = 30.0  # seconds between two lines about one stage
BAR = 10
TAKEN = 22  # columns that all but the description take


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """Yield a callback that shows the stage, the amount done and the total."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich import progress as rich
    from rich.console import Console

    console = Console(stderr=True)
    text = rich.TextColumn("{task.description}", markup=False)
    columns = rich.BarColumn(BAR), rich.TimeRemainingColumn(compact=True)
    with rich.Progress(
        rich.SpinnerColumn(), text, *columns, console=console, transient=True
    ) as bars:
        task, last = bars.add_task("", total=None), ("", 0)

        def show(what, done, total):
            nonlocal task, last
            if _stage(what) != last[0] or done < last[1]:
                bars.remove_task(task)
                task = bars.add_task("", total=total or None)
            last = _stage(what), done
            # A description that is too long loses its front: its end matters.
            shown = printable(what)[-max(console.width - TAKEN, 1) :]
            bars.update(task, description=shown, completed=done)

        yield show


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
