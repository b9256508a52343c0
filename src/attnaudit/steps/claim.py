"""One process at a time in a folder: a file with a heartbeat.

It needs neither locks of the file system nor equal clocks, so it also holds in a folder that
several machines share.
"""

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from attnaudit.core import RunError, unwritable

NAME = ".claim.json"
BEAT, SILENT = 2.0, 10.0  # seconds between heartbeats, and without one until a process is dead


class BusyError(RunError):
    """Another process is at work in the folder."""


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[Callable[[], None]]:
    """Hold ``folder`` for this process.

    The claim of a process that was killed is taken over: at once where that process ran on this
    machine, else when its heartbeat has not changed for `SILENT` seconds of this machine's own
    clock. Folders that were made for the claim and are still empty at the end are removed.

    Yields:
        A function that raises BusyError if another process took this one for dead, as after a
        suspension.

    Raises:
        BusyError: If a process that is alive holds the folder.
        RunError: If the folder cannot be written.
    """
    path, owner = folder / NAME, uuid.uuid4().hex

    def check():
        now = _read(path)
        if now.get("owner", owner) != owner:  # one that cannot be read just now may be this one's
            raise _busy(path, now)

    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        while not _create(path, _claim(owner, 0)):
            _take_over(path)
    except OSError as error:
        raise unwritable(path, error) from error
    ended = threading.Event()
    thread = threading.Thread(target=_beat, args=(path, owner, ended), daemon=True)
    thread.start()
    try:
        yield check
    finally:
        ended.set()
        thread.join()
        if _read(path).get("owner") == owner:
            path.unlink(missing_ok=True)
        for empty in missing:
            with contextlib.suppress(OSError):
                empty.rmdir()


def _claim(owner: str, beats: int) -> str:
    return json.dumps({"owner": owner, **_process(), "pid": os.getpid(), "beats": beats})


def _process() -> dict[str, object]:
    """Return what tells whether a process number is one of this machine."""
    with contextlib.suppress(OSError):  # containers of one machine number their processes apart
        return {"host": socket.gethostname(), "numbers": Path("/proc/self/ns/pid").stat().st_ino}
    return {"host": socket.gethostname(), "numbers": None}


def _create(path: Path, text: str) -> bool:
    """Make the claim, unless there is one; return True if it was made."""
    own = _beside(path)
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        own.write_text(text, encoding="utf-8")
        # A link to a whole file: one process alone can be the first to make it, on NFS too.
        os.link(own, path)
    except (FileExistsError, FileNotFoundError):
        # There is a claim, or another process is just removing the empty folder.
        if not path.parent.exists() and not (
            path.parent.parent.is_dir() and not path.parent.is_symlink()
        ):
            raise  # behind a link to nowhere no folder will ever be
        return False
    finally:
        own.unlink(missing_ok=True)
    return True


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}")


def _take_over(path: Path) -> None:
    """Remove a claim whose process is dead. Raises BusyError as soon as its heartbeat changes."""
    first, until = _read(path), time.monotonic() + SILENT
    while not _is_gone(first) and time.monotonic() < until:
        time.sleep(min(0.1, SILENT))
        now = _read(path)
        if now.get("owner") != first.get("owner") or not path.exists():
            return  # given back, or taken over by another
        if now != first:
            raise _busy(path, now)
    dead = _beside(path)
    with contextlib.suppress(FileNotFoundError):
        path.rename(dead)
        if _read(dead).get("owner") != first.get("owner"):
            dead.rename(path)  # another was faster, and its claim was caught
        dead.unlink(missing_ok=True)


def _busy(path: Path, claim: dict[str, object]) -> BusyError:
    got = f"process {claim.get('pid')} of {claim.get('host')} is at work there"
    do = "wait for it, or choose another --out"
    return BusyError("run", str(path.parent), got, "one process at a time", do)


def _is_gone(claim: dict[str, object]) -> bool:
    """Return True if the claim is of a process of this machine that has ended."""
    pid, known = claim.get("pid"), _process()
    if os.name != "posix" or not isinstance(pid, int) or {**claim, **known} != claim:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _beat(path: Path, owner: str, ended: threading.Event) -> None:
    """Count on until the end, or until the claim is seen to be another's."""
    beats, own = 0, _beside(path)
    while not ended.wait(BEAT):
        beats += 1
        with contextlib.suppress(OSError):
            # A claim that cannot be read just now may still be this process's own.
            if _read(path).get("owner", owner) != owner:
                break
            own.write_text(_claim(owner, beats), encoding="utf-8")
            own.replace(path)
    with contextlib.suppress(OSError):
        own.unlink(missing_ok=True)  # of a beat that failed, as on a full disk


def _read(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
