"""What a worker of a cluster does: one call, with the threads and the files that it is given."""

from __future__ import annotations

import platform
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import unwritable
from attnaudit.core.threads import take
from attnaudit.runner.engine import Call, Here, done

Files = Mapping[str, bytes]  # by path within the folder; of a file alone the path is empty
NEWS = 1.0  # seconds between two reports of progress
LATE = 90.0  # seconds after which a shared folder shows at the latest what another machine wrote there: NFS keeps attributes for up to 60


@dataclass(frozen=True)
class Order:
    """A call for a worker: the working ``folder`` of the driver, the ``device``, and what is to be copied to the worker's machine.

    ``files`` is the reference of a mapping from paths to their `Files`, None where nodes share the folder; ``board`` is where progress is
    reported.
    """

    call: Call
    folder: Path
    device: str
    files: Any
    board: Any


@dataclass(frozen=True)
class Answer:
    """What a call answered, the error in its input, or that memory did not suffice; ``files`` of its result where it has to be copied."""

    value: Any = None
    error: InputError | None = None
    out_of_memory: str = ""
    files: Files = field(default_factory=dict)


_held: dict[Any, Any] = {}  # the last object that calls of this process read, by its reference


def perform(order: Order, held: list[Any]) -> Answer:
    """Do a call on a worker of Ray."""
    import ray

    take(max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1))))
    with ExitStack() as stack:
        try:
            return _performed(order, _object(held), stack)
        except OSError as error:
            return Answer(error=unwritable(Path(error.filename or order.call.writes), error))
        except MemoryError:
            return Answer(out_of_memory="MemoryError")
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError" and "can't allocate memory" not in str(
                error
            ):
                raise
            return Answer(out_of_memory=str(error))


def _performed(order: Order, held: Any, stack: ExitStack) -> Answer:
    copied = (
        _copied(order, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="attnaudit-"))))
        if order.files is not None
        else {}
    )
    here = Here(order.folder, copied, order.device)
    if order.files is None:
        for path in order.call.reads:
            await_path(here.path(path), "the command")
    result = done(order.call, here, held, _Reporter(order.board, order.call.name))
    files = files_in(here.path(order.call.writes)) if copied and result.error is None else {}
    return Answer(result.answer, result.error, files=files)


def _object(held: list[Any]) -> Any:
    """The object behind a reference, kept for the next call that has the same."""
    import ray

    if not held:
        return None
    if held[0] not in _held:
        _held.clear()
        _held[held[0]] = ray.get(held[0])
    return _held[held[0]]


def _copied(order: Order, scratch: Path) -> dict[Path, Path]:
    """Write what the call reads into ``scratch``; returns where each path is there, the one that it writes among them.

    Paths lie there as they do for the driver: the tail of a trace is next to its files.
    """
    import ray

    sent: Any = ray.get(order.files)
    found = {
        path: scratch.joinpath(*path.parts[1:])
        for path in (*sent, order.folder / order.call.writes)
    }
    for path, files in sent.items():
        put_files(files, found[path])
    return found


def await_path(path: Path, writer: str) -> None:
    """Wait until a file or folder that the ``writer`` has written is seen on this machine. Raises RunError."""
    until = time.monotonic() + LATE
    while not path.exists():
        if time.monotonic() > until:
            got = f"not seen on {platform.node()} {LATE:.0f} s after {writer} wrote it"
            do = "mount it with a shorter cache of attributes, or use --unshared; the same command resumes"
            raise RunError(
                "run on a cluster", str(path), got, "a shared folder that shows what is written", do
            )
        time.sleep(NEWS)


def files_in(path: Path) -> dict[str, bytes]:
    """The content of a file, or of all files of a folder."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def put_files(files: Files, path: Path) -> None:
    """Put a file or a folder at ``path``, whole or not at all, in place of what is there. Raises RunError."""
    made = path.with_name(f".{path.name}.copied")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove(made)
        for name, content in files.items():
            place = made / name if name else made
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        _remove(path)
        made.rename(path)
    except OSError as error:
        _remove(made)
        raise unwritable(path, error) from error


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@dataclass
class _Reporter:
    """Reports the progress of a call to the board now and then."""

    board: Any
    name: str
    last: float = float("-inf")

    def __call__(self, what: str, finished: int, total: int) -> None:
        now = time.monotonic()
        if now >= self.last + NEWS:
            self.last = now
            share = f" ({100 * finished / total:.0f} %)" if finished and total else ""
            self.board.tell.remote(self.name, f"{what}{share}")
