"""Pools do the calls that a command consists of; here one after another, in this process."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnaudit.core import InputError, Progress, within
from attnaudit.steps.folder import MANIFEST


@dataclass(frozen=True)
class Call:
    """Work that any process can do, with plain arguments.

    Done twice it makes the same, so a call that was lost is made again.

    Attributes:
        name: Label in progress lines.
        work: Function ``work(held, writes, progress, device)`` of a module, or a `partial` of one;
            its answer is small. ``device`` is that of the process, None to go by the model's
            settings.
        writes: File or folder that it makes, whole or not there.
        held: Object that many calls read, such as a corpus.
        after: Names of calls that must be done before.
        device: Device that the settings of its model ask for.
        last: File in ``writes`` that is written last.
    """

    name: str
    work: Callable[..., Any]
    writes: Path
    held: Any = None
    after: tuple[str, ...] = ()
    device: str = "cpu"
    last: str = MANIFEST

    @property
    def is_done(self) -> bool:
        """True if what it makes is there."""
        return (self.writes / self.last).exists()


@dataclass(frozen=True)
class Done:
    """A call that ended: its answer, or the error in its input."""

    call: Call
    answer: Any = None
    error: InputError | None = None

    def result(self) -> Any:
        """Return the answer. Raises the error."""
        if self.error is not None:
            raise self.error
        return self.answer


class Pool:
    """Runs calls; this one does them in this process, one after another, in their order.

    Attributes:
        shares: True if calls run in other processes, so that work is worth cutting into calls.
    """

    shares: bool = False

    def device(self, asked: str) -> str | None:
        """Return the device for a model whose settings ask for one; None: that of this process.

        Raises:
            InputError: If the pool has no such device.
        """
        return None

    def do(self, calls: Iterable[Call], progress: Progress, total: int = 0) -> Iterator[Done]:
        """Do calls and yield each as it ends; other pools do so in any order.

        Args:
            calls: Calls, taken as they can be done. Those that come ``after`` others follow them.
            progress: Callback.
            total: Number of the calls; 0 if unknown.

        Raises:
            RunError: If a call cannot be done here.
        """
        for number, call in enumerate(calls, 1):
            label = f"{call.name} ({number} of {total})" if total else call.name
            yield done(call, call.held, within(label, progress))


SERIAL = Pool()


def done(call: Call, held: Any, progress: Progress, device: str | None = None) -> Done:
    """Do a call; an error in its input is a value."""
    try:
        return Done(call, call.work(held, call.writes, progress, device))
    except InputError as error:
        return Done(call, error=error)
